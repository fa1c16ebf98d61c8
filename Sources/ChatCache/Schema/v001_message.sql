CREATE TABLE message (
  -- One confirmed message, shared by all members, clustered in the order it is read.
  channel INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  message_id INTEGER NOT NULL,
  -- The columns that every page reads come first: SQLite decodes a row from its front, as far as needed.
  -- The message this one replies to.
  parent_id INTEGER,
  -- 1 silent, 2 a reply that is shown in the channel too, 4 a reply, so that a reader of flags needs no parent_id
  flags INTEGER NOT NULL,
  -- The message as the API answers it, without braces and without the parts below.
  body BLOB NOT NULL,
  -- The sequence of the event that last changed this row; that event knows why.
  version INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  -- 0 user, 1 file, 2 admin, 3 other
  type INTEGER NOT NULL,
  -- The time of the message this one replies to, for floors.
  parent_at INTEGER,
  sender TEXT NOT NULL,
  custom_type TEXT NOT NULL,
  -- The users it mentions, for counts: '*' everybody, else ["user_id", …], or NULL for nobody.
  mentions TEXT,
  -- Optional parts, each one JSON value or NULL.
  reactions BLOB,
  metaarray BLOB,
  thread_info BLOB,
  parent BLOB,
  PRIMARY KEY (channel, created_at, message_id)
) STRICT, WITHOUT ROWID;

-- answers: the position of the message with this id
CREATE INDEX message_by_id ON message (channel, message_id);
-- answers: the replies of a thread in order
CREATE INDEX message_by_parent ON message (channel, parent_id, created_at, message_id) WHERE parent_id IS NOT NULL;

CREATE TABLE tombstone (
  -- A message that was deleted upstream: a late page cannot bring it back (B21).
  channel INTEGER NOT NULL,
  message_id INTEGER NOT NULL,
  deleted_at INTEGER NOT NULL,
  PRIMARY KEY (channel, message_id)
) STRICT, WITHOUT ROWID;

-- answers: which tombstones are old enough to forget
CREATE INDEX tombstone_by_age ON tombstone (deleted_at);
