-- A message after this position is new when it is stored for the first time: the user's feed tells it as received. The
-- messages up to it are from before a user here was in the channel, or they were cleared or evicted. NULL: not known yet.
ALTER TABLE channel ADD COLUMN new_after_at INTEGER;
ALTER TABLE channel ADD COLUMN new_after_id INTEGER;
-- The newest time (ms, the chat server's clock) in the user's first listing of channels. In a channel that the user
-- gains later, messages before it are not new. NULL: before the first page.
ALTER TABLE user ADD COLUMN listed_to INTEGER;
-- The sequence of the log's last event before the user came into the channel.
ALTER TABLE membership ADD COLUMN gained_version INTEGER NOT NULL DEFAULT 0;

UPDATE channel
SET (new_after_at, new_after_id) = (
  SELECT m.created_at, m.message_id
  FROM message AS m
  WHERE m.channel = channel.id
  ORDER BY m.created_at DESC, m.message_id DESC
  LIMIT 1
);
-- Empty channels of which the newest end was listed, and channels of which all is evicted.
UPDATE channel
SET new_after_at = coalesce(evicted_at, 0), new_after_id = coalesce(evicted_id, -9223372036854775808)
WHERE new_after_at IS NULL
  AND (
    evicted_at IS NOT NULL
    OR EXISTS (
      SELECT 1 FROM segment AS s WHERE s.channel = channel.id AND s.kind = 2 AND s.confirmed_at IS NOT NULL
    )
  );
UPDATE user
SET listed_to = min(
  coalesce((SELECT max(last_message_at) FROM channel), 0), unixepoch() * 1000)
WHERE is_synced = 1;
