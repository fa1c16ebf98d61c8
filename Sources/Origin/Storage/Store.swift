import Platform
import SQLite

/// The one connection to the stand-in's database. Every operation runs alone in a transaction that is on disk
/// (`synchronous=FULL`) before its answer leaves, so that `kill -9` loses nothing that was answered.
final class Store: @unchecked Sendable {  // because the connection is only touched under `lock`
  private let lock = Lock()
  private let connection: Connection
  private var lastStamp: Int64 = 0
  private let clock: Clock

  /// Opens the file, or memory for `:memory:`, and makes the tables.
  init(path: String, clock: Clock) throws {
    connection = try Connection(path: path)
    self.clock = clock
    try connection.execute("PRAGMA journal_mode = WAL")
    try connection.execute("PRAGMA synchronous = FULL")
    try connection.execute("PRAGMA foreign_keys = ON")
    try connection.execute("PRAGMA cache_size = -65536")
    try connection.execute(Schema.sql)
    lastStamp = try connection.autocommit { db in
      try db.reading.first(
        """
        SELECT max(
          coalesce((SELECT max(stamp) FROM member), 0),
          coalesce((SELECT max(stamp) FROM departure), 0),
          coalesce((SELECT max(stamp) FROM message_change), 0))
        """
      ) { $0.int64(0) } ?? 0
    }
  }

  /// One transaction with a stamp of its own.
  func write<Result>(_ body: (WriteAccess, Int64) throws -> Result) throws -> Result {
    try lock.withLock {
      lastStamp = max(clock.wallMilliseconds() * 1000, lastStamp + 1)
      let stamp = lastStamp
      return try connection.write { try body($0, stamp) }
    }
  }
}
