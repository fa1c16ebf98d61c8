import SQLite

/// The numbers of gaps and unconfirmed newest ends in all channels, for operators.
package struct CoverageCounts: Sendable, Equatable {
  /// Gaps by their reasons.
  package var gaps: [Gap.Reason: Int64] = [:]
  /// Channels whose newest end was not confirmed since the link was lost or the service started.
  package var staleTails: Int64 = 0
}

extension CacheReader {
  /// `generation`: the link's present one.
  package func coverageCounts(generation: Int64) throws -> CoverageCounts {
    var counts = CoverageCounts()
    let rows = try db.all("SELECT kind, value, segments FROM segment_count") {
      (kind: SegmentRow.Kind(rawValue: $0.int64(0)), value: $0.int64(1), segments: $0.int64(2))
    }
    for row in rows {
      if row.kind == .gap, let reason = Gap.Reason(rawValue: row.value) { counts.gaps[reason] = row.segments }
      if row.kind == .tail, row.value < generation { counts.staleTails += row.segments }
    }
    return counts
  }

  /// The numbers in `segment_count` that differ from the segments.
  func wrongSegmentCounts() throws -> [Finding] {
    try db.all(
      """
      SELECT n.kind, n.value
      FROM (
        SELECT kind, value, segments FROM segment_count
        UNION ALL
        SELECT kind, iif(kind = 1, reason, generation), -count(*)
        FROM segment
        WHERE kind > 0 AND iif(kind = 1, reason, generation) IS NOT NULL
        GROUP BY 1, 2
      ) AS n
      GROUP BY n.kind, n.value
      HAVING sum(n.segments) <> 0
      """
    ) {
      let counted = $0.int64(0) == 1 ? "gaps of the reason" : "tails of the generation"
      return Finding(.counts, "the number of \(counted) \($0.int64(1)) in segment_count is wrong")
    }
  }
}

extension CacheWriter {
  /// Counts all segments anew.
  func recountSegments() throws {
    try db.execute("DELETE FROM segment_count")
    try db.execute(
      """
      INSERT INTO segment_count (kind, value, segments)
      SELECT kind, iif(kind = 1, reason, generation), count(*)
      FROM segment
      WHERE kind > 0 AND iif(kind = 1, reason, generation) IS NOT NULL
      GROUP BY 1, 2
      """
    )
  }
}
