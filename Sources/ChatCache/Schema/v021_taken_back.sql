-- answers: which messages arrived though their sender had taken them back, and are to be deleted upstream
CREATE INDEX outbox_taken_back ON outbox (user, channel_url, target_id)
WHERE is_cancel_wanted = 1 AND target_id IS NOT NULL;
