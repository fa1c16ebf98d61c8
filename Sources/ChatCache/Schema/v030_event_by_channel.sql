DROP INDEX event_by_channel;
-- answers: what changed in this channel since, for all its members or for one of them
CREATE INDEX event_by_channel ON event (channel, user, seq) WHERE channel IS NOT NULL;
