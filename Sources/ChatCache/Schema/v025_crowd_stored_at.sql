-- Each answer's members and read positions are stored; no column says when that was last done.
ALTER TABLE channel DROP COLUMN crowd_stored_at;
