import CSQLite
import CSQLitePrefetch
import Platform

/// Connections for reading, as many as threads ever read at once, each with its prepared statements.
///
/// A thread gets the connection again that it used last, so that the connection's memory is still in the
/// processor's caches. The snapshot stays open for the next read of the same state, because threads wait for
/// each other in SQLite when they begin and end one.
///
/// A mapped page that cannot be read ends the read with an error, not the process, and the pool closes the
/// connection.
package final class ConnectionPool: Sendable {
  /// A connection on its way between threads.
  private struct Lent: @unchecked Sendable {  // because only the thread that took it from the pool uses it
    let connection: Connection
  }

  private struct Shelf {
    var idle: [Lent] = []
    var keepsSnapshots = true
  }

  private let open: @Sendable () throws -> Connection
  private let shelves = PerThread { Shelf() }

  /// A pool that opens its connections with `open`.
  package init(_ open: @escaping @Sendable () throws -> Connection) {
    self.open = open
    sqlite_survive_unreadable_pages()
  }

  /// Whether this thread's current or last read met a mapped page that could not be read. Then no result of
  /// that read may be kept.
  package static var metUnreadablePage: Bool { sqlite_met_unreadable_page() != 0 }

  /// Lends a connection for the length of `body`.
  package func lend<Result: ~Copyable>(_ body: (Connection) throws -> Result) throws -> Result {
    let shelf = shelves.own
    let lent = try shelf.withLock { $0.idle.popLast() } ?? Lent(connection: open())
    sqlite_begin_mapped_read()
    defer {
      sqlite_end_mapped_read()
      if !ConnectionPool.metUnreadablePage {
        shelf.withLock { shelf in
          if !shelf.keepsSnapshots { lent.connection.endSnapshot() }
          shelf.idle.append(lent)
        }
      }
    }
    do {
      let result = try body(lent.connection)
      guard !ConnectionPool.metUnreadablePage else { throw SQLiteError.unreadablePage }
      return result
    } catch {
      // SQLite's error about a page of zeros does not name the cause.
      throw ConnectionPool.metUnreadablePage ? SQLiteError.unreadablePage : error
    }
  }

  /// Lends reading inside one snapshot of the newest state: the kept snapshot if it is of `state`, else a new
  /// one.
  ///
  /// `state`: a number for the database's content, read before this call; nil while the content changes.
  /// `isStill`: whether the database still has that content.
  package func read<Result: ~Copyable>(
    _ state: UInt64?, isStill: (UInt64) -> Bool, _ body: (ReadAccess) throws -> Result
  ) throws -> Result {
    try lend { try $0.read(state, isStill: isStill, body) }
  }

  /// Runs `body` while no connection keeps a snapshot between two reads, because checkpoints wait for
  /// snapshots.
  package func withoutKeptSnapshots<Result>(_ body: () throws -> Result) rethrows -> Result {
    for shelf in shelves.all {
      shelf.withLock { shelf in
        shelf.keepsSnapshots = false
        for lent in shelf.idle { lent.connection.endSnapshot() }
      }
    }
    defer { for shelf in shelves.all { shelf.withLock { $0.keepsSnapshots = true } } }
    return try body()
  }

  /// Closes every connection that is not lent.
  package func close() {
    for shelf in shelves.all { shelf.withLock { $0.idle = [] } }
  }
}

extension SQLiteError {
  /// A page of the mapped file could not be read: the disk fails, or the file was cut short.
  package static let unreadablePage = SQLiteError(
    SQLITE_IOERR | (24 << 8), "a page of the mapped file could not be read")
}
