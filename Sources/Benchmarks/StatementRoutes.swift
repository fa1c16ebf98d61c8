import Glibc
import MicroHTTP
import Platform
import SQLite
import Synchronization

/// `/statement`: 30 rows of about 400 bytes by one prepared statement, as in `mhd_hello`. It shows the cost
/// of the layers under the cache alone.
enum StatementRoutes {
  static func routes() throws -> [Route] {
    let rows = try RowsOnDisk()
    return [Route(.get, "/statement", operation: "statement") { _ in .respond(try rows.page()) }]
  }
}

/// 100 rooms of 1000 rows in a file.
private final class RowsOnDisk: Sendable {
  private let path: String
  private let connections: ConnectionPool
  private let turn = Atomic<UInt64>(1)

  init() throws {
    let path = "/dev/shm/perch-bench-\(getpid()).db"
    self.path = path
    connections = ConnectionPool {
      let connection = try Connection(path: path, mode: .readWrite)
      try connection.execute(
        "PRAGMA mmap_size = 268435456; PRAGMA cache_size = -16000; PRAGMA query_only = 1")
      return connection
    }
    unlink(path)
    let connection = try Connection(path: path)
    try connection.execute("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL")
    try connection.write { db in
      try db.execute(
        "CREATE TABLE m (room INTEGER, id INTEGER, payload TEXT, PRIMARY KEY (room, id)) WITHOUT ROWID")
      for room in 0..<100 {
        for id in 0..<1000 {
          var payload =
            "{\"id\":\(id),\"room\":\(room),\"kind\":\"message\",\"sender\":\"user-\(id % 37)\",\"body\":\""
          payload += String(repeating: "abcdefghij", count: 40).prefix(396 - payload.utf8.count) + "\"}"
          try db.run("INSERT INTO m VALUES (?1, ?2, ?3)") { statement in
            statement.bind(1, room)
            statement.bind(2, id)
            statement.bind(3, payload)
          }
        }
      }
    }
    try connection.checkpoint(.truncate)
  }

  deinit { unlink(path) }

  func page() throws -> Response {
    try connections.lend { connection in try page(connection) }
  }

  private func page(_ connection: Connection) throws -> Response {
    let number = turn.wrappingAdd(1, ordering: .relaxed).newValue &* 0x9E37_79B9_7F4A_7C15
    var body = ByteBuffer(capacity: 16_384)
    body.append("{\"items\":[")
    try connection.autocommit { db in
      var rows = try db.reading.walk(
        "SELECT payload FROM m WHERE room = ?1 AND id > ?2 ORDER BY id LIMIT 30"
      ) { statement in
        statement.bind(1, Int64((number >> 32) % 100))
        statement.bind(2, Int64((number >> 40) % 960))
      }
      var isFirst = true
      while let row = try rows.next() {
        if !isFirst { body.append(UInt8(ascii: ",")) }
        isFirst = false
        body.append(row.bytes(0))
      }
    }
    body.append("]}")
    var response = Response.json(body)
    response.add("Cache-Control", "no-cache")
    response.add("ETag", "\"12345-678\"")
    return response
  }
}
