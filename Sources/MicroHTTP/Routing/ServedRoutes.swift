import Platform
import Synchronization

/// The routes that a server answers now. Requests read them without a lock and without counting references.
final class ServedRoutes: Sendable {
  /// Every table so far, because a request goes on with the table it began with.
  private let tables = Guarded<[RouteTable]>([])
  private let table: Atomic<Unmanaged<RouteTable>>

  /// Serves nothing yet: each request is answered with `otherwise`.
  init(otherwise: Problem) {
    let empty = RouteTable([], otherwise: otherwise)
    tables.withLock { $0.append(empty) }
    table = Atomic(Unmanaged.passUnretained(empty))
  }

  /// Serves these from now on.
  func serve(_ routes: [Route], otherwise: Problem) {
    let made = RouteTable(routes, otherwise: otherwise)
    tables.withLock { $0.append(made) }
    table.store(Unmanaged.passUnretained(made), ordering: .releasing)
  }

  /// The table that is served now.
  var current: Unmanaged<RouteTable> { table.load(ordering: .acquiring) }

  /// Lends the table that is served now.
  func withTable<Result, Failure: Error>(
    _ body: (RouteTable) throws(Failure) -> Result
  ) throws(Failure) -> Result {
    let result = current._withUnsafeGuaranteedRef { table in
      Swift.Result { () throws(Failure) in try body(table) }
    }
    return try result.get()
  }
}
