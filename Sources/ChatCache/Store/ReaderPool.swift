import Platform
import SQLite

/// Connections for reading, as many as threads ever read at once, each with its prepared statements.
final class ReaderPool: Sendable {
  private let path: String
  private let mappedBytes: Int64
  private let idle = Guarded<[Lent]>([])

  /// A connection on its way between threads.
  private struct Lent: @unchecked Sendable {  // because only the thread that took it from the pool uses it
    let connection: Connection
  }

  init(path: String, mappedBytes: Int64) {
    self.path = path
    self.mappedBytes = mappedBytes
  }

  func lend<Result: ~Copyable>(_ body: (Connection) throws -> Result) throws -> Result {
    let lent = try idle.withLock { $0.popLast() } ?? make()
    defer { idle.withLock { $0.append(lent) } }
    return try body(lent.connection)
  }

  /// Lends one snapshot to `body` on this thread.
  func read<Result: ~Copyable>(_ log: CommitLog, _ body: (CacheReader) throws -> Result) throws -> Result {
    do {
      return try lend { connection in try connection.read { try body(CacheReader(db: $0, log: log)) } }
    } catch let error as SQLiteError {
      throw CacheError(error)
    }
  }

  private func make() throws -> Lent {
    let connection = try Connection(path: path, mode: .readWrite)
    try Pragmas.prepareReader(connection, mappedBytes: mappedBytes)
    return Lent(connection: connection)
  }

  func close() { idle.withLock { $0 = [] } }
}
