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
