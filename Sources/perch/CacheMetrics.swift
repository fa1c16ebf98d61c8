import ChatAPI
import ChatCache

/// The cache's size and what was evicted from it, for `/metrics`.
enum CacheMetrics {
  static func write(_ cache: Cache, to text: inout MetricsText) {
    let usage = cache.usage
    text.metric(
      "perch_cache_wal_bytes", .gauge, "Length of the write-ahead log's file.", Int64(cache.walBytes))
    text.metric("perch_cache_used_bytes", .gauge, "Pages in use times their size.", usage.usedBytes)
    text.metric("perch_cache_max_bytes", .gauge, "The limit, --cache-max-size.", usage.limit.bytes)
    text.metric("perch_cache_free_bytes", .gauge, "Free pages of the file times their size.", usage.freeBytes)
    text.metric(
      "perch_cache_full", .gauge, "1 while the limit is exceeded and nothing is left that may be evicted.",
      usage.isFull ? 1 : 0)
    text.metric(
      "perch_cache_evicted_messages_total", .counter, "Messages that were evicted.", usage.evictedMessages)
    text.metric("perch_cache_evicted_bytes_total", .counter, "Bytes of these messages.", usage.evictedBytes)
    text.metric(
      "perch_cache_eviction_passes_total", .counter, "Passes that evicted something.", usage.passes)
    text.begin("perch_commit_seconds", .histogram, "How long commits took, with the sync of the disk.")
    write(
      cache.commitTimes, "perch_commit_seconds_bucket", "perch_commit_seconds_sum",
      "perch_commit_seconds_count", to: &text)
    text.begin(
      "perch_write_seconds", .histogram,
      "How long clients' writes took, from when they were queued until they were durable.")
    write(
      cache.writeTimes, "perch_write_seconds_bucket", "perch_write_seconds_sum", "perch_write_seconds_count",
      to: &text)
  }

  private static func write(
    _ times: TimeCounts, _ bucket: StaticString, _ sum: StaticString, _ count: StaticString,
    to text: inout MetricsText
  ) {
    for (index, bound) in TimeCounts.bounds.enumerated() {
      text.sample(bucket, label: "le=\"\(seconds(bound))\"", times.count(notLongerThan: index))
    }
    text.sample(bucket, label: "le=\"+Inf\"", times.count)
    text.sample(sum, millionths: times.microseconds)
    text.sample(count, times.count)
  }

  /// `0.0025` for 2 500 millionths.
  private static func seconds(_ microseconds: Int64) -> String {
    let digits = String(microseconds % 1_000_000)
    let fraction = (String(repeating: "0", count: 6 - digits.count) + digits).reversed().drop { $0 == "0" }
    let whole = String(microseconds / 1_000_000)
    return fraction.isEmpty ? whole : whole + "." + String(fraction.reversed())
  }

  /// Writes the gaps and stale tails of all channels; nothing if the cache cannot be read.
  static func writeCoverage(_ cache: Cache, generation: Int64, to text: inout MetricsText) {
    // `try?`: other metrics and the log tell of a cache that cannot be read; this page is answered without
    // it.
    guard let counts = try? cache.read({ try $0.coverageCounts(generation: generation) }) else { return }
    text.begin("perch_cache_gaps", .gauge, "Stretches of channels that are not cached, by reason.")
    for reason in Gap.Reason.allCases {
      text.sample(
        "perch_cache_gaps", label: "reason=\"\(reason.text)\"", counts.gaps[reason, default: 0])
    }
    text.metric(
      "perch_cache_stale_tails", .gauge,
      "Channels whose newest end was not confirmed since the chat server was lost or the start.",
      counts.staleTails)
  }
}
