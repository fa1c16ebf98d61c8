import Platform
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
    try read(log, of: log.revision.settled, body)
  }

  /// Lends a new snapshot, never a kept one.
  func readAnew<Result: ~Copyable>(
    _ log: CommitLog, _ body: (CacheReader) throws -> Result
  ) throws -> Result {
    try read(log, of: nil, body)
  }

  private func read<Result: ~Copyable>(
    _ log: CommitLog, of state: UInt64?, _ body: (CacheReader) throws -> Result
  ) throws -> Result {
    let opened = log.head
    do {
      return try connections.read(state, isStill: { log.revision.isStill($0) }) {
        try body(CacheReader(db: $0, log: log, notes: $0.notes(LogNotes.init), opened: opened))
      }
    } catch let error as SQLiteError {
      if error == .unreadablePage {
        Log.line(.error, "database_page_unreadable", ["error": .text("\(error)")])
      }
      throw CacheError(error)
    }
  }

  /// Runs `body`. Meanwhile each snapshot ends with its read, because checkpoints wait for snapshots.
  func withoutKeptSnapshots<Result>(_ body: () throws -> Result) rethrows -> Result {
    try connections.withoutKeptSnapshots(body)
  }

  func close() { connections.close() }
}
