CREATE TABLE due (
  -- A note of what a webhook named (B34), kept until the upstream was asked about it.
  id INTEGER PRIMARY KEY,
  at INTEGER NOT NULL,
  channel_url TEXT NOT NULL,
  -- newest: list from the newest end; message: fetch that one; channel: refresh the channel;
  -- missed: ask for all changes of messages, instead of more than 100 ids, or if no member was connected
  kind TEXT NOT NULL CHECK (kind IN ('newest', 'missed', 'message', 'channel')),
  message_id INTEGER NOT NULL DEFAULT 0,
  -- The event source that the webhook names, for the changes that are found.
  source INTEGER NOT NULL DEFAULT 0,
  -- The users whose membership may have changed, one per line.
  users TEXT NOT NULL DEFAULT '',
  UNIQUE (channel_url, kind, message_id)
) STRICT;
