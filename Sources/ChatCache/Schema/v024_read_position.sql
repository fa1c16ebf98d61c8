CREATE TABLE read_position (
  -- Up to when a member has read a channel, in channels with more than 100 such positions (channel.reader_count).
  channel INTEGER NOT NULL REFERENCES channel (id) ON DELETE CASCADE,
  user_id TEXT NOT NULL,
  read_at INTEGER NOT NULL,
  PRIMARY KEY (channel, user_id)
) STRICT, WITHOUT ROWID;

-- How many rows read_position has of the channel, and then read_receipts is {}. NULL: read_receipts has all positions.
ALTER TABLE channel ADD COLUMN reader_count INTEGER;
