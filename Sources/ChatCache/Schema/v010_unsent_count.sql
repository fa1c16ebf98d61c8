-- SQLite copies every page that a statement with a trigger changes, to be able to undo it alone: accepting a message
-- took more than twice as long. The writer keeps unsent_count itself.
DROP TRIGGER outbox_counts_insert;
DROP TRIGGER outbox_counts_update;
DROP TRIGGER outbox_counts_delete;
