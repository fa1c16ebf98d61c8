import CSQLite

/// What SQLite said, with what is needed to decide, and to find the statement.
package struct SQLiteError: Error, CustomStringConvertible, Equatable {
  /// The primary result code, such as `SQLITE_BUSY`.
  package let code: Int32
  /// The extended result code, such as `SQLITE_IOERR_FSYNC`.
  package let extendedCode: Int32
  /// SQLite's own words.
  package let message: String
  /// The statement at fault, where there was one.
  package let sql: String?

  init(_ extendedCode: Int32, _ message: String, sql: String? = nil) {
    self.code = extendedCode & 0xFF
    self.extendedCode = extendedCode
    self.message = message
    self.sql = sql
  }

  init(_ handle: OpaquePointer?, _ code: Int32, sql: String? = nil) {
    let extended = handle.map { sqlite3_extended_errcode($0) } ?? code
    let text = handle.map { String(cString: sqlite3_errmsg($0)) } ?? String(cString: sqlite3_errstr(code))
    self.init(extended & 0xFF == code & 0xFF ? extended : code, text, sql: sql)
  }

  /// What a caller can do about it.
  package enum Kind: Sendable {
    /// Somebody else holds the lock: the same call can work later.
    case busy
    /// The disk is full or failing: reads may go on, writes work again when it heals.
    case storage
    /// The file is not (any longer) a sound database.
    case corrupt
    /// A rule of the schema refused the row.
    case constraint
    /// `interrupt()` ended it.
    case interrupted
    /// A mistake in the program or an error of no known kind.
    case other
  }

  /// What a caller can do about it.
  package var kind: Kind {
    switch code {
    case SQLITE_BUSY, SQLITE_LOCKED: .busy
    case SQLITE_FULL, SQLITE_IOERR, SQLITE_READONLY, SQLITE_CANTOPEN, SQLITE_NOMEM: .storage
    case SQLITE_CORRUPT, SQLITE_NOTADB: .corrupt
    case SQLITE_CONSTRAINT: .constraint
    case SQLITE_INTERRUPT: .interrupted
    default: .other
    }
  }

  /// For the log.
  package var description: String {
    "sqlite \(extendedCode): \(message)" + (sql.map { " in «\($0)»" } ?? "")
  }
}
