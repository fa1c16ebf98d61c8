CREATE TABLE segment_count (
  -- The number of gaps of a reason (kind 1), and of newest ends that were confirmed last in a generation of the link
  -- (kind 2). The triggers below keep it, so that nothing counts all segments. No row: none.
  kind INTEGER NOT NULL CHECK (kind = 1 OR kind = 2),
  value INTEGER NOT NULL,
  segments INTEGER NOT NULL,
  PRIMARY KEY (kind, value)
) STRICT, WITHOUT ROWID;

INSERT INTO segment_count (kind, value, segments)
SELECT 1, reason, count(*) FROM segment WHERE kind = 1 AND reason IS NOT NULL GROUP BY reason
UNION ALL
SELECT 2, generation, count(*) FROM segment WHERE kind = 2 AND generation IS NOT NULL GROUP BY generation;

DROP INDEX segment_by_reason;
DROP INDEX segment_by_generation;

CREATE TRIGGER segment_count_insert AFTER INSERT ON segment
WHEN new.kind > 0
BEGIN
  INSERT INTO segment_count (kind, value, segments)
  SELECT new.kind, iif(new.kind = 1, new.reason, new.generation), 1
  WHERE iif(new.kind = 1, new.reason, new.generation) IS NOT NULL
  ON CONFLICT (kind, value) DO UPDATE SET segments = segments + 1;
END;

CREATE TRIGGER segment_count_delete AFTER DELETE ON segment
WHEN old.kind > 0
BEGIN
  UPDATE segment_count
  SET segments = segments - 1
  WHERE kind = old.kind AND value = iif(old.kind = 1, old.reason, old.generation);
  DELETE FROM segment_count
  WHERE kind = old.kind AND value = iif(old.kind = 1, old.reason, old.generation) AND segments = 0;
END;

CREATE TRIGGER segment_count_update AFTER UPDATE OF kind, reason, generation ON segment
WHEN old.kind <> new.kind OR old.reason IS NOT new.reason OR old.generation IS NOT new.generation
BEGIN
  UPDATE segment_count
  SET segments = segments - 1
  WHERE kind = old.kind AND value = iif(old.kind = 1, old.reason, old.generation);
  DELETE FROM segment_count
  WHERE kind = old.kind AND value = iif(old.kind = 1, old.reason, old.generation) AND segments = 0;
  INSERT INTO segment_count (kind, value, segments)
  SELECT new.kind, iif(new.kind = 1, new.reason, new.generation), 1
  WHERE new.kind > 0 AND iif(new.kind = 1, new.reason, new.generation) IS NOT NULL
  ON CONFLICT (kind, value) DO UPDATE SET segments = segments + 1;
END;
