-- Nothing reads the last event of an unsent row, and each of its steps wrote it.
ALTER TABLE outbox DROP COLUMN version;
