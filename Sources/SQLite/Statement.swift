import CSQLite
import CSQLitePrefetch

/// A prepared statement while values are bound to it. Parameters have indexes from 1, as in `?1`.
///
/// Bytes are bound without a copy. They must outlive the calls of `first`, `all` and `run`, and the rows of
/// `rows`.
public final class Statement {
  @usableFromInline let handle: OpaquePointer
  private let connection: OpaquePointer
  fileprivate(set) var isRunning = false

  init(_ connection: Connection, _ sql: UnsafeRawBufferPointer) throws {
    var made: OpaquePointer?
    let start = sql.baseAddress?.assumingMemoryBound(to: CChar.self)
    let code = sqlite3_prepare_v3(
      connection.handle, start, Int32(sql.count), UInt32(SQLITE_PREPARE_PERSISTENT), &made, nil)
    guard code == SQLITE_OK, let made else {
      throw SQLiteError(connection.handle, code, sql: String(decoding: sql, as: UTF8.self))
    }
    handle = made
    self.connection = connection.handle
  }

  deinit { sqlite3_finalize(handle) }

  /// Moves to the next row; false at the end.
  @inlinable @inline(__always)
  func step() throws -> Bool {
    let code = sqlite3_step(handle)
    if code == SQLITE_ROW { return true }
    if code == SQLITE_DONE { return false }
    throw failure(code)
  }

  @inline(never)
  @usableFromInline func failure(_ code: Int32) -> any Error {
    SQLiteError(connection, code, sql: String(cString: sqlite3_sql(handle)))
  }

  /// Resets the statement and clears its bound values, whose bytes may be freed now.
  @inline(__always)
  func reset() {
    sqlite3_reset(handle)
    sqlite3_clear_bindings(handle)
    isRunning = false
  }

  func start() {
    precondition(!isRunning, "a statement was used again while its rows were being read")
    isRunning = true
  }

  /// Binds a number.
  @inlinable
  public func bind(_ index: Int32, _ number: Int64) {
    sqlite3_bind_int64(handle, index, number)
  }

  /// Binds a number.
  @inlinable
  public func bind(_ index: Int32, _ number: Int) {
    sqlite3_bind_int64(handle, index, Int64(number))
  }

  /// Binds 1 or 0.
  package func bind(_ index: Int32, _ flag: Bool) {
    sqlite3_bind_int64(handle, index, flag ? 1 : 0)
  }

  /// Binds 1, 0 or NULL.
  @inline(__always)
  package func bind(_ index: Int32, _ flag: Bool?) { bind(index, flag.map { Int64($0 ? 1 : 0) }) }

  /// Binds a number or NULL.
  package func bind(_ index: Int32, _ number: Int64?) {
    if let number { bind(index, number) } else { sqlite3_bind_null(handle, index) }
  }

  /// Binds a floating point number.
  package func bind(_ index: Int32, _ number: Double) {
    sqlite3_bind_double(handle, index, number)
  }

  /// Binds a copy of the text.
  package func bind(_ index: Int32, _ text: String) {
    var text = text
    text.withUTF8 { utf8 in
      _ = utf8.withMemoryRebound(to: CChar.self) {
        sqlite3_bind_text(
          handle, index, $0.baseAddress ?? emptyText, Int32($0.count), perch_sqlite_transient())
      }
    }
  }

  /// Binds a copy of the text, or NULL.
  package func bind(_ index: Int32, _ text: String?) {
    if let text { bind(index, text) } else { sqlite3_bind_null(handle, index) }
  }

  /// Binds UTF-8 as text without a copy.
  @inline(__always)
  package func bind(_ index: Int32, text utf8: UnsafeRawBufferPointer) {
    let start = utf8.baseAddress?.assumingMemoryBound(to: CChar.self) ?? emptyText
    sqlite3_bind_text(handle, index, start, Int32(utf8.count), perch_sqlite_static())
  }

  /// Binds bytes without a copy.
  @inline(__always)
  package func bind(_ index: Int32, blob bytes: UnsafeRawBufferPointer) {
    sqlite3_bind_blob(
      handle, index, bytes.baseAddress ?? UnsafeRawPointer(emptyText), Int32(bytes.count),
      perch_sqlite_static())
  }

  /// Binds a copy of the bytes, or NULL.
  package func bind(_ index: Int32, copyOf bytes: [UInt8]?) {
    guard let bytes else {
      bindNull(index)
      return
    }
    bytes.withUnsafeBytes {
      _ = sqlite3_bind_blob(
        handle, index, $0.baseAddress ?? UnsafeRawPointer(emptyText), Int32($0.count),
        perch_sqlite_transient())
    }
  }

  /// Binds NULL.
  package func bindNull(_ index: Int32) {
    sqlite3_bind_null(handle, index)
  }
}

/// The address of empty values, since SQLite takes a null pointer for NULL.
private let empty: StaticString = ""
private var emptyText: UnsafePointer<CChar> {
  UnsafeRawPointer(empty.utf8Start).assumingMemoryBound(to: CChar.self)
}

/// The present row of a result. Columns count from 0; bytes are valid until the next row.
public struct Row {
  @usableFromInline let handle: OpaquePointer

  @inlinable init(handle: OpaquePointer) { self.handle = handle }

  /// The column as a number (0 where it is NULL).
  @inlinable
  public func int64(_ column: Int32) -> Int64 { sqlite3_column_int64(handle, column) }

  /// The column as a number (0 where it is NULL).
  @inlinable
  public func int(_ column: Int32) -> Int { Int(sqlite3_column_int64(handle, column)) }

  /// The column as a number, or nil where it is NULL.
  package func int64OrNil(_ column: Int32) -> Int64? { isNull(column) ? nil : int64(column) }

  /// Whether the column is a number other than 0.
  @inlinable
  public func bool(_ column: Int32) -> Bool { sqlite3_column_int64(handle, column) != 0 }

  /// The column as a floating point number.
  @inlinable
  public func double(_ column: Int32) -> Double { sqlite3_column_double(handle, column) }

  /// Whether the column is NULL.
  @inlinable
  public func isNull(_ column: Int32) -> Bool { sqlite3_column_type(handle, column) == SQLITE_NULL }

  /// The column's bytes, text or blob, without a copy.
  ///
  /// Pointer and length come from one lookup of the value. SQLite allows that because connections have no
  /// mutexes.
  @inlinable @inline(__always)
  public func bytes(_ column: Int32) -> UnsafeRawBufferPointer {
    let value = sqlite3_column_value(handle, column)
    let start = sqlite3_value_blob(value)
    return UnsafeRawBufferPointer(start: start, count: Int(sqlite3_value_bytes(value)))
  }

  /// The column as a String ("" where it is NULL).
  package func string(_ column: Int32) -> String { String(decoding: bytes(column), as: UTF8.self) }

  /// The column as a String, or nil where it is NULL.
  package func stringOrNil(_ column: Int32) -> String? { isNull(column) ? nil : string(column) }
}

/// The rows of a query, read one after the other. The statement can be used again when they are freed.
public struct Rows: ~Copyable {
  @usableFromInline let statement: Statement
  private let isWalk: Bool

  init(_ statement: Statement, isWalk: Bool = false) {
    self.statement = statement
    self.isWalk = isWalk
    if isWalk { sqlite_prefetch(1) }
  }

  deinit {
    if isWalk { sqlite_prefetch(0) }
    statement.reset()
  }

  /// The next row, or nil at the end.
  @inlinable @inline(__always)
  public mutating func next() throws -> Row? {
    try statement.step() ? Row(handle: statement.handle) : nil
  }
}
