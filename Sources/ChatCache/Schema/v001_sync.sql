CREATE TABLE due (
  -- A doorbell that rang (B34): what must be asked upstream before it is forgotten.
  id INTEGER PRIMARY KEY,
  at INTEGER NOT NULL,
  channel_url TEXT NOT NULL,
  -- newest: list from the newest end; message: fetch that one; channel: refresh the channel;
  -- missed: ask what happened to messages since, in place of more than 100 of them, or where nobody was there
  kind TEXT NOT NULL CHECK (kind IN ('newest', 'missed', 'message', 'channel')),
  message_id INTEGER NOT NULL DEFAULT 0,
  -- The event source the doorbell names, for the changes that come of it.
  source INTEGER NOT NULL DEFAULT 0,
  -- The users whose membership may have changed, one a line.
  users TEXT NOT NULL DEFAULT '',
  UNIQUE (channel_url, kind, message_id)
) STRICT;
