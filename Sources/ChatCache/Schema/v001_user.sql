CREATE TABLE user (
  -- Somebody who connected here. Other people of the chat are only named inside messages and member lists.
  -- Never given twice: events of a user who was removed are nobody else's.
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  user_id TEXT NOT NULL UNIQUE,
  -- connected: kept in step; stopped: cache only, until PUT /v1/connection; closed: refused by the upstream (B5).
  standing TEXT NOT NULL CHECK (standing IN ('connected', 'stopped', 'closed')),
  -- Whether all of the user's channels were listed once (B11).
  is_synced INTEGER NOT NULL DEFAULT 0,
  -- The place in the upstream's channel changelog, or NULL before the first listing ended.
  channel_token TEXT,
  -- When the upstream first said that this user is gone; a second time later closes the partition.
  refused_at INTEGER,
  closed_at INTEGER,
  seen_at INTEGER NOT NULL,
  -- The sequence of the last event that concerns this user alone.
  version INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE TABLE ticket (
  -- A ticket for an event stream that was first used in time: it stays good until its end, over starts (B51).
  -- The code is what signs the ticket; the ticket cannot be made of it.
  code BLOB PRIMARY KEY,
  user INTEGER NOT NULL REFERENCES user (id) ON DELETE CASCADE,
  -- Seconds since 1970, as tokens count.
  expires_at INTEGER NOT NULL,
  used_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- answers: a user's tickets, newest first (the limit of each user)
CREATE INDEX ticket_by_user ON ticket (user, used_at);
-- answers: which tickets have ended
CREATE INDEX ticket_by_end ON ticket (expires_at);
