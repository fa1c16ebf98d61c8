CREATE TABLE doubted (
  -- A message of which answers disagree whether it is there: a listing lacked one that is stored, or showed one that
  -- was deleted. Until the upstream is asked for it by its id it is served as before (B27).
  channel INTEGER NOT NULL REFERENCES channel (id) ON DELETE CASCADE,
  message_id INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  -- The log's sequence when the answer was asked for that casts the doubt.
  asked_at INTEGER NOT NULL,
  -- Whether that answer listed messages on both sides of it: one that is there all the same shows that others may be
  -- missing, too.
  is_inside INTEGER NOT NULL,
  PRIMARY KEY (channel, message_id)
) STRICT, WITHOUT ROWID;

-- The log's sequence when the upstream called the message deleted: an answer asked for later that shows it wins (B21).
ALTER TABLE tombstone ADD COLUMN seq INTEGER NOT NULL DEFAULT 0;
