import Platform

/// Connections for reading, as many as threads ever read at once, each with its prepared statements.
///
/// A thread finds the connection again that it used last: what a connection keeps in memory stays near the
/// processor that knows it.
package final class ConnectionPool: Sendable {
  /// A connection on its way between threads.
  private struct Lent: @unchecked Sendable {  // because only the thread that took it from the pool uses it
    let connection: Connection
  }

  private let open: @Sendable () throws -> Connection
  private let shelves = (0..<16).map { _ in Guarded<[Lent]>([]) }

  /// A pool that makes what it lacks by `open`.
  package init(_ open: @escaping @Sendable () throws -> Connection) { self.open = open }

  /// Lends a connection for the length of `body`.
  package func lend<Result: ~Copyable>(_ body: (Connection) throws -> Result) throws -> Result {
    let shelf = shelves[Thread.currentNumber % shelves.count]
    let lent = try shelf.withLock { $0.popLast() } ?? Lent(connection: open())
    defer { shelf.withLock { $0.append(lent) } }
    return try body(lent.connection)
  }

  /// Lets go of every connection that is not lent.
  package func close() {
    for shelf in shelves { shelf.withLock { $0 = [] } }
  }
}
