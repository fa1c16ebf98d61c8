CREATE TABLE segment (
  -- A stretch of a channel's line of messages. A channel's rows tile its line: the first begins at
  -- (0, -2^63), each ends right before the next begins, the last is the tail and ends at (2^63-1, 2^63-1).
  channel INTEGER NOT NULL,
  lo_at INTEGER NOT NULL,
  lo_id INTEGER NOT NULL,
  hi_at INTEGER NOT NULL,
  hi_id INTEGER NOT NULL,
  -- 0 covered: the cache has all that the upstream has there; 1 gap; 2 tail: from the newest covered position to now
  kind INTEGER NOT NULL CHECK (kind IN (0, 1, 2)),
  -- A gap's id; in the tail's row the id of the channel's next gap.
  id INTEGER,
  -- Of a gap: 0 never loaded, 1 disconnected, 2 limited, 3 evicted
  reason INTEGER,
  -- Of a gap: 0 idle, 1 filling, 2 huge
  state INTEGER,
  estimated_missing INTEGER,
  -- Of the tail: when a listing last reached the end, and the link's generation then.
  confirmed_at INTEGER,
  generation INTEGER,
  -- Of a covered stretch: changes may have been missed; it is served and listed again.
  is_unverified INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (channel, lo_at, lo_id)
) STRICT, WITHOUT ROWID;

-- answers: which gaps are being filled
CREATE INDEX segment_by_kind ON segment (kind, state);
