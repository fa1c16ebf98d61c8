-- Each step of a lane (accepting, one try, one event) reads the rows it needs by an index, however long the lane is.

-- answers: the first pending row of a lane among messages, edits and deletes
CREATE INDEX outbox_heads ON outbox (user, channel_url, place)
WHERE kind NOT IN ('reaction', 'read') AND state NOT IN ('failed', 'canceled');
-- answers: which reactions and read marks of a lane are tried next
CREATE INDEX outbox_side ON outbox (user, channel_url, next_try_at)
WHERE kind IN ('reaction', 'read') AND state IN ('waiting', 'uncertain');
-- answers: which rows of a lane are under way
CREATE INDEX outbox_in_flight ON outbox (user, channel_url) WHERE state = 'in_flight';
-- answers: which rows of a lane wait for the link
CREATE INDEX outbox_interrupted ON outbox (user, channel_url, next_try_at)
WHERE state = 'uncertain' OR (state = 'waiting' AND error_code IS NOT NULL);
-- answers: which messages of a lane can be sent again or removed
CREATE INDEX outbox_ended ON outbox (user, channel_url, place) WHERE state IN ('failed', 'canceled');
-- answers: which changes follow an unsent message
CREATE INDEX outbox_followers ON outbox (follows) WHERE follows IS NOT NULL;
-- answers: which files of a lane have to be uploaded
CREATE INDEX outbox_uploads ON outbox (user, channel_url) WHERE upload IN ('needed', 'running');

-- answers: the pending changes of this message, and which of those of one kind and key goes first
DROP INDEX outbox_by_target;
CREATE INDEX outbox_by_target ON outbox (user, channel_url, target_id, kind, aspect, place)
WHERE target_id IS NOT NULL;

-- Nothing reads the tries of all lanes together.
DROP INDEX outbox_due;
