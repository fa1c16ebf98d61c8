import CSQLite
import Glibc
import Platform
import TestFolders
import Testing

@testable import SQLite

/// The thin layer over SQLite, on real files.
@Suite struct SQLiteTests {
  private static func path() -> String { TestFolder.make("sqlite") + "/test.db" }

  private static func open(_ path: String = path()) throws -> Connection {
    let connection = try Connection(path: path, busyTimeoutMilliseconds: 50)
    try connection.execute(
      """
      PRAGMA journal_mode = WAL;
      CREATE TABLE IF NOT EXISTS item (id INTEGER PRIMARY KEY, name TEXT, size REAL, body BLOB) STRICT;
      """)
    return connection
  }

  private static func insert(_ id: Int, _ db: WriteAccess) throws {
    try db.run("INSERT INTO item (id, name) VALUES (?1, ?2)") {
      $0.bind(1, id)
      $0.bind(2, "item \(id)")
    }
  }

  private static func count(_ connection: Connection) throws -> Int {
    try connection.read { db in try db.first("SELECT count(*) FROM item") { $0.int(0) } ?? -1 }
  }

  @Test("every kind of value comes back as it was bound, NULL and empty told apart")
  func values() throws {
    let connection = try Self.open()
    let body: [UInt8] = [0, 1, 255, 0]
    try connection.write { db in
      try body.withUnsafeBytes { bytes in
        _ = try db.run("INSERT INTO item VALUES (?1, ?2, ?3, ?4)") {
          $0.bind(1, Int64.max)
          $0.bind(2, "naïve \u{1F426} \0 end")
          $0.bind(3, 0.1)
          $0.bind(4, blob: bytes)
        }
      }
      try db.run("INSERT INTO item VALUES (?1, ?2, NULL, ?3)") {
        $0.bind(1, Int64.min)
        $0.bind(2, "")
        $0.bind(3, copyOf: [])
      }
      try db.run("INSERT INTO item VALUES (?1, ?2, NULL, ?3)") {
        $0.bind(1, 0)
        $0.bind(2, String?.none)
        $0.bind(3, copyOf: nil)
      }
    }
    try connection.read { db in
      var rows = try db.rows("SELECT id, name, size, body FROM item ORDER BY id")
      let least = try #require(try rows.next())
      #expect(least.int64(0) == .min && least.stringOrNil(1) == "" && !least.isNull(3))
      #expect(least.bytes(3).isEmpty && least.isNull(2) && least.double(2) == 0)
      let none = try #require(try rows.next())
      #expect(none.int64OrNil(0) == 0 && none.stringOrNil(1) == nil && none.isNull(3) && !none.bool(0))
      let greatest = try #require(try rows.next())
      #expect(greatest.int64(0) == .max && greatest.string(1) == "naïve \u{1F426} \0 end" && greatest.bool(0))
      #expect(greatest.double(2) == 0.1 && Array(greatest.bytes(3)) == body)
      #expect(try rows.next() == nil)
    }
  }

  @Test("a statement is prepared once, and its values are gone before its next use")
  func statements() throws {
    let connection = try Self.open()
    try connection.write { db in
      for round in 0..<3 {
        try db.run("INSERT INTO item (id, name) VALUES (?1, ?2)") {
          $0.bind(1, round)
          if round == 0 { $0.bind(2, "only the first") }
        }
      }
    }
    let names = try connection.read { db in
      try db.all("SELECT name FROM item ORDER BY id") { $0.stringOrNil(0) }
    }
    #expect(names == ["only the first", nil, nil])
  }

  @Test("a statement that was put together is prepared once, whatever values it gets, and never shared")
  func composed() throws {
    let connection = try Self.open()
    try connection.execute(
      """
      CREATE TABLE room (number INTEGER, state TEXT);
      CREATE INDEX hidden_room ON room (number) WHERE state = 'hidden';
      INSERT INTO room VALUES (0, 'shown'), (1, 'shown'), (2, 'shown');
      """)
    let text = "SELECT number FROM room WHERE number = ? AND state = ?" + " ORDER BY number"
    let first = try connection.statement(composed: text)
    try connection.read { db in
      for id in 0..<3 {
        var rows = try db.rows(composed: text) {
          $0.bind(1, id)
          $0.bind(2, "shown")
        }
        #expect(try rows.next()?.int(0) == id)
        // While its rows are read another reading of the same text has a statement of its own.
        var others = try db.rows(composed: text) {
          $0.bind(1, 2 - id)
          $0.bind(2, "shown")
        }
        #expect(try others.next()?.int(0) == 2 - id)
        #expect(try rows.next() == nil)
      }
    }
    #expect(sqlite3_stmt_status(first.handle, Int32(SQLITE_STMTSTATUS_RUN), 0) >= 1)
    #expect(sqlite3_stmt_status(first.handle, Int32(SQLITE_STMTSTATUS_REPREPARE), 0) == 0)
    for number in 0..<100 { _ = try connection.statement(composed: "SELECT \(number)") }
    #expect(connection.composed.count <= 16)
  }

