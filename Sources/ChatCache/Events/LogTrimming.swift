import ChatModel
import SQLite

// Trims the log and the tombstones, oldest first, one slice per commit (B53).
//
// `meta` has the first sequence from which the log is complete (`oldest_event`): a cursor before it is
// refused, any other gets all later events (B52). The log's rows alone do not show that, because a number may
// be missing after a failed commit. The newest event always stays: the next run's numbers follow it.

/// What one slice removed.
struct Trimmed: Sendable, Equatable {
  var events = 0
  var tombstones = 0
  /// Whether the slice was full, so that more may be left.
  var isFull: Bool { events + tombstones >= Limits.trimmedRows }
}

extension CacheWriter {
  /// Removes a slice of what `retention` does not keep. `surplus`: the number of events above its limit.
  func trim(_ retention: Retention, surplus: Int64) throws -> Trimmed {
    var trimmed = Trimmed()
    trimmed.events = try trimLog(surplus, before: moment - retention.eventMilliseconds)
    trimmed.tombstones = try trimTombstones(
      before: moment - retention.tombstoneMilliseconds, atMost: Limits.trimmedRows - trimmed.events)
    return trimmed
  }

  private func trimLog(_ surplus: Int64, before moment: Int64) throws -> Int {
    let oldest = try db.reading.all(
      """
      SELECT seq, at
      FROM event
      WHERE seq < (SELECT max(seq) FROM event)
      ORDER BY seq
      LIMIT ?1
      """
    ) {
      $0.bind(1, Limits.trimmedRows)
    } _: {
      (sequence: $0.int64(0), at: $0.int64(1))
    }
    let going = oldest.enumerated().prefix { Int64($0.offset) < surplus || $0.element.at < moment }
    guard let last = going.last?.element.sequence else { return 0 }
    try db.run("DELETE FROM event WHERE seq <= ?1") { $0.bind(1, last) }
    try keepLog(from: last + 1)
    return going.count
  }

  /// Notes that the log is complete from `sequence` on, and deletes runs that ended before.
  func keepLog(from sequence: Int64) throws {
    try db.set(.oldestEvent, sequence)
    try db.run(
      """
      DELETE FROM run
      WHERE run < (SELECT max(run) FROM run WHERE first_seq < ?1)
      """
    ) { $0.bind(1, sequence) }
  }

  private func trimTombstones(before moment: Int64, atMost rows: Int) throws -> Int {
    guard rows > 0 else { return 0 }
    return try db.run(
      """
      DELETE FROM tombstone
      WHERE (channel, message_id) IN (
        SELECT channel, message_id
        FROM tombstone INDEXED BY tombstone_by_age
        WHERE deleted_at < ?1
        ORDER BY deleted_at
        LIMIT ?2
      )
      """
    ) {
      $0.bind(1, moment)
      $0.bind(2, rows)
    }
  }
}

extension CacheReader {
  /// The first sequence from which the log is complete.
  func oldestKept() throws -> Int64 {
    if let known = notes?.oldest { return known }
    let found = try db.meta(.oldestEvent) ?? 1
    notes?.oldest = found
    return found
  }

  /// The number of sequences in the log's range: at least the number of its events.
  func logLength() throws -> Int64 {
    try (db.first("SELECT max(seq) FROM event") { $0.int64(0) } ?? 0) - oldestKept() + 1
  }

  /// How many events there are after a sequence, and the last one's sequence.
  func countEvents(after sequence: Int64) throws -> (rows: Int64, last: Int64) {
    try db.first("SELECT count(*), max(seq) FROM event WHERE seq > ?1") {
      $0.bind(1, sequence)
    } _: {
      ($0.int64(0), $0.int64OrNil(1) ?? sequence)
    } ?? (0, sequence)
  }

  /// Whether the oldest event or tombstone is older than `retention` keeps it.
  func hasOutlived(_ retention: Retention, now: Int64) throws -> Bool {
    let event = try db.first(
      "SELECT at FROM event WHERE seq < (SELECT max(seq) FROM event) ORDER BY seq LIMIT 1"
    ) { $0.int64(0) }
    if let event, event < now - retention.eventMilliseconds { return true }
    let tombstone = try db.first("SELECT deleted_at FROM tombstone ORDER BY deleted_at LIMIT 1") {
      $0.int64(0)
    }
    return tombstone.map { $0 < now - retention.tombstoneMilliseconds } ?? false
  }
}
