CREATE TABLE meta (
  -- What this file is: epoch (the identity of its event log), upstream (the one it is bound to), marker (see Store),
  -- oldest_event (the first sequence from which the log is whole), latest_moment (the highest clock ever seen),
  -- cleared (the event with which everything was cleared).
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
  -- What the upstream offers to a server-side key, once probed: 1 yes, 0 no.
  name TEXT PRIMARY KEY,
  offered INTEGER NOT NULL,
  probed_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
