-- The old index had every segment, so each message changed it.
DROP INDEX segment_by_kind;
-- answers: which gaps are being filled
CREATE INDEX segment_filling ON segment (channel) WHERE kind = 1 AND state = 1;
