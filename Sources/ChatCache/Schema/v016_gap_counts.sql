-- answers: how many gaps there are of each reason (operators)
CREATE INDEX segment_by_reason ON segment (reason) WHERE kind = 1;
-- answers: how many channels' newest ends were confirmed since the link was lost last (operators)
CREATE INDEX segment_by_generation ON segment (generation) WHERE kind = 2;
