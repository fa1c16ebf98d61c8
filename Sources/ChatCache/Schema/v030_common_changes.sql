-- answers: what changed in this channel for all its members since
CREATE INDEX event_of_channel ON event (channel, seq) WHERE channel IS NOT NULL AND user IS NULL AND collection IS NULL;
-- answers: what changed for this view alone since
CREATE INDEX event_by_collection ON event (collection, seq) WHERE collection IS NOT NULL;
