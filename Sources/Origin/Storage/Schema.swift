/// The stand-in's tables. A change of a message or of a member's view of a channel carries a *stamp*:
/// strictly rising microseconds, so that a changelog's `change_ts` (ms) and its token are the same kind
/// of number.
enum Schema {
  static let sql = people + messages + views

  private static let people = """
    CREATE TABLE IF NOT EXISTS user (
      user_id TEXT PRIMARY KEY,
      nickname TEXT NOT NULL,
      profile_url TEXT NOT NULL,
      metadata TEXT NOT NULL DEFAULT '{}',  -- a JSON object of strings
      access_token TEXT NOT NULL DEFAULT '',
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
      is_public INTEGER NOT NULL DEFAULT 0,
      is_super INTEGER NOT NULL DEFAULT 0,
      is_broadcast INTEGER NOT NULL DEFAULT 0,
      is_frozen INTEGER NOT NULL DEFAULT 0,
      metadata TEXT NOT NULL DEFAULT '{}',  -- a JSON object of strings
      metacounter TEXT NOT NULL DEFAULT '{}' -- a JSON object of whole numbers
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
      joined_at INTEGER NOT NULL,           -- ms
      invited_at INTEGER,                   -- ms
      inviter TEXT,
      sort_at INTEGER NOT NULL,             -- ms of the last message, else of the creation; -1: as in crowd
      stamp INTEGER NOT NULL,               -- of the last change of this member's view; see also crowd
      PRIMARY KEY (channel, user_id)
    ) STRICT, WITHOUT ROWID;
    -- answers: a user's channels, newest message first
    CREATE INDEX IF NOT EXISTS member_sorted ON member (user_id, sort_at, channel);
    -- answers: a user's channels, newest first
    CREATE INDEX IF NOT EXISTS member_created ON member (user_id, channel);
    -- answers: what changed for a user since a stamp
    CREATE INDEX IF NOT EXISTS member_changed ON member (user_id, stamp);
    -- answers: how many are in a channel, and how far each has read
    CREATE INDEX IF NOT EXISTS member_read ON member (channel, state, user_id, read_at);
    -- answers: whose list the next message brings the channel back to
    CREATE INDEX IF NOT EXISTS member_hidden ON member (channel)
      WHERE hidden_state = 'hidden_allow_auto_unhide';

    -- Channels of many members: what is the same for all of them.
    CREATE TABLE IF NOT EXISTS crowd (
      channel INTEGER PRIMARY KEY REFERENCES channel ON DELETE CASCADE,
      sort_at INTEGER NOT NULL,             -- ms of the last message, else of the creation
      stamp INTEGER NOT NULL,               -- of the last change of all members' view
      members INTEGER NOT NULL,
      joined INTEGER NOT NULL
    ) STRICT;
    -- answers: which crowds changed since a stamp
    CREATE INDEX IF NOT EXISTS crowd_changed ON crowd (stamp);

    CREATE TRIGGER IF NOT EXISTS crowd_entered AFTER INSERT ON member BEGIN
      UPDATE crowd
      SET members = members + 1, joined = joined + (new.state = 'joined')
      WHERE channel = new.channel;
    END;
    CREATE TRIGGER IF NOT EXISTS crowd_left AFTER DELETE ON member BEGIN
      UPDATE crowd
      SET members = members - 1, joined = joined - (old.state = 'joined')
      WHERE channel = old.channel;
    END;
    CREATE TRIGGER IF NOT EXISTS crowd_accepted AFTER UPDATE OF state ON member BEGIN
      UPDATE crowd
      SET joined = joined + (new.state = 'joined') - (old.state = 'joined')
      WHERE channel = new.channel;
    END;

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

    """

  private static let messages = """
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
      file TEXT NOT NULL,                   -- a JSON object, without the url
      file_url TEXT NOT NULL,               -- one that begins with / is this server's own
      reactions TEXT NOT NULL DEFAULT '[]', -- a JSON list of {key, user_ids, updated_at}
      dedup_id TEXT NOT NULL,
      parent INTEGER,
      thread_at INTEGER NOT NULL DEFAULT 0, -- ms of the last change among its replies
      is_reply_to_channel INTEGER NOT NULL,
      is_silent INTEGER NOT NULL,
      is_counted INTEGER NOT NULL           -- whether it makes the channel unread
    ) STRICT;
    -- answers: a window around a time; the newest message
    CREATE INDEX IF NOT EXISTS message_window ON message (channel, created_at, id);
    -- answers: how many messages of others came since a time, without touching a row
    CREATE INDEX IF NOT EXISTS message_counted ON message (channel, created_at, user_id, is_counted)
      WHERE is_counted = 1;
    -- answers: the replies of a message
    CREATE INDEX IF NOT EXISTS message_replies ON message (parent, created_at) WHERE parent IS NOT NULL;

    CREATE TABLE IF NOT EXISTS mention (
      channel INTEGER NOT NULL,
      user_id TEXT NOT NULL,                -- empty where the whole channel is meant
      created_at INTEGER NOT NULL,          -- the message's
      id INTEGER NOT NULL REFERENCES message ON DELETE CASCADE,
      sender TEXT NOT NULL,
      PRIMARY KEY (channel, user_id, created_at, id)
    ) STRICT, WITHOUT ROWID;
    -- answers: the mentions of a message that is edited or deleted
    CREATE INDEX IF NOT EXISTS mention_message ON mention (id);

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

    CREATE TABLE IF NOT EXISTS upload (
      id INTEGER PRIMARY KEY,
      name TEXT NOT NULL,
      type TEXT NOT NULL,
      bytes BLOB NOT NULL
    ) STRICT;

    """

  /// The columns that answers show of a message and of a member.
  private static let views = """
    CREATE VIEW IF NOT EXISTS shown_message AS
    SELECT
      m.id, m.created_at, m.updated_at, m.type, m.user_id, m.message, m.data, m.custom_type, m.mention_type,
      m.mentioned, m.metaarray, m.file, m.file_url, m.reactions, m.dedup_id, m.parent, m.thread_at,
      m.is_reply_to_channel, m.is_silent, u.nickname, u.profile_url, u.metadata, o.is_operator, m.channel
    FROM message m
    LEFT JOIN user u ON u.user_id = m.user_id
    LEFT JOIN member o ON o.channel = m.channel AND o.user_id = m.user_id;

    CREATE VIEW IF NOT EXISTS shown_member AS
    SELECT
      m.user_id, m.state, m.is_operator, m.is_muted, m.hidden_state, m.read_at, m.floor, m.joined_at,
      m.invited_at, m.inviter, u.nickname, u.profile_url, u.metadata, u.is_active, u.created_at, m.channel
    FROM member m
    JOIN user u ON u.user_id = m.user_id;
    """
}
