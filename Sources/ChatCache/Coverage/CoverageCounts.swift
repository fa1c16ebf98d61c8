import SQLite

/// The numbers of gaps and unconfirmed newest ends in all channels, for operators.
package struct CoverageCounts: Sendable, Equatable {
  /// Gaps by their reasons.
  package var gaps: [Gap.Reason: Int64] = [:]
  /// Channels whose newest end was not confirmed since the link was lost or the service started.
  package var staleTails: Int64 = 0
}

extension CacheReader {
  /// Counts in two indexes, without reading rows. `generation`: the link's present one.
  package func coverageCounts(generation: Int64) throws -> CoverageCounts {
    var counts = CoverageCounts()
    let gaps = try db.all(
      "SELECT reason, count(*) FROM segment INDEXED BY segment_by_reason WHERE kind = 1 GROUP BY reason"
    ) { (Gap.Reason(rawValue: $0.int64(0)), $0.int64(1)) }
    for (reason, count) in gaps {
      if let reason { counts.gaps[reason] = count }
    }
    counts.staleTails =
      try db.first(
        """
        SELECT count(*)
        FROM segment INDEXED BY segment_by_generation
        WHERE kind = 2 AND generation < ?1
        """
      ) {
        $0.bind(1, generation)
      } _: {
        $0.int64(0)
      } ?? 0
    return counts
  }
}
