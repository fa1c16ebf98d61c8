-- A message that is stored for the first time is new if it was created later (ms, the chat server's clock): the user's
-- feed may tell it as received. The earliest new_after of the channel's members here; NULL: not known yet.
ALTER TABLE channel ADD COLUMN new_after INTEGER;
-- Messages up to this position were stored once, and then cleared or evicted: they are not new again. NULL: none were.
ALTER TABLE channel ADD COLUMN known_to_at INTEGER;
ALTER TABLE channel ADD COLUMN known_to_id INTEGER;
-- The newest time (ms, the chat server's clock) in the user's first listing of channels. In a channel that the user
-- gains later, messages before it are not new to the user. NULL: before the first page.
ALTER TABLE user ADD COLUMN listed_to INTEGER;
-- Messages that were created later are new to the user. NULL: those that are new in the channel.
ALTER TABLE membership ADD COLUMN new_after INTEGER;
-- The sequence of the event by which the user joined the channel, as far as this cache knows. Events of kind 22 tell
-- the user of the new messages that the cache had by then; earlier events do not.
ALTER TABLE membership ADD COLUMN gained_version INTEGER NOT NULL DEFAULT 0;

UPDATE channel
SET new_after = (
  SELECT m.created_at
  FROM message AS m
  WHERE m.channel = channel.id
  ORDER BY m.created_at DESC, m.message_id DESC
  LIMIT 1
);
-- Empty channels of which the newest end was listed, and channels of which all is evicted.
UPDATE channel
SET new_after = coalesce(evicted_at, 0)
WHERE new_after IS NULL
  AND (
    evicted_at IS NOT NULL
    OR EXISTS (
      SELECT 1 FROM segment AS s WHERE s.channel = channel.id AND s.kind = 2 AND s.confirmed_at IS NOT NULL
    )
  );
UPDATE user
SET listed_to = min(coalesce((SELECT max(last_message_at) FROM channel), 0), unixepoch() * 1000)
WHERE is_synced = 1;
