CREATE TABLE upload (
  -- The file of an unsent message, whose bytes are in the folder `spool` until the message is sent or removed.
  -- The row of `outbox`; both are deleted together, by hand: a cascade would cost each send.
  row INTEGER PRIMARY KEY,
  -- Its name there.
  file TEXT NOT NULL,
  -- SHA-256 of its bytes.
  hash BLOB NOT NULL,
  size INTEGER NOT NULL,
  -- The client's name and media type of it.
  name TEXT NOT NULL,
  mime TEXT NOT NULL,
  -- Where the chat server has it, once it was uploaded: never uploaded again.
  url TEXT,
  -- How much of it was told to be uploaded, in percent; it never goes back.
  progress INTEGER NOT NULL DEFAULT 0 CHECK (progress BETWEEN 0 AND 100)
) STRICT;

-- answers: which file of a lane is uploaded next
DROP INDEX outbox_uploads;
CREATE INDEX outbox_uploads ON outbox (user, channel_url, next_try_at)
WHERE upload = 'needed' AND state = 'waiting';
-- answers: which file of a lane is being uploaded
CREATE INDEX outbox_uploading ON outbox (user, channel_url) WHERE upload = 'running';
