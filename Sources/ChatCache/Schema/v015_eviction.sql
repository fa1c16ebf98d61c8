-- The newest evicted position of the channel; NULL: none. Messages up to there are fetched when a client asks for them,
-- never prefetched (B33, B57).
ALTER TABLE channel ADD COLUMN evicted_at INTEGER;
ALTER TABLE channel ADD COLUMN evicted_id INTEGER;
-- The highest version of an evicted message: an answer requested before may have an older state of it.
ALTER TABLE channel ADD COLUMN evicted_version INTEGER NOT NULL DEFAULT 0;

-- answers: the views that are open in a channel, whose windows are spared (B57)
CREATE INDEX collection_by_channel ON collection (channel) WHERE channel IS NOT NULL;
