-- Request ids are looked up in `request` alone, which names the row of `outbox`. That table had an index of its own for
-- them, which each new row was written to.
ALTER TABLE request ADD COLUMN row INTEGER;

UPDATE request
SET row = (SELECT o.id FROM outbox AS o WHERE o.user = request.user AND o.request_id = request.request_id)
WHERE ended_at IS NULL;

CREATE TABLE outbox_without_names (
  -- An unsent message or change: never dropped, never rebuilt. The ids are in the order of acceptance.
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  user INTEGER NOT NULL REFERENCES user (id),
  channel_url TEXT NOT NULL,
  -- Unique for a user by the table request.
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
  -- The JSON that the client sent, and the message as Perch answers it, without its outer braces (empty for a change).
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
  -- The position of the channel's newest message that Perch knew when it first sent this one. If it is unknown whether
  -- this one arrived, Perch lists the messages after that position (B39). NULL: it was not sent yet.
  anchor_at INTEGER,
  anchor_id INTEGER,
  -- Whether the client had the scope `admin`, for the second check of its rights before it is sent.
  is_admin INTEGER NOT NULL DEFAULT 0,
  -- The kind of the confirmed message that a change is about, as message.type. NULL: the row is a message, or was
  -- accepted before this column was there.
  target_kind INTEGER,
  -- Whether the message was edited after it was sent off once: an earlier copy may arrive without the edit.
  is_edited INTEGER NOT NULL DEFAULT 0
) STRICT;

INSERT INTO outbox_without_names (
  id, user, channel_url, request_id, kind, state, place, target_id, follows, aspect, upload, params, body,
  block_on_failure, is_cancel_wanted, accepted_at, expires_at, attempts, next_try_at, dispatched_at,
  may_have_arrived, absences, error_code, error_message, anchor_at, anchor_id, is_admin, target_kind,
  is_edited
)
SELECT
  id, user, channel_url, request_id, kind, state, place, target_id, follows, aspect, upload, params, body,
  block_on_failure, is_cancel_wanted, accepted_at, expires_at, attempts, next_try_at, dispatched_at,
  may_have_arrived, absences, error_code, error_message, anchor_at, anchor_id, is_admin, target_kind,
  is_edited
FROM outbox;

-- An id is never given twice, also where the last rows are gone.
DELETE FROM sqlite_sequence WHERE name = 'outbox_without_names';
UPDATE sqlite_sequence SET name = 'outbox_without_names' WHERE name = 'outbox';

DROP TABLE outbox;
ALTER TABLE outbox_without_names RENAME TO outbox;

-- answers: which rows have expired
CREATE INDEX outbox_by_expiry ON outbox (expires_at) WHERE state NOT IN ('failed', 'canceled');
-- answers: which failed messages hold what follows them
CREATE INDEX outbox_blocking ON outbox (user, channel_url, place) WHERE state = 'failed' AND block_on_failure = 1;
-- answers: which read marks wait
CREATE INDEX outbox_reads ON outbox (user, channel_url, place) WHERE kind = 'read';
-- answers: which messages of a user may be at the upstream without an answer
CREATE INDEX outbox_unanswered ON outbox (user, channel_url) WHERE state IN ('in_flight', 'uncertain');
-- answers: whose unsent rows are in a state, in the order they were accepted
CREATE INDEX outbox_by_user ON outbox (user, id);
-- answers: the first pending row of a lane among messages, edits and deletes
CREATE INDEX outbox_heads ON outbox (user, channel_url, place)
WHERE kind NOT IN ('reaction', 'read') AND state NOT IN ('failed', 'canceled');
-- answers: which reactions and read marks of a lane are tried next
CREATE INDEX outbox_side ON outbox (user, channel_url, next_try_at)
WHERE kind IN ('reaction', 'read') AND state IN ('waiting', 'uncertain');
-- answers: which rows of a lane are under way
CREATE INDEX outbox_in_flight ON outbox (user, channel_url) WHERE state = 'in_flight';
-- answers: which rows of a lane wait for the link
CREATE INDEX outbox_interrupted ON outbox (user, channel_url, next_try_at)
WHERE state = 'uncertain' OR (state = 'waiting' AND error_code IS NOT NULL);
-- answers: which messages of a lane can be sent again or removed
CREATE INDEX outbox_ended ON outbox (user, channel_url, place) WHERE state IN ('failed', 'canceled');
-- answers: which changes follow an unsent message
CREATE INDEX outbox_followers ON outbox (follows) WHERE follows IS NOT NULL;
-- answers: the pending changes of this message, and which of those of one kind and key goes first
CREATE INDEX outbox_by_target ON outbox (user, channel_url, target_id, kind, aspect, place)
WHERE target_id IS NOT NULL;
-- answers: which file of a lane is uploaded next
CREATE INDEX outbox_uploads ON outbox (user, channel_url, next_try_at)
WHERE upload = 'needed' AND state = 'waiting';
-- answers: which file of a lane is being uploaded
CREATE INDEX outbox_uploading ON outbox (user, channel_url) WHERE upload = 'running';
-- answers: the reactions and read marks of a lane in order
CREATE INDEX outbox_aside ON outbox (user, channel_url, place) WHERE kind IN ('reaction', 'read');
