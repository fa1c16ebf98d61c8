CREATE TABLE read_position (
  -- Up to when a member has read a channel, in channels with more than 100 such positions (channel.reader_count).
  channel INTEGER NOT NULL REFERENCES channel (id) ON DELETE CASCADE,
  user_id TEXT NOT NULL,
  read_at INTEGER NOT NULL,
  PRIMARY KEY (channel, user_id)
) STRICT, WITHOUT ROWID;

-- The number of the channel's rows in read_position; read_receipts is then {}. NULL: read_receipts has all positions.
ALTER TABLE channel ADD COLUMN reader_count INTEGER;

-- The digest of the last answer of the upstream whose positions read_position has, or later ones. NULL: none.
ALTER TABLE channel ADD COLUMN reader_digest INTEGER;
-- When the members and read positions of a member's own poll were last stored, in a crowded channel (ms).
ALTER TABLE channel ADD COLUMN crowd_stored_at INTEGER NOT NULL DEFAULT 0;

-- Channels with more than 100 positions. A hundred take 600 bytes at least.
INSERT INTO read_position (channel, user_id, read_at)
SELECT c.id, p.key, CAST(p.value AS INTEGER)
FROM channel AS c
JOIN json_each(
  CASE
    WHEN length(c.read_receipts) > 600 AND json_valid(CAST(c.read_receipts AS TEXT)) THEN CAST(c.read_receipts AS TEXT)
    ELSE '{}'
  END
) AS p
WHERE (
  SELECT count(*)
  FROM json_each(CASE WHEN json_valid(CAST(c.read_receipts AS TEXT)) THEN CAST(c.read_receipts AS TEXT) ELSE '{}' END)
) > 100
ON CONFLICT (channel, user_id) DO NOTHING;

UPDATE channel
SET
  reader_count = (SELECT count(*) FROM read_position AS p WHERE p.channel = channel.id),
  read_receipts = CAST('{}' AS BLOB)
WHERE id IN (SELECT channel FROM read_position);

UPDATE member
SET read_at = max(
  read_at,
  coalesce(
    (SELECT p.read_at FROM read_position AS p WHERE p.channel = member.channel AND p.user_id = member.user_id), 0
  )
)
WHERE channel IN (SELECT id FROM channel WHERE reader_count IS NOT NULL);
