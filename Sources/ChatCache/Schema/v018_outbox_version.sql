-- Nothing reads the version of an unsent row, but each of its steps wrote it.
ALTER TABLE outbox DROP COLUMN version;
