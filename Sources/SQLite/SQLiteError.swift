import CSQLite

/// An error of SQLite: its codes, its message and the statement.
package struct SQLiteError: Error, CustomStringConvertible, Equatable {
  /// The primary result code, such as `SQLITE_BUSY`.
  package let code: Int32
  /// The extended result code, such as `SQLITE_IOERR_FSYNC`.
  package let extendedCode: Int32
  /// SQLite's message.
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

  /// The classes of errors, by what a caller can do.
  package enum Kind: Sendable {
    /// Another connection holds the lock: the same call can work later.
    case busy
    /// The disk is full or failing: reads may go on, and writes work again when the disk does.
    case storage
    /// The file is not (any longer) a sound database.
    case corrupt
    /// A rule of the schema refused the row.
    case constraint
    /// `interrupt()` ended the statement.
    case interrupted
    /// A mistake in the program or an error of no known kind.
    case other
  }

  /// The class of this error.
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

  /// The code, the message and the statement, for the log.
  package var description: String {
    "sqlite \(extendedCode): \(message)" + (sql.map { " in «\($0)»" } ?? "")
  }
}
