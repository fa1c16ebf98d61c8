CREATE TABLE meta (
  -- What this file is: epoch (the identity of its event log), upstream (the one it is bound to), marker (counts the
  -- empty commits after failed ones), oldest_event (the first sequence from which the log is complete), latest_moment
  -- (the highest clock ever seen), lost (ms of clock time between runs), cleared (the event with which everything was
  -- cleared), evicting and untold_eviction (an eviction pass under way, and its stretch without an event).
  key TEXT PRIMARY KEY,
  value ANY NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE run (
  -- One start of the service on this file. A run's last sequence is the one before the next run's first.
  run INTEGER PRIMARY KEY,
  first_seq INTEGER NOT NULL,
  started_at INTEGER NOT NULL
) STRICT;

CREATE TABLE capability (
  -- Whether the upstream offers a call to Perch's key, once that is known: 1 yes, 0 no.
  name TEXT PRIMARY KEY,
  offered INTEGER NOT NULL,
  probed_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