  @Test("a write happens wholly or not at all")
  func transactions() throws {
    struct Stop: Error {}
    let connection = try Self.open()
    #expect(throws: Stop.self) {
      try connection.write { db in
        try Self.insert(1, db)
        throw Stop()
      }
    }
    #expect(try Self.count(connection) == 0 && !connection.isInTransaction)
    try connection.write { try Self.insert(1, $0) }
    #expect(try Self.count(connection) == 1)
  }

  private struct Stop: Error {}

  /// Inserts a row in a savepoint that fails.
  private static func insertInVain(_ id: Int, _ db: WriteAccess, _ inside: () throws -> Void = {}) throws {
    do {
      try db.savepoint {
        try insert(id, db)
        try inside()
        throw Stop()
      }
    } catch is Stop {}
  }

  @Test("a savepoint that fails takes its own part back, also one inside another")
  func savepoints() throws {
    let connection = try Self.open()
    try connection.write { db in
      try Self.insert(1, db)
      try Self.insertInVain(2, db) { try db.savepoint { try Self.insert(3, db) } }
      try db.savepoint {
        try Self.insert(4, db)
        try Self.insertInVain(5, db)
      }
    }
    let ids = try connection.read { db in try db.all("SELECT id FROM item ORDER BY id") { $0.int(0) } }
    #expect(ids == [1, 4])
  }

  @Test("a reader's bracket is one snapshot, whatever is written meanwhile")
  func snapshots() throws {
    let path = Self.path()
    let (one, other) = (try Self.open(path), try Self.open(path))
    try one.read { db in
      let before = try db.first("SELECT count(*) FROM item") { $0.int(0) }
      try other.write { try Self.insert(1, $0) }
      let after = try db.first("SELECT count(*), 'again' FROM item") { $0.int(0) }
      #expect(before == 0 && after == 0)
    }
    #expect(try Self.count(one) == 1)
  }

  @Test("an error has the code, the extended code, SQLite's words and the statement")
  func errors() throws {
    let connection = try Self.open()
    try connection.write { try Self.insert(1, $0) }
    do {
      try connection.write { try Self.insert(1, $0) }
      Issue.record("a second row of the same key was taken")
    } catch let error as SQLiteError {
      #expect(error.code == SQLITE_CONSTRAINT && error.kind == .constraint)
      #expect(error.extendedCode == SQLITE_CONSTRAINT | (6 << 8))
      #expect(error.message.contains("UNIQUE") && error.sql?.contains("INSERT INTO item") == true)
      #expect(error.description.contains("1555"))
    }
    do {
      try connection.read { db in _ = try db.first("SELECT nonsense FROM nowhere") { $0.int(0) } }
      Issue.record("nonsense was prepared")
    } catch let error as SQLiteError {
      #expect(error.kind == .other && error.sql == "SELECT nonsense FROM nowhere")
    }
    #expect(throws: SQLiteError.self) { try connection.execute("CREATE TABLE") }
    #expect(throws: SQLiteError.self) { try Connection(path: Self.path() + "/x.db") }
  }

  @Test("a lock that another holds is busy after the bounded wait, and free again after it")
  func busy() throws {
    let path = Self.path()
    let (one, other) = (try Self.open(path), try Self.open(path))
    try one.write { db in
      try Self.insert(1, db)
      do {
        try other.write { try Self.insert(2, $0) }
        Issue.record("two wrote at once")
      } catch let error as SQLiteError {
        #expect(error.kind == .busy)
      }
    }
    try other.write { try Self.insert(2, $0) }
    #expect(try Self.count(one) == 2)
  }

  @Test("what is not a database says so")
  func corrupt() throws {
    let path = Self.path()
    let file = Glibc.open(path, O_WRONLY | O_CREAT, 0o600)
    let text = Array(String(repeating: "no database at all. ", count: 400).utf8)
    #expect(write(file, text, text.count) == text.count)
    close(file)
    do {
      try Connection(path: path).execute("PRAGMA user_version")
      Issue.record("a text was opened as a database")
    } catch let error as SQLiteError {
      #expect(error.kind == .corrupt)
    }
  }

  @Test("a connection for reading alone writes nothing")
  func readOnly() throws {
    let path = Self.path()
    try Self.open(path).write { try Self.insert(1, $0) }
    let reader = try Connection(path: path, mode: .readOnly)
    #expect(try Self.count(reader) == 1)
    #expect(throws: SQLiteError.self) { try reader.write { try Self.insert(2, $0) } }
    #expect(throws: SQLiteError.self) { try Connection(path: Self.path(), mode: .readOnly) }
  }

  @Test("a running statement ends when it is interrupted from another thread")
  func interrupt() throws {
    let connection = try Self.open()
    let interrupt = connection.interrupt
    let isDone = Watched(false)
    let thread = Thread("interrupter") {
      while !isDone.read({ $0 }) {
        interrupt()
        usleep(1000)
      }
    }
    do {
      try connection.read { db in
        _ = try db.first(
          """
          WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)
          SELECT max(i) FROM n
          """
        ) { $0.int64(0) }
      }
      Issue.record("an endless statement ended by itself")
    } catch let error as SQLiteError {
      #expect(error.kind == .interrupted)
    }
    isDone.update { $0 = true }
    thread.join()
    #expect(try Self.count(connection) == 0, "the connection goes on")
  }

  @Test("a backup is a whole database of its own")
  func backup() throws {
    let connection = try Self.open()
    try connection.write { db in for id in 0..<1000 { try Self.insert(id, db) } }
    let path = Self.path()
    try connection.backUp(to: path)
    try connection.write { try Self.insert(1000, $0) }
    #expect(try Self.count(Connection(path: path, mode: .readOnly)) == 1000)
  }

  @Test("rows are let go of when their reading stops early")
  func early() throws {
    let connection = try Self.open()
    try connection.write { db in for id in 0..<10 { try Self.insert(id, db) } }
    for _ in 0..<3 {
      let first = try connection.read { db in
        var rows = try db.rows("SELECT id FROM item ORDER BY id")
        return try rows.next()?.int(0)
      }
      #expect(first == 0)
    }
  }

  private static func pool(_ path: String) -> ConnectionPool {
    ConnectionPool { try Connection(path: path, mode: .readWrite, busyTimeoutMilliseconds: 50) }
  }

  private static func count(_ pool: ConnectionPool, _ state: UInt64?, isStill: Bool = true) throws -> Int {
    try pool.read(state, isStill: { _ in isStill }) { db in
      try db.first("SELECT count(*) FROM item") { $0.int(0) } ?? -1
    }
  }

  @Test("a snapshot is kept for who reads the same state, and for nobody else")
  func keptSnapshots() throws {
    let path = Self.path()
    let writer = try Self.open(path)
    let pool = Self.pool(path)
    #expect(try Self.count(pool, 2) == 0)
    try writer.write { try Self.insert(1, $0) }
    #expect(try Self.count(pool, 2) == 0, "the state is said to be the same")
    #expect(try Self.count(pool, 4) == 1)
    try writer.write { try Self.insert(2, $0) }
    #expect(try Self.count(pool, nil) == 2, "a state that has no name is read anew")
    try writer.write { try Self.insert(3, $0) }
    #expect(try Self.count(pool, 4) == 3)
    #expect(try Self.count(pool, 4, isStill: false) == 3)
    try writer.write { try Self.insert(4, $0) }
    #expect(try Self.count(pool, 4) == 4, "what changed while it was read was not kept")
    #expect(throws: Broken.self) { try pool.read(4, isStill: { _ in true }) { _ in throw Broken() } }
    #expect(try Self.count(pool, 6) == 4)
  }

  private struct Broken: Error {}

  @Test("a snapshot that was kept does not keep the WAL from being moved into the file")
  func checkpoints() throws {
    let path = Self.path()
    let writer = try Self.open(path)
    let pool = Self.pool(path)
    try writer.write { try Self.insert(1, $0) }
    #expect(try Self.count(pool, 2) == 1)
    try writer.write { try Self.insert(2, $0) }
    let held = try writer.checkpoint(.truncate)
    #expect(held.done < held.frames, "the kept snapshot is in the way")
    let moved = try pool.withoutKeptSnapshots {
      #expect(try Self.count(pool, 2) == 2, "who reads meanwhile keeps nothing")
      return try writer.checkpoint(.truncate)
    }
    #expect(moved.frames == 0 && moved.done == 0)
    #expect(try Self.count(pool, 2) == 2)
    try writer.write { try Self.insert(3, $0) }
    #expect(try Self.count(pool, 2) == 2, "afterwards it is kept again")
  }
}
