import SQLite

extension CacheReader {
  /// How many confirmed messages are stored, of all channels.
  package func storedMessages() throws -> Int64 {
    try cachedCount(of: nil)?.messages ?? 0
  }
}
