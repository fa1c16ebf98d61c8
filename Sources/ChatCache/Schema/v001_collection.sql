CREATE TABLE collection (
  -- A view that a client opened: a list of channels or a chat. Only the client's load calls move its window, so that
  -- it survives a restart (B22). If the row is lost, the client opens the view again.
  id TEXT PRIMARY KEY,
  user INTEGER NOT NULL REFERENCES user (id) ON DELETE CASCADE,
  kind TEXT NOT NULL CHECK (kind IN ('channels', 'messages')),
  -- Of a message collection: the channel.
  channel INTEGER,
  channel_url TEXT NOT NULL DEFAULT '',
  -- The parameters of the opening, as the answers show them: a JSON object.
  query BLOB NOT NULL,
  -- The window that the client has loaded: a JSON object.
  loaded BLOB NOT NULL,
  opened_at INTEGER NOT NULL,
  -- When the client last asked for it, stored now and then.
  accessed_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- answers: a user's collections, oldest use first (the limit of each user)
CREATE INDEX collection_by_user ON collection (user, accessed_at);
