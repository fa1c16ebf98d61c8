-- answers: whether a client has a view of this channel's messages
CREATE INDEX collection_by_channel ON collection (channel) WHERE channel IS NOT NULL;
