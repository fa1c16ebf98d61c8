-- The place up to which the channel's messages were evicted for space, NULL where none were: what is older is fetched
-- when somebody asks for it, never ahead (B33, B57).
ALTER TABLE channel ADD COLUMN evicted_at INTEGER;
ALTER TABLE channel ADD COLUMN evicted_id INTEGER;
-- The highest version of an evicted message: what was asked for before it may be older than what went.
ALTER TABLE channel ADD COLUMN evicted_version INTEGER NOT NULL DEFAULT 0;

-- answers: the views that are open in a channel, whose windows are spared (B57)
CREATE INDEX collection_by_channel ON collection (channel) WHERE channel IS NOT NULL;
