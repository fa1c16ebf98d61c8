CREATE TABLE thread (
  -- A stretch of a thread that was listed as a thread: all replies to that message in it are in message, whatever the
  -- channel's own line (segment) says there. Stretches of one thread do not touch.
  channel INTEGER NOT NULL REFERENCES channel (id) ON DELETE CASCADE,
  -- The message that is replied to.
  parent INTEGER NOT NULL,
  lo_at INTEGER NOT NULL,
  lo_id INTEGER NOT NULL,
  hi_at INTEGER NOT NULL,
  hi_id INTEGER NOT NULL,
  -- Of the newest stretch: when a listing last reached the thread's newest end, and the link's generation then.
  confirmed_at INTEGER,
  generation INTEGER,
  PRIMARY KEY (channel, parent, lo_at, lo_id)
) STRICT, WITHOUT ROWID;
