-- The newest position known in the channel when Perch first sent the message. If it is unknown whether that arrived,
-- Perch lists the messages after that position (B39). NULL: it was not sent yet.
ALTER TABLE outbox ADD COLUMN anchor_at INTEGER;
ALTER TABLE outbox ADD COLUMN anchor_id INTEGER;
-- Whether the client had the scope `admin`, for the second check of its rights before it is sent.
ALTER TABLE outbox ADD COLUMN is_admin INTEGER NOT NULL DEFAULT 0;

-- answers: which failed messages hold what follows them
CREATE INDEX outbox_blocking ON outbox (user, channel_url, place) WHERE state = 'failed' AND block_on_failure = 1;
-- answers: which read marks wait
CREATE INDEX outbox_reads ON outbox (user, channel_url, place) WHERE kind = 'read';
-- answers: which messages of a user may be at the upstream without an answer
CREATE INDEX outbox_unanswered ON outbox (user, channel_url) WHERE state IN ('in_flight', 'uncertain');
-- answers: whose unsent rows are in a state, in the order they were accepted
CREATE INDEX outbox_by_user ON outbox (user, id);
-- 1: the request is a message, and message_id is the one that it became. 0: message_id is the one that it changes.
ALTER TABLE request ADD COLUMN is_message INTEGER NOT NULL DEFAULT 0;

UPDATE request
SET is_message = 1
WHERE EXISTS (
  SELECT 1
  FROM outbox AS o
  WHERE o.user = request.user AND o.request_id = request.request_id AND o.kind IN ('message', 'file')
);

-- answers: which request a message answers
CREATE INDEX request_by_message ON request (user, message_id) WHERE message_id IS NOT NULL AND is_message = 1;

CREATE TABLE unsent_count (
  -- How many unsent rows a user has, so that nothing counts a long outbox.
  user INTEGER PRIMARY KEY REFERENCES user (id) ON DELETE CASCADE,
  pending INTEGER NOT NULL,
  failed INTEGER NOT NULL,
  canceled INTEGER NOT NULL
) STRICT;

INSERT INTO unsent_count (user, pending, failed, canceled)
SELECT
  user,
  count(*) FILTER (WHERE state NOT IN ('failed', 'canceled')),
  count(*) FILTER (WHERE state = 'failed'),
  count(*) FILTER (WHERE state = 'canceled')
FROM outbox
GROUP BY user;

CREATE TRIGGER outbox_counts_insert AFTER INSERT ON outbox
BEGIN
  INSERT INTO unsent_count (user, pending, failed, canceled)
  VALUES (new.user, new.state NOT IN ('failed', 'canceled'), new.state = 'failed', new.state = 'canceled')
  ON CONFLICT (user) DO UPDATE
  SET
    pending = pending + excluded.pending,
    failed = failed + excluded.failed,
    canceled = canceled + excluded.canceled;
END;

CREATE TRIGGER outbox_counts_update AFTER UPDATE OF state ON outbox WHEN old.state <> new.state
BEGIN
  UPDATE unsent_count
  SET
    pending = pending + (new.state NOT IN ('failed', 'canceled')) - (old.state NOT IN ('failed', 'canceled')),
    failed = failed + (new.state = 'failed') - (old.state = 'failed'),
    canceled = canceled + (new.state = 'canceled') - (old.state = 'canceled')
  WHERE user = new.user;
END;

CREATE TRIGGER outbox_counts_delete AFTER DELETE ON outbox
BEGIN
  UPDATE unsent_count
  SET
    pending = pending - (old.state NOT IN ('failed', 'canceled')),
    failed = failed - (old.state = 'failed'),
    canceled = canceled - (old.state = 'canceled')
  WHERE user = old.user;
END;

CREATE TABLE withheld (
  -- A confirmed message that its sender's own views do not show yet: it may be the answer to a send of this user
  -- that is under way, and the upstream does not say so (B38).
  user INTEGER NOT NULL REFERENCES user (id) ON DELETE CASCADE,
  channel INTEGER NOT NULL REFERENCES channel (id) ON DELETE CASCADE,
  message_id INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  -- The view shows it from this moment on (ms), whatever became of the send.
  until INTEGER NOT NULL,
  PRIMARY KEY (user, channel, message_id)
) STRICT, WITHOUT ROWID;

-- answers: which messages have been withheld for long enough
CREATE INDEX withheld_by_end ON withheld (until);
