CREATE TABLE doubted (
  -- A message about whose existence answers disagree: a listing lacked a stored message, or showed a deleted one. It is
  -- served as before until the upstream is asked for it by its id (B27).
  channel INTEGER NOT NULL REFERENCES channel (id) ON DELETE CASCADE,
  message_id INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  -- The log's sequence at the request whose answer cast the doubt.
  asked_at INTEGER NOT NULL,
  -- Whether that answer listed messages on both sides of it: if it exists all the same, others may be missing there.
  is_inside INTEGER NOT NULL,
  PRIMARY KEY (channel, message_id)
) STRICT, WITHOUT ROWID;

-- The log's sequence when the upstream called the message deleted: no earlier request brings it back (B21).
ALTER TABLE tombstone ADD COLUMN seq INTEGER NOT NULL DEFAULT 0;
