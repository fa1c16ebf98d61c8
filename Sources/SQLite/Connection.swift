import CSQLite
import CSQLitePrefetch
import Glibc

/// One connection to one file, used by one thread at a time.
///
/// Statements are prepared once and kept: a statement is named by the address of its literal SQL. Access is
/// lent inside `read { }` and `write { }`; the brackets are the transaction.
package final class Connection {
  let handle: OpaquePointer
  private var statements: [UnsafePointer<UInt8>: Statement] = [:]
  private(set) var composed: [String: Statement] = [:]
  private var shared: [ObjectIdentifier: (text: SharedSQL, statement: Statement)] = [:]
  /// The most statements in `composed`, and in `shared`.
  private static let mostComposed = 16
  /// The revision of the snapshot that is kept open; nil for none.
  private var keptState: UInt64?
  /// The object in which the reads of the open snapshot keep values for each other (`ReadAccess.notes`).
  var snapshotNotes: AnyObject?
  /// The frames in the WAL after this connection's last commit; 0 until `countWALFrames` and a commit.
  package fileprivate(set) var walFrames = 0

  /// How a file is opened.
  package enum Mode: Sendable {
    /// Read and write; a missing file is created.
    case create
    /// Read and write; a missing file is an error.
    case readWrite
    /// Only read.
    case readOnly
  }

  /// Opens `path` (`:memory:` for none). `busyTimeout` bounds every wait for another connection's lock.
  package init(path: String, mode: Mode = .create, busyTimeoutMilliseconds: Int32 = 5000) throws {
    Connection.configureLibrary
    let flags =
      switch mode {
      case .create: SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE
      case .readWrite: SQLITE_OPEN_READWRITE
      case .readOnly: SQLITE_OPEN_READONLY
      }
    var opened: OpaquePointer?
    let code = sqlite3_open_v2(path, &opened, flags | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, nil)
    guard code == SQLITE_OK, let opened else {
      let error = SQLiteError(opened, code, sql: path)
      sqlite3_close_v2(opened)
      throw error
    }
    handle = opened
    sqlite_may_prefetch(handle)
    // Otherwise a statement that may be compared with a partial index is planned anew for each bound value.
    _ = perch_sqlite_keep_plans(handle)
    sqlite3_busy_timeout(handle, busyTimeoutMilliseconds)
  }

  deinit {
    statements.removeAll()
    composed.removeAll()
    shared.removeAll()
    sqlite3_close_v2(handle)
  }

  /// Configures the library once per process: no mutexes inside connections, no global memory counters.
  private static let configureLibrary: Void = {
    _ = perch_sqlite_config_multithread()
    _ = perch_sqlite_config_memstatus(0)
  }()

  /// Runs a script of statements whose rows are not needed: pragmas, migrations.
  package func execute(_ script: String) throws {
    let code = sqlite3_exec(handle, script, nil, nil, nil)
    guard code == SQLITE_OK else { throw SQLiteError(handle, code, sql: script) }
  }

  /// From now on a checkpoint by this connection does not sync a WAL that its last commit has synced. For the
  /// only connection that writes.
  package func syncWALOnce() throws {
    try openWAL()
    let code = sqlite_sync_wal_once(handle)
    guard code == SQLITE_OK else { throw SQLiteError(handle, code) }
  }

  /// The prepared statement for `sql`, made on its first use.
  func statement(_ sql: StaticString) throws -> Statement {
    if let known = statements[sql.utf8Start] { return known }
    let made = try Statement(self, UnsafeRawBufferPointer(start: sql.utf8Start, count: sql.utf8CodeUnitCount))
    statements[sql.utf8Start] = made
    return made
  }

  /// The statement for a text that was put together at run time. The last ones are kept, because to prepare
  /// one takes longer than to read a page by it.
  func statement(composed sql: String) throws -> Statement {
    if let known = composed[sql], !known.isRunning { return known }
    var text = sql
    let made = try text.withUTF8 { try Statement(self, UnsafeRawBufferPointer($0)) }
    if composed.count >= Connection.mostComposed { composed = [:] }
    composed[sql] = made
    return made
  }

  /// The statement for a shared text, found without a look at the text.
  func statement(_ sql: SharedSQL) throws -> Statement {
    if let known = shared[ObjectIdentifier(sql)]?.statement, !known.isRunning { return known }
    var text = sql.text
    let made = try text.withUTF8 { try Statement(self, UnsafeRawBufferPointer($0)) }
    if shared.count >= Connection.mostComposed { shared = [:] }
    shared[ObjectIdentifier(sql)] = (sql, made)
    return made
  }

  /// Makes the running statement of this connection, on whatever thread, end with `interrupted`.
  package var interrupt: Interrupt { Interrupt(handle: handle) }

  /// The right to interrupt a connection from another thread, valid while the connection lives.
  package struct Interrupt: @unchecked Sendable {  // because sqlite3_interrupt may be called from any thread
    fileprivate let handle: OpaquePointer
    /// Ends the running statement, if there is one.
    package func callAsFunction() { sqlite3_interrupt(handle) }
  }

  /// Lends reading inside one snapshot.
  package func read<Result: ~Copyable>(_ body: (ReadAccess) throws -> Result) throws -> Result {
    try run("BEGIN DEFERRED")
    defer { endSnapshot() }
    return try body(ReadAccess(connection: self))
  }

  /// Lends reading inside one snapshot, which stays open for the next read of the same revision.
  func read<Result: ~Copyable>(
    _ state: UInt64?, isStill: (UInt64) -> Bool, _ body: (ReadAccess) throws -> Result
  ) throws -> Result {
    if state == nil || state != keptState {
      endSnapshot()
      try run("BEGIN DEFERRED")
    }
    keptState = nil
    defer {
      if let state, isInTransaction, isStill(state) { keptState = state } else { endSnapshot() }
    }
    return try body(ReadAccess(connection: self))
  }

  /// Ends the snapshot, if one is open.
  func endSnapshot() {
    keptState = nil
    snapshotNotes = nil
    // `try?`: nothing was written, so nothing is lost. A transaction that stays open is reported by the next
    // BEGIN.
    if isInTransaction { try? run("COMMIT") }
  }

  /// Lends writing inside one transaction: all of `body` happens, or nothing.
  package func write<Result>(_ body: (WriteAccess) throws -> Result) throws -> Result {
    try run("BEGIN IMMEDIATE")
    do {
      let result = try body(WriteAccess(connection: self))
      try run("COMMIT")
      return result
    } catch {
      rollBack()
      throw error
    }
  }

  /// Lends access outside `read` and `write`: each statement is a transaction of its own.
  package func autocommit<Result>(_ body: (WriteAccess) throws -> Result) throws -> Result {
    try body(WriteAccess(connection: self))
  }

  /// Whether a transaction is open.
  package var isInTransaction: Bool { sqlite3_get_autocommit(handle) == 0 }

  /// The rows that this connection has changed since it was opened, also by triggers.
  package var changedRows: Int64 { sqlite3_total_changes64(handle) }

  /// Rolls the transaction back, unless SQLite has done so itself.
  private func rollBack() {
    guard isInTransaction else { return }
    // `try?`: the error that led here is thrown already. If ROLLBACK fails, the next BEGIN reports it.
    try? run("ROLLBACK")
  }

  /// Runs `body` so that it happens wholly or not at all inside the open transaction.
  func savepoint<Result>(_ body: () throws -> Result) throws -> Result {
    try run("SAVEPOINT item")
    do {
      let result = try body()
      try run("RELEASE item")
      return result
    } catch {
      if isInTransaction {
        try run("ROLLBACK TO item")
        try run("RELEASE item")
      }
      throw error
    }
  }

  private func run(_ sql: StaticString) throws {
    let statement = try statement(sql)
    defer { statement.reset() }
    while try statement.step() {}
  }

  /// Copies the whole database to `path` while others go on reading and writing.
  package func backUp(to path: String, pagesPerStep: Int32 = 256) throws {
    let target = try Connection(path: path)
    guard let backup = sqlite3_backup_init(target.handle, "main", handle, "main") else {
      throw SQLiteError(target.handle, sqlite3_errcode(target.handle))
    }
    var code = SQLITE_OK
    repeat {
      code = sqlite3_backup_step(backup, pagesPerStep)
      // Another connection holds the lock, and SQLite offers nothing to wait for: sleep and try again.
      if code == SQLITE_BUSY || code == SQLITE_LOCKED { usleep(1000) }
    } while code == SQLITE_OK || code == SQLITE_BUSY || code == SQLITE_LOCKED
    let finish = sqlite3_backup_finish(backup)
    guard code == SQLITE_DONE, finish == SQLITE_OK else {
      throw SQLiteError(target.handle, finish == SQLITE_OK ? code : finish)
    }
  }

  /// Makes each commit of this connection store the WAL's number of frames in `walFrames`.
  package func countWALFrames() {
    sqlite3_wal_hook(handle, noteWALFrames, Unmanaged.passUnretained(self).toOpaque())
  }

  /// Bounds every later wait for another connection's lock.
  package func setBusyTimeout(milliseconds: Int32) { sqlite3_busy_timeout(handle, milliseconds) }

  /// Copies the WAL's frames into the database file.
  ///
  /// On a connection that never read the file, SQLite does nothing and reports success.
  @discardableResult
  package func checkpoint(_ mode: CheckpointMode) throws -> Checkpoint {
    try openWAL()
    var frames: Int32 = -1
    var done: Int32 = -1
    let code = sqlite3_wal_checkpoint_v2(handle, "main", mode.rawValue, &frames, &done)
    guard code == SQLITE_OK || code == SQLITE_BUSY else { throw SQLiteError(handle, code) }
    guard code == SQLITE_BUSY || frames >= 0 else {
      throw SQLiteError(SQLITE_MISUSE, "the checkpoint did nothing: the database has no WAL")
    }
    return Checkpoint(frames: Int(frames), done: Int(done), isWhole: code == SQLITE_OK && frames == done)
  }

  /// Reads the file, because SQLite opens its WAL with the first read.
  private func openWAL() throws {
    try run("SELECT 1 FROM sqlite_schema LIMIT 1")
  }

  /// The result of a checkpoint.
  package struct Checkpoint: Sendable {
    /// The frames in the WAL.
    package let frames: Int
    /// The number of these frames that are in the file now.
    package let done: Int
    /// Whether all frames are in the file, and no reader prevented a restart or truncation.
    package let isWhole: Bool
  }

  /// How hard a checkpoint tries.
  package enum CheckpointMode: Sendable {
    /// Copies as many frames as possible without waiting.
    case passive
    /// Waits for readers, so that the next commit writes the WAL from its beginning again.
    case restart
    /// Waits for readers and sets the WAL to length zero.
    case truncate

    fileprivate var rawValue: Int32 {
      switch self {
      case .passive: SQLITE_CHECKPOINT_PASSIVE
      case .restart: SQLITE_CHECKPOINT_RESTART
      case .truncate: SQLITE_CHECKPOINT_TRUNCATE
      }
    }
  }
}

/// SQLite calls this after each commit of a connection that counts the WAL's frames.
private let noteWALFrames:
  @convention(c) (UnsafeMutableRawPointer?, OpaquePointer?, UnsafePointer<CChar>?, Int32) -> Int32 = {
    context, _, _, frames in
    guard let context else { return SQLITE_OK }
    Unmanaged<Connection>.fromOpaque(context).takeUnretainedValue().walFrames = Int(frames)
    return SQLITE_OK
  }
