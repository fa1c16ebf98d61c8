-- A new message had an entry in two indexes with the same columns: outbox_heads and outbox_queue. One is enough:
-- each row of a lane is in outbox_heads, in outbox_ended or in outbox_aside.
DROP INDEX outbox_queue;
-- answers: the reactions and read marks of a lane in order
CREATE INDEX outbox_aside ON outbox (user, channel_url, place) WHERE kind IN ('reaction', 'read');
