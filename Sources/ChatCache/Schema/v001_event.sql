CREATE TABLE event (
  -- The log: one row per committed change. It refers to what changed; the state is read when it is delivered.
  -- A change of messages names a stretch of positions; it changed the rows there whose version is this seq.
  seq INTEGER PRIMARY KEY,
  at INTEGER NOT NULL,
  kind INTEGER NOT NULL,
  source INTEGER NOT NULL,
  is_realtime INTEGER NOT NULL,
  channel INTEGER,
  user INTEGER,
  collection TEXT,
  from_at INTEGER,
  from_id INTEGER,
  to_at INTEGER,
  to_id INTEGER,
  -- The id of the request, gap, message or member that changed; of the link, its state.
  reference TEXT,
  -- Values that the tables do not have, as JSON fields without braces.
  detail TEXT
) STRICT;

-- answers: what changed in this channel since
CREATE INDEX event_by_channel ON event (channel, seq) WHERE channel IS NOT NULL;
-- answers: what changed for this user alone since
CREATE INDEX event_by_user ON event (user, seq) WHERE user IS NOT NULL;
-- answers: what changed for everybody since
CREATE INDEX event_for_all ON event (seq) WHERE channel IS NULL AND user IS NULL;
