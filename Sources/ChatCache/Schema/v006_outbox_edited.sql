-- Whether the message was edited after it was sent off once: an earlier copy may arrive without the edit.
ALTER TABLE outbox ADD COLUMN is_edited INTEGER NOT NULL DEFAULT 0;
