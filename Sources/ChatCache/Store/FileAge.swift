import ChatModel
import Platform
import SQLite

// The time that the service has run on this file, over all runs. Periods that may outlast a run are measured
// by it: neither a stop nor a change of the machine's clock makes it pass faster.
//
// Within a run the clock does not step. A run begins with the larger of two ages that the file has of the run
// before: the age stored last, each hour and at the end, and the age at its last event.

/// The age of the file in a run.
struct FileAge: Sendable {
  /// When the run began (wall ms), and how old the file was then.
  let startedAt: Int64
  let atStart: Int64
  let clock: Clock

  /// The age now, ms.
  var now: Int64 { at(clock.wallMilliseconds()) }

  /// The age at a moment of this run.
  func at(_ moment: Int64) -> Int64 { atStart + max(0, moment - startedAt) }

  /// The age that the file's last run reached.
  static func reached(_ db: ReadAccess) throws -> Int64 {
    try db.first(
      """
      SELECT max(age_reached, age + coalesce(
        (SELECT at FROM event WHERE seq >= run.first_seq ORDER BY seq DESC LIMIT 1) - started_at, 0))
      FROM run
      ORDER BY run DESC
      LIMIT 1
      """
    ) { $0.int64(0) } ?? 0
  }
}

extension CacheWriter {
  /// Stores the file's age.
  func noteAge() throws {
    try db.run("UPDATE run SET age_reached = max(age_reached, ?1) WHERE run = (SELECT max(run) FROM run)") {
      $0.bind(1, age)
    }
  }
}

extension CacheReader {
  /// How long ago a change was committed, by the file's age (ms).
  package func elapsed(since change: LoggedChange) throws -> Int64 {
    let then = try db.first(
      "SELECT age + max(0, ?2 - started_at) FROM run WHERE first_seq <= ?1 ORDER BY run DESC LIMIT 1"
    ) {
      $0.bind(1, change.sequence)
      $0.bind(2, change.at)
    } _: {
      $0.int64(0)
    }
    return log.age.now - (then ?? 0)
  }
}
