import CSodium
import ChatModel
import Platform
import SQLite

/// The identity of a database file: the epoch of its log, the upstream that it belongs to, and its runs.
enum Identity {
  /// Checks the upstream that the file belongs to, and begins a new run.
  static func begin(_ connection: Connection, _ configuration: Cache.Configuration) throws -> CommitLog {
    try connection.write { db in
      if let upstream = configuration.upstream { try bind(db, to: upstream) }
      let epoch = try epoch(db)
      let last = try lastSequence(db.reading)
      let now = configuration.clock.wallMilliseconds()
      let lost = try lost(db, now: now)
      let age = FileAge(startedAt: now, atStart: try FileAge.reached(db.reading), clock: configuration.clock)
      let run = try db.reading.first("SELECT max(run) FROM run") { $0.int64(0) + 1 } ?? 1
      try db.run("INSERT INTO run (run, first_seq, started_at, age) VALUES (?1, ?2, ?3, ?4)") {
        $0.bind(1, run)
        $0.bind(2, last + 1)
        $0.bind(3, now)
        $0.bind(4, age.atStart)
      }
      return CommitLog(
        epoch: epoch, run: run, last: last, lost: lost, age: age,
        mostChangedMembers: configuration.mostChangedMembers, mostCleared: configuration.mostCleared)
    }
  }

  /// A pause between two runs that is no longer than this is not counted as lost (ms).
  private static let usualStop: Int64 = 60_000

  /// The sum of the times between runs, ms. Each is counted from the last event of the run before.
  private static func lost(_ db: WriteAccess, now: Int64) throws -> Int64 {
    let before = try db.reading.meta(.lost) ?? 0
    let last = try db.reading.first(
      """
      SELECT coalesce(
        (SELECT at FROM event WHERE seq >= run.first_seq ORDER BY seq DESC LIMIT 1), run.started_at)
      FROM run
      ORDER BY run.run DESC
      LIMIT 1
      """
    ) { $0.int64(0) }
    guard let last, now - last > usualStop else { return before }
    let lost = before + now - last
    try db.set(.lost, lost)
    return lost
  }

  /// A directory belongs to the first upstream it was opened with (B65).
  private static func bind(_ db: WriteAccess, to upstream: String) throws {
    if let bound = try db.reading.metaText(.upstream) {
      guard bound == upstream else { throw CacheError.boundElsewhere(to: bound, asked: upstream) }
      return
    }
    try db.set(.upstream, upstream)
  }

  private static func epoch(_ db: WriteAccess) throws -> UInt64 {
    if let known = try db.reading.meta(.epoch) { return UInt64(bitPattern: known) }
    var made: UInt64 = 0
    randombytes_buf(&made, MemoryLayout<UInt64>.size)
    try db.set(.epoch, Int64(bitPattern: made))
    return made
  }

  /// The highest sequence ever used, even if the log was trimmed since.
  private static func lastSequence(_ db: ReadAccess) throws -> Int64 {
    try db.first(
      """
      SELECT max(
        coalesce((SELECT max(seq) FROM event), 0),
        coalesce((SELECT max(first_seq) - 1 FROM run), 0)
      )
      """
    ) { $0.int64(0) } ?? 0
  }
}
