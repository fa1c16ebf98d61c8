-- The age of a file is how long the service has run on it, all its runs together (ms). Neither a change of the clock
-- nor time without a service raises it. The age at which the run began, and the highest age stored since; the times of
-- the run's events may show a higher one.
ALTER TABLE run ADD COLUMN age INTEGER NOT NULL DEFAULT 0;
ALTER TABLE run ADD COLUMN age_reached INTEGER NOT NULL DEFAULT 0;

-- The file's age when the upstream first said that this user is gone, and when it said so again (B5).
ALTER TABLE user ADD COLUMN refused_age INTEGER;
ALTER TABLE user ADD COLUMN closed_age INTEGER;
-- Ages from before the migration are unknown: both begin anew.
UPDATE user SET refused_age = 0 WHERE refused_at IS NOT NULL;
UPDATE user SET closed_age = 0 WHERE closed_at IS NOT NULL;
