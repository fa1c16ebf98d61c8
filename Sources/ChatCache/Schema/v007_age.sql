-- The age of a file is how long the service has run on it, all its runs together (ms). Neither a clock that is set nor
-- time without a service makes anything older by it. The age at which the run began, and the highest age that was
-- written down since: each event of the run tells another one by its time.
ALTER TABLE run ADD COLUMN age INTEGER NOT NULL DEFAULT 0;
ALTER TABLE run ADD COLUMN age_reached INTEGER NOT NULL DEFAULT 0;

-- The file's age when the upstream first said that this user is gone, and when it said so again (B5).
ALTER TABLE user ADD COLUMN refused_age INTEGER;
ALTER TABLE user ADD COLUMN closed_age INTEGER;
-- Of the time before the migration nothing is known: both begin anew.
UPDATE user SET refused_age = 0 WHERE refused_at IS NOT NULL;
UPDATE user SET closed_age = 0 WHERE closed_at IS NOT NULL;
