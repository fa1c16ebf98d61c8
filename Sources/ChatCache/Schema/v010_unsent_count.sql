-- A statement with a trigger copies every page that it changes, so that it could be undone alone: accepting a message took
-- more than twice as long. The writer keeps unsent_count itself.
DROP TRIGGER outbox_counts_insert;
DROP TRIGGER outbox_counts_update;
DROP TRIGGER outbox_counts_delete;
