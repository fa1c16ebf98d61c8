import SQLite

/// Snapshots for reading, over a pool of connections.
final class ReaderPool: Sendable {
  private let connections: ConnectionPool

  init(path: String, mappedBytes: Int64) {
    connections = ConnectionPool {
      let connection = try Connection(path: path, mode: .readWrite)
      try Pragmas.prepareReader(connection, mappedBytes: mappedBytes)
      return connection
    }
  }

  /// Lends one snapshot to `body` on this thread.
  func read<Result: ~Copyable>(_ log: CommitLog, _ body: (CacheReader) throws -> Result) throws -> Result {
    do {
      return try connections.lend { connection in
        try connection.read { try body(CacheReader(db: $0, log: log)) }
      }
    } catch let error as SQLiteError {
      throw CacheError(error)
    }
  }

  func close() { connections.close() }
}
