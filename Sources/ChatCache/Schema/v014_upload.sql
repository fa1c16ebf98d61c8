CREATE TABLE upload (
  -- The file of an unsent message, whose bytes are in the folder `spool` until the message is sent or removed.
  -- The id of the row in `outbox`. The writer deletes both: ON DELETE CASCADE would cost each send.
  row INTEGER PRIMARY KEY,
  -- The file's name in the folder.
  file TEXT NOT NULL,
  -- SHA-256 of its bytes.
  hash BLOB NOT NULL,
  size INTEGER NOT NULL,
  -- The client's name and media type for it.
  name TEXT NOT NULL,
  mime TEXT NOT NULL,
  -- Its url at the chat server, once it was uploaded: it is never uploaded again.
  url TEXT,
  -- The last progress that an event told, in percent; it never falls.
  progress INTEGER NOT NULL DEFAULT 0 CHECK (progress BETWEEN 0 AND 100)
) STRICT;

-- answers: which file of a lane is uploaded next
DROP INDEX outbox_uploads;
CREATE INDEX outbox_uploads ON outbox (user, channel_url, next_try_at)
WHERE upload = 'needed' AND state = 'waiting';
-- answers: which file of a lane is being uploaded
CREATE INDEX outbox_uploading ON outbox (user, channel_url) WHERE upload = 'running';
