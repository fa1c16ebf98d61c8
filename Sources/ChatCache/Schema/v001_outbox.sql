CREATE TABLE outbox (
  -- An unsent message or change: never dropped, never rebuilt. The ids are in the order of acceptance.
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  user INTEGER NOT NULL REFERENCES user (id),
  channel_url TEXT NOT NULL,
  request_id TEXT NOT NULL,
  kind TEXT NOT NULL CHECK (kind IN ('message', 'file', 'edit', 'delete', 'reaction', 'read')),
  state TEXT NOT NULL CHECK (state IN ('waiting', 'held', 'in_flight', 'uncertain', 'failed', 'canceled')),
  -- Its rank in its lane; a message that is sent again gets the last one.
  place INTEGER NOT NULL,
  -- The confirmed message an edit, delete, reaction or read is about.
  -- Of a canceled message: the one to be deleted upstream, because it was taken back too late.
  target_id INTEGER,
  -- The row of the unsent message that a change is about, which was under way when the client asked.
  follows INTEGER,
  -- A reaction's key. Changes of one target keep their order if they have the same kind and aspect.
  aspect TEXT NOT NULL DEFAULT '',
  -- The bytes of a file message: none (nothing to upload), needed, running, done (its url is in params).
  upload TEXT NOT NULL DEFAULT 'none' CHECK (upload IN ('none', 'needed', 'running', 'done')),
  -- The JSON that the client sent, and the message as the API answers it (without braces).
  params BLOB NOT NULL,
  body BLOB NOT NULL,
  block_on_failure INTEGER NOT NULL DEFAULT 0,
  is_cancel_wanted INTEGER NOT NULL DEFAULT 0,
  accepted_at INTEGER NOT NULL,
  expires_at INTEGER NOT NULL,
  attempts INTEGER NOT NULL DEFAULT 0,
  next_try_at INTEGER NOT NULL,
  dispatched_at INTEGER,
  -- Whether a try may have reached the upstream, and how many looks in a row did not find it there.
  may_have_arrived INTEGER NOT NULL DEFAULT 0,
  absences INTEGER NOT NULL DEFAULT 0,
  error_code TEXT,
  error_message TEXT,
  version INTEGER NOT NULL DEFAULT 0,
  UNIQUE (user, request_id)
) STRICT;

-- answers: a channel's queue in order
CREATE INDEX outbox_queue ON outbox (user, channel_url, place);
-- answers: which rows are tried next
CREATE INDEX outbox_due ON outbox (next_try_at) WHERE state IN ('waiting', 'uncertain');
-- answers: which rows have expired
CREATE INDEX outbox_by_expiry ON outbox (expires_at) WHERE state NOT IN ('failed', 'canceled');
-- answers: the pending edits, deletes and reactions of this message
CREATE INDEX outbox_by_target ON outbox (user, channel_url, target_id) WHERE target_id IS NOT NULL;

CREATE TABLE request (
  -- Every used request id, kept for 7 days after its end, also over eviction and removal (B37).
  user INTEGER NOT NULL REFERENCES user (id),
  request_id TEXT NOT NULL,
  channel_url TEXT NOT NULL,
  content_hash BLOB NOT NULL,
  -- The message that it became, or that it changes.
  message_id INTEGER,
  -- NULL while the outbox row lives.
  ended_at INTEGER,
  -- dropped: a change that was refused or overtaken; merged: an edit that went into its unsent message.
  ended_as TEXT CHECK (ended_as IN ('succeeded', 'dropped', 'removed', 'merged')),
  -- Why it was dropped.
  error_code TEXT,
  PRIMARY KEY (user, request_id)
) STRICT, WITHOUT ROWID;

-- answers: which request ids may be forgotten
CREATE INDEX request_by_end ON request (ended_at) WHERE ended_at IS NOT NULL;
