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
  }
}
