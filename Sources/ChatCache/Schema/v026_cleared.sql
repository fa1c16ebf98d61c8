-- The sequence at which the channel was cleared, while messages stored before that are still to be deleted.
ALTER TABLE channel ADD COLUMN cleared_version INTEGER;
-- 1: the user was forgotten, and the user's memberships are still to be deleted. No request finds the row, because its
-- user_id was changed.
ALTER TABLE user ADD COLUMN is_removed INTEGER NOT NULL DEFAULT 0;

-- answers: the channels that have cleared messages to delete
CREATE INDEX channel_cleared ON channel (id) WHERE cleared_version IS NOT NULL;
-- answers: the forgotten users who have memberships to delete
CREATE INDEX user_removed ON user (id) WHERE is_removed = 1;
