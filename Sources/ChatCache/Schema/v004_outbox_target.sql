-- The kind of the confirmed message that a change is about, as message.type. The message may leave the cache before the
-- change is sent. NULL: the row is a message, or was accepted before this column was there.
ALTER TABLE outbox ADD COLUMN target_kind INTEGER;
