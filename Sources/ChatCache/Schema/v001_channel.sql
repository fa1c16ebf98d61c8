CREATE TABLE channel (
  -- One group channel, shared by all its members here. Values that differ by user are in membership.
  -- No id is given twice: the id of a deleted channel must not come to mean another one.
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  channel_url TEXT NOT NULL UNIQUE,
  name TEXT NOT NULL,
  -- The name, Unicode-lowercased: list order compares its UTF-8 bytes (B7).
  name_key TEXT NOT NULL,
  custom_type TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  is_distinct INTEGER NOT NULL,
  is_public INTEGER NOT NULL,
  is_super INTEGER NOT NULL,
  is_frozen INTEGER NOT NULL,
  member_count INTEGER NOT NULL,
  joined_member_count INTEGER NOT NULL,
  -- The newest message known: its position, and the message as the API answers it.
  last_message_at INTEGER,
  last_message_id INTEGER,
  last_message BLOB,
  -- The fields that are the same for every member, as the API answers them, without braces.
  body BLOB NOT NULL,
  -- {"user_id": ms, …}
  read_receipts BLOB NOT NULL,
  -- {"key": "value", …}, or NULL while never fetched.
  metadata BLOB,
  -- Where the upstream's message changelog of this channel goes on. NULL: edits are found by listing again.
  message_token TEXT,
  -- When a view of the channel was last opened or disposed of, or a page of it read (B22, B56).
  accessed_at INTEGER NOT NULL DEFAULT 0,
  cached_messages INTEGER NOT NULL DEFAULT 0,
  cached_bytes INTEGER NOT NULL DEFAULT 0,
  -- The sequence of the last event in this channel, and the time of the last one that changed the chat itself.
  version INTEGER NOT NULL DEFAULT 0,
  updated_at INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE TABLE channel_metadata (
  -- One key of a channel's metadata, for filters and order.
  channel INTEGER NOT NULL REFERENCES channel (id) ON DELETE CASCADE,
  key TEXT NOT NULL,
  value TEXT NOT NULL,
  value_key TEXT NOT NULL,
  PRIMARY KEY (channel, key)
) STRICT, WITHOUT ROWID;

CREATE TABLE member (
  -- Everybody in a channel, whether or not they use this service: for member lists, filters and read positions.
  channel INTEGER NOT NULL REFERENCES channel (id) ON DELETE CASCADE,
  user_id TEXT NOT NULL,
  nickname_key TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('joined', 'invited')),
  -- The member as the API answers it, without braces and without the read position.
  body BLOB NOT NULL,
  read_at INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (channel, user_id)
) STRICT, WITHOUT ROWID;

-- answers: the channels that a member is in (filters by user_ids)
CREATE INDEX member_by_user ON member (user_id, channel);

CREATE TABLE membership (
  -- A channel as one connected user sees it. No row: for this user the channel does not exist (B1).
  user INTEGER NOT NULL REFERENCES user (id) ON DELETE CASCADE,
  channel INTEGER NOT NULL REFERENCES channel (id) ON DELETE CASCADE,
  -- Copies of the channel's columns, so that a list in order is one walk along an index.
  channel_url TEXT NOT NULL,
  name_key TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  -- The newest message's time at or after the floor; without one the creation time less 2^52, below every real time.
  sort_at INTEGER NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('joined', 'invited')),
  role TEXT NOT NULL CHECK (role IN ('', 'operator', 'none')),
  is_muted INTEGER NOT NULL DEFAULT 0,
  hidden_state TEXT NOT NULL DEFAULT 'unhidden'
    CHECK (hidden_state IN ('unhidden', 'hidden_allow_auto_unhide', 'hidden_prevent_auto_unhide')),
  -- The user may not see messages before this moment (B23).
  floor_at INTEGER NOT NULL DEFAULT 0,
  last_read_at INTEGER NOT NULL DEFAULT 0,
  unread INTEGER NOT NULL DEFAULT 0,
  mentions INTEGER NOT NULL DEFAULT 0,
  -- The position up to which the upstream counted; Perch added each later stored message (B68).
  counted_at INTEGER NOT NULL DEFAULT 0,
  counted_id INTEGER NOT NULL DEFAULT 0,
  joined_at INTEGER NOT NULL DEFAULT 0,
  invited_at INTEGER NOT NULL DEFAULT 0,
  -- The inviter, as the API answers it, or NULL.
  inviter BLOB,
  -- The number of the last sweep that showed the channel (B11).
  sweep INTEGER NOT NULL DEFAULT 0,
  -- The sequence of the last event that changed this row or its channel's position in the list.
  version INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (user, channel)
) STRICT, WITHOUT ROWID;

-- answers: the connected members of a channel
CREATE INDEX membership_by_channel ON membership (channel, user);
-- answers: a user's channels by newest message
CREATE INDEX membership_by_last_message ON membership (user, sort_at DESC, channel_url);
-- answers: a user's channels by creation
CREATE INDEX membership_by_creation ON membership (user, created_at DESC, channel_url);
-- answers: a user's channels by name
CREATE INDEX membership_by_name ON membership (user, (name_key = ''), name_key, channel_url);
-- answers: the members whose hidden channel comes back with its next message
CREATE INDEX membership_hidden ON membership (channel) WHERE hidden_state = 'hidden_allow_auto_unhide';
-- answers: a user's unread totals
CREATE INDEX membership_unread ON membership (user, unread, mentions) WHERE unread > 0 OR mentions > 0;
