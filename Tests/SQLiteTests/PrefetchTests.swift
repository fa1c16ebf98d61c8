import CSQLite
import CSQLitePrefetch
import Glibc
import SQLite
import TestFolders
import Testing

/// Pages that are prefetched before their rows are read.
@Suite struct PrefetchTests {
  /// A file of 2000 rows in the order of their key, of which `bytes` are mapped.
  private static func filled(mapped bytes: Int) throws -> Connection {
    let path = TestFolder.make("prefetch") + "/test.db"
    let connection = try Connection(path: path)
    try connection.execute(
      """
      PRAGMA page_size = 16384;
      PRAGMA journal_mode = WAL;
      CREATE TABLE item (room INTEGER, id INTEGER, body BLOB, PRIMARY KEY (room, id)) WITHOUT ROWID;
      WITH number (value) AS (SELECT 1 UNION ALL SELECT value + 1 FROM number WHERE value < 2000)
      INSERT INTO item SELECT value % 10, value, CAST(printf('%0400d', value) AS BLOB) FROM number;
      PRAGMA wal_checkpoint(TRUNCATE);
      """)
    let reader = try Connection(path: path, mode: .readOnly)
    try reader.execute("PRAGMA mmap_size = \(bytes)")
    return reader
  }

  /// The rows of one room in the order read, and the number of prefetched pages.
  private static func read(
    _ connection: Connection, _ rows: (ReadAccess, StaticString, (Statement) -> Void) throws -> Rows
  ) throws -> (bodies: [String], pages: Int) {
    let before = sqlite_pages_prefetched()
    let bodies = try connection.read { db in
      var found = try rows(db, "SELECT id, body FROM item WHERE room = ?1 AND id > 0 ORDER BY id") {
        $0.bind(1, 7)
      }
      var bodies: [String] = []
      while let row = try found.next() { bodies.append("\(row.int(0)) \(row.string(1))") }
      return bodies
    }
    return (bodies, sqlite_pages_prefetched() - before)
  }

  private static let expected = stride(from: 7, through: 2000, by: 10).map { number in
    "\(number) \(String(repeating: "0", count: 400 - "\(number)".count))\(number)"
  }

  @Test("a walk prefetches each page once it comes to it, and reads the same rows")
  func walk() throws {
    let connection = try Self.filled(mapped: 1 << 28)
    let walk = try Self.read(connection) { try $0.walk($1, $2) }
    #expect(walk.bodies == Self.expected)
    #expect((5...12).contains(walk.pages), "200 rows of 400 bytes are in about six pages: \(walk.pages)")
    let rows = try Self.read(connection) { try $0.rows($1, $2) }
    #expect(rows.bodies == Self.expected && rows.pages == 0, "nobody else's pages are, not even afterwards")
  }

  @Test("a file that is not mapped is read as ever")
  func unmapped() throws {
    let walk = try Self.read(try Self.filled(mapped: 0)) { try $0.walk($1, $2) }
    #expect(walk.bodies == Self.expected && walk.pages == 0)
  }

  @Test("a database in memory has no file to prefetch")
  func inMemory() throws {
    let connection = try Connection(path: ":memory:")
    let one = try connection.read { db in
      var rows = try db.walk("SELECT 1")
      return try rows.next()?.int(0)
    }
    #expect(one == 1)
  }
}
