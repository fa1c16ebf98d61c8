import CSQLite

/// The text of a query that was put together at run time and is used again and again.
package final class SharedSQL: Sendable {
  let text: String

  /// A text.
  package init(_ text: String) { self.text = text }
}

/// The right to read, which a connection lends to a closure.
package struct ReadAccess {
  let connection: Connection

  /// The object in which all reads of one snapshot keep values for each other. `empty` makes it for the first
  /// read.
  package func notes<Notes: AnyObject>(_ empty: () -> Notes) -> Notes {
    if let notes = connection.snapshotNotes as? Notes { return notes }
    let notes = empty()
    connection.snapshotNotes = notes
    return notes
  }

  /// The rows of a query. `bind` gets the statement to bind values to; its bytes must outlive the rows.
  @inline(__always)
  package func rows(_ sql: StaticString, _ bind: (Statement) -> Void = { _ in }) throws -> Rows {
    let statement = try connection.statement(sql)
    statement.start()
    bind(statement)
    return Rows(statement)
  }

  /// The rows of a query that reads many neighbouring rows. Each page of the file is prefetched into the
  /// processor's caches as a whole before its rows are read.
  package func walk(_ sql: StaticString, _ bind: (Statement) -> Void = { _ in }) throws -> Rows {
    let statement = try connection.statement(sql)
    statement.start()
    bind(statement)
    return Rows(statement, isWalk: true)
  }

  /// The first row's value, or nil where there is no row.
  @inlinable
  package func first<Result>(
    _ sql: StaticString, _ bind: (Statement) -> Void = { _ in }, _ body: (Row) throws -> Result
  ) throws -> Result? {
    var rows = try rows(sql, bind)
    return try rows.next().map(body)
  }

  /// Every row's value.
  @inlinable
  package func all<Result>(
    _ sql: StaticString, _ bind: (Statement) -> Void = { _ in }, _ body: (Row) throws -> Result
  ) throws -> [Result] {
    var rows = try rows(sql, bind)
    var results: [Result] = []
    while let row = try rows.next() { results.append(try body(row)) }
    return results
  }

  /// The rows of a query whose text many share.
  package func rows(_ sql: SharedSQL, _ bind: (Statement) -> Void) throws -> Rows {
    let statement = try connection.statement(sql)
    statement.start()
    bind(statement)
    return Rows(statement)
  }

  /// The rows of a query that was put together at run time.
  package func rows(composed sql: String, _ bind: (Statement) -> Void = { _ in }) throws -> Rows {
    let statement = try connection.statement(composed: sql)
    statement.start()
    bind(statement)
    return Rows(statement)
  }
}

/// The right to read and write, which a connection lends to a closure.
package struct WriteAccess {
  let connection: Connection

  /// Reading inside the same transaction.
  package var reading: ReadAccess { ReadAccess(connection: connection) }

  /// Runs a statement and returns how many rows it changed.
  @inline(__always)
  @discardableResult
  package func run(_ sql: StaticString, _ bind: (Statement) -> Void = { _ in }) throws -> Int {
    let statement = try connection.statement(sql)
    statement.start()
    defer { statement.reset() }
    bind(statement)
    while try statement.step() {}
    return Int(sqlite3_changes(connection.handle))
  }

  /// Runs a script, for migrations.
  package func execute(_ script: String) throws { try connection.execute(script) }

  /// The rows that the connection has changed since it was opened, also by triggers.
  package var changedRows: Int64 { connection.changedRows }

  /// The rowid of the last insert.
  package var lastInsertRowID: Int64 { sqlite3_last_insert_rowid(connection.handle) }

  /// Runs `body` so that it happens wholly or not at all, without ending the transaction.
  package func savepoint<Result>(_ body: () throws -> Result) throws -> Result {
    try connection.savepoint(body)
  }
}
