CREATE TABLE collection (
  -- A view a client opened: a list of channels or a chat. Its window is moved by its load calls alone, so that it
  -- survives a start (B22). Derived: a lost one is opened again.
  id TEXT PRIMARY KEY,
  user INTEGER NOT NULL REFERENCES user (id) ON DELETE CASCADE,
  kind TEXT NOT NULL CHECK (kind IN ('channels', 'messages')),
  -- Of a message collection: where.
  channel INTEGER,
  channel_url TEXT NOT NULL DEFAULT '',
  -- What was asked at the opening, as the answers show it: a JSON object.
  query BLOB NOT NULL,
  -- What was loaded, as a JSON object.
  loaded BLOB NOT NULL,
  opened_at INTEGER NOT NULL,
  -- When somebody last asked for it, written down now and then.
  accessed_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- answers: a user's collections, oldest use first (the limit of each user)
CREATE INDEX collection_by_user ON collection (user, accessed_at);
