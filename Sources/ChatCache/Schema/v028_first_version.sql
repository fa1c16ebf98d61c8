-- The sequence of the event that stored the message for the first time; 0: it was stored before this column was there.
ALTER TABLE message ADD COLUMN first_version INTEGER NOT NULL DEFAULT 0;
