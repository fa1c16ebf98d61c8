import SQLite

extension CacheReader {
  /// The number of stored confirmed messages in all channels.
  package func storedMessages() throws -> Int64 {
    try cachedCount(of: nil)?.messages ?? 0
  }
}
