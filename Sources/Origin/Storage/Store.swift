import Platform
import SQLite

/// The stand-in's database: one connection that writes, and for a file some that read beside it.
///
/// Every change is one transaction that is on disk (`synchronous=FULL`) before its answer leaves, so that
/// `kill -9` loses nothing that was answered. A stamp is given out under the writer's lock, so changes become
/// visible in the order of their stamps. In memory there is one connection for all.
final class Store: @unchecked Sendable {  // because a connection is only touched under a lock or while lent
  private let lock = Lock()
  private let writer: Connection
  private var lastStamp: Int64
  private let readers: Watched<[Connection]>?
  private let clock: Clock
  private let folder: String
  private var past: Past?

  /// Opens the file, or memory for `:memory:`, and makes the tables.
  init(path: String, clock: Clock, readerCount: Int) throws {
    writer = try Connection(path: path)
    self.clock = clock
    let parent = path.lastIndex(of: "/").map { String(path[..<$0]) } ?? "."
    folder = path == ":memory:" ? "/tmp" : parent
    try writer.execute("PRAGMA journal_mode = WAL")
    try writer.execute("PRAGMA synchronous = FULL")
    try writer.execute("PRAGMA foreign_keys = ON")
    try writer.execute("PRAGMA cache_size = -65536")
    try writer.execute(Schema.sql)
    lastStamp = try writer.autocommit { db in
      try db.reading.first(
        """
        SELECT max(
          coalesce((SELECT max(stamp) FROM member), 0),
          coalesce((SELECT max(stamp) FROM crowd), 0),
          coalesce((SELECT max(stamp) FROM departure), 0),
          coalesce((SELECT max(stamp) FROM message_change), 0))
        """
      ) { $0.int64(0) } ?? 0
    }
    guard path != ":memory:" else {
      readers = nil
      return
    }
    readers = Watched(
      try (0..<readerCount).map { _ in
        let reader = try Connection(path: path, mode: .readOnly)
        try reader.execute("PRAGMA mmap_size = 1073741824")
        try reader.execute("PRAGMA cache_size = -16384")
        return reader
      })
  }

  /// One transaction with a stamp of its own.
  func write<Result>(_ body: (WriteAccess, Int64) throws -> Result) throws -> Result {
    try lock.withLock {
      lastStamp = max(clock.wallMilliseconds() * 1000, lastStamp + 1)
      let stamp = lastStamp
      try past?.keep(writer)
      return try writer.write { try body($0, stamp) }
    }
  }

  /// Keeps earlier states, so far back; 0: keeps none.
  func keepPast(milliseconds: Int64) {
    lock.withLock {
      guard past?.milliseconds ?? 0 != milliseconds else { return }
      past = milliseconds > 0 ? Past(milliseconds: milliseconds, folder: folder, clock: clock) : nil
    }
  }

  /// Lends one snapshot; `body` also gets its time in ms. `age`: the snapshot of so many ms ago, if one was
  /// kept.
  func read<Result>(asOf age: Int64? = nil, _ body: (ReadAccess, Int64) throws -> Result) throws -> Result {
    let now = clock.wallMilliseconds()
    if let age {
      let old: Result? = try lock.withLock {
        try past?.state(milliseconds: age)?.read { try body($0, now - age) }
      }
      if let old { return old }
    }
    guard let readers else { return try lock.withLock { try writer.read { try body($0, now) } } }
    guard let reader = readers.wait({ $0.popLast() }) else {
      preconditionFailure("a wait without an end ended")
    }
    defer { readers.update { $0.append(reader) } }
    return try reader.read { try body($0, now) }
  }
}
