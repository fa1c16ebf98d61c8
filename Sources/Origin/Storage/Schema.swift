/// The stand-in's tables. A change of a message or of a member's view of a channel carries a *stamp*:
/// strictly rising microseconds, so that a changelog's `change_ts` (ms) and its token are the same kind
/// of number.
enum Schema {
  static let sql = """
    CREATE TABLE IF NOT EXISTS user (
      user_id TEXT PRIMARY KEY,
      nickname TEXT NOT NULL,
      profile_url TEXT NOT NULL,
      metadata TEXT NOT NULL DEFAULT '{}',  -- a JSON object of strings
      is_active INTEGER NOT NULL DEFAULT 1,
      created_at INTEGER NOT NULL           -- seconds
    ) STRICT;

    CREATE TABLE IF NOT EXISTS channel (
      id INTEGER PRIMARY KEY,
      url TEXT NOT NULL UNIQUE,
      name TEXT NOT NULL,
      cover_url TEXT NOT NULL,
      data TEXT NOT NULL,
      custom_type TEXT NOT NULL,
      created_at INTEGER NOT NULL,          -- seconds
      distinct_key TEXT,                    -- the sorted members of a distinct channel
      is_public INTEGER NOT NULL,
      is_super INTEGER NOT NULL,
      is_frozen INTEGER NOT NULL DEFAULT 0,
      metadata TEXT NOT NULL DEFAULT '{}'
    ) STRICT;
    -- answers: the distinct channel of exactly these members
    CREATE INDEX IF NOT EXISTS channel_distinct ON channel (distinct_key) WHERE distinct_key IS NOT NULL;

    CREATE TABLE IF NOT EXISTS member (
      channel INTEGER NOT NULL REFERENCES channel ON DELETE CASCADE,
      user_id TEXT NOT NULL,
      state TEXT NOT NULL,                  -- invited or joined
      is_operator INTEGER NOT NULL DEFAULT 0,
      is_muted INTEGER NOT NULL DEFAULT 0,
      hidden_state TEXT NOT NULL DEFAULT 'unhidden',
      read_at INTEGER NOT NULL DEFAULT 0,   -- ms
      floor INTEGER NOT NULL DEFAULT 0,     -- ms; messages at or before it are not this member's
      joined_at INTEGER NOT NULL,           -- seconds
      sort_at INTEGER NOT NULL,             -- ms of the last message, else of the creation
      stamp INTEGER NOT NULL,               -- of the last change of this member's view
      PRIMARY KEY (channel, user_id)
    ) STRICT, WITHOUT ROWID;
    -- answers: a user's channels, newest message first
    CREATE INDEX IF NOT EXISTS member_sorted ON member (user_id, sort_at, channel);
    -- answers: what changed for a user since a stamp
    CREATE INDEX IF NOT EXISTS member_changed ON member (user_id, stamp);

    CREATE TABLE IF NOT EXISTS departure (
      user_id TEXT NOT NULL,
      url TEXT NOT NULL,
      stamp INTEGER NOT NULL,               -- when the channel left this user's list
      PRIMARY KEY (user_id, url)
    ) STRICT, WITHOUT ROWID;
    -- answers: what left a user's list since a stamp
    CREATE INDEX IF NOT EXISTS departure_changed ON departure (user_id, stamp);

    CREATE TABLE IF NOT EXISTS ban (
      channel INTEGER NOT NULL REFERENCES channel ON DELETE CASCADE,
      user_id TEXT NOT NULL,
      PRIMARY KEY (channel, user_id)
    ) STRICT, WITHOUT ROWID;

    CREATE TABLE IF NOT EXISTS message (
      id INTEGER PRIMARY KEY AUTOINCREMENT,
      channel INTEGER NOT NULL REFERENCES channel ON DELETE CASCADE,
      created_at INTEGER NOT NULL,          -- ms
      updated_at INTEGER NOT NULL DEFAULT 0,
      type TEXT NOT NULL,                   -- MESG, FILE or ADMM
      user_id TEXT,                         -- null for admin messages
      message TEXT NOT NULL,
      data TEXT NOT NULL,
      custom_type TEXT NOT NULL,
      mention_type TEXT NOT NULL,
      mentioned TEXT NOT NULL,              -- a JSON list of user ids
      metaarray TEXT NOT NULL,              -- a JSON list of {key, value: []}
      file TEXT NOT NULL,                   -- a JSON object
      reactions TEXT NOT NULL DEFAULT '[]', -- a JSON list of {key, user_ids, updated_at}
      parent INTEGER,
      is_reply_to_channel INTEGER NOT NULL,
      is_silent INTEGER NOT NULL
    ) STRICT;
    -- answers: a window around a time; the newest message
    CREATE INDEX IF NOT EXISTS message_window ON message (channel, created_at, id);
    -- answers: the replies of a message
    CREATE INDEX IF NOT EXISTS message_replies ON message (parent, created_at) WHERE parent IS NOT NULL;

    CREATE TABLE IF NOT EXISTS message_change (
      channel INTEGER NOT NULL REFERENCES channel ON DELETE CASCADE,
      id INTEGER NOT NULL,
      stamp INTEGER NOT NULL,               -- of the last change
      is_deleted INTEGER NOT NULL,
      PRIMARY KEY (channel, id)
    ) STRICT, WITHOUT ROWID;
    -- answers: what changed in a channel since a stamp
    CREATE INDEX IF NOT EXISTS message_changed ON message_change (channel, stamp);

    CREATE TABLE IF NOT EXISTS sent (
      channel INTEGER NOT NULL REFERENCES channel ON DELETE CASCADE,
      user_id TEXT NOT NULL,
      dedup_id TEXT NOT NULL,
      id INTEGER NOT NULL,
      PRIMARY KEY (channel, user_id, dedup_id)
    ) STRICT, WITHOUT ROWID;
    """
}
