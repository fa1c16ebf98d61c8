CREATE TABLE user (
  -- A user who connected here. Other users of the chat are only named in messages and member lists.
  -- No id is given twice, so that events of a removed user never become another user's.
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  user_id TEXT NOT NULL UNIQUE,
  -- connected: synced; stopped: cache only, until PUT /v1/connection; closed: refused by the upstream (B5).
  standing TEXT NOT NULL CHECK (standing IN ('connected', 'stopped', 'closed')),
  -- Whether all of the user's channels were listed once (B11).
  is_synced INTEGER NOT NULL DEFAULT 0,
  -- Where the upstream's channel changelog goes on, or NULL before the first listing ended.
  channel_token TEXT,
  -- When the upstream first said that this user is gone; a second time later closes the user.
  refused_at INTEGER,
  closed_at INTEGER,
  seen_at INTEGER NOT NULL,
  -- The sequence of the last event that concerns this user alone.
  version INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE TABLE ticket (
  -- A ticket for an event stream that was first used in time: it stays valid until its end, over restarts (B51).
  -- The ticket's signature; the ticket cannot be made from it.
  code BLOB PRIMARY KEY,
  user INTEGER NOT NULL REFERENCES user (id) ON DELETE CASCADE,
  -- Seconds since 1970, as in tokens.
  expires_at INTEGER NOT NULL,
  used_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- answers: a user's tickets, newest first (the limit of each user)
CREATE INDEX ticket_by_user ON ticket (user, used_at);
-- answers: which tickets have expired
CREATE INDEX ticket_by_end ON ticket (expires_at);
