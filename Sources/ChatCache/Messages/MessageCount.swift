import SQLite

extension CacheReader {
  /// How many confirmed messages are stored, of all channels.
  package func storedMessages() throws -> Int64 {
    try db.first("SELECT coalesce(sum(cached_messages), 0) FROM channel") { $0.int64(0) } ?? 0
  }
}
