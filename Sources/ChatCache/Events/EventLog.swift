import ChatModel
import Platform
import SQLite

extension CacheWriter {
  /// Appends `change` to the log in this transaction, and returns its sequence.
  @discardableResult
  package func append(_ change: Change) throws -> Int64 {
    let sequence = takeSequence()
    try append(change, at: sequence)
    return sequence
  }

  /// Appends `change` with a sequence that was taken before, because rows have it as their version.
  func append(_ change: Change, at sequence: Int64) throws {
    try db.run(
      """
      INSERT INTO event (
        seq, at, kind, source, is_realtime, channel, user, collection, from_at, from_id, to_at, to_id,
        reference, detail
      )
      VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)
      """
    ) { statement in
      statement.bind(1, sequence)
      statement.bind(2, now)
      statement.bind(3, change.kind.rawValue)
      statement.bind(4, change.source.rawValue)
      statement.bind(5, change.source.isRealtime)
      statement.bind(6, change.channel?.rawValue)
      statement.bind(7, change.user?.rawValue)
      statement.bind(8, change.collection)
      statement.bind(9, change.stretch?.lowerBound.createdAt)
      statement.bind(10, change.stretch?.lowerBound.messageID)
      statement.bind(11, change.stretch?.upperBound.createdAt)
      statement.bind(12, change.stretch?.upperBound.messageID)
      statement.bind(13, change.reference)
      statement.bind(14, change.detail.map { String(decoding: $0, as: UTF8.self) })
    }
    try raiseVersions(change, sequence)
    touch(change, sequence)
  }

  /// Stores the sequence as the version of the channel, membership or user that the event concerns.
  private func raiseVersions(_ change: Change, _ sequence: Int64) throws {
    guard change.collection == nil else { return }
    switch (change.channel, change.user) {
    case (let channel?, nil):
      try db.run(
        """
        UPDATE channel
        SET version = max(version, ?2), updated_at = CASE WHEN ?4 THEN ?3 ELSE updated_at END
        WHERE id = ?1
        """
      ) {
        $0.bind(1, channel.rawValue)
        $0.bind(2, sequence)
        $0.bind(3, now)
        $0.bind(4, change.kind.isOfTheChat)
      }
    case (let channel?, let user?):
      try db.run("UPDATE membership SET version = max(version, ?3) WHERE user = ?1 AND channel = ?2") {
        $0.bind(1, user.rawValue)
        $0.bind(2, channel.rawValue)
        $0.bind(3, sequence)
      }
    case (nil, let user?):
      try db.run("UPDATE user SET version = max(version, ?2) WHERE id = ?1") {
        $0.bind(1, user.rawValue)
        $0.bind(2, sequence)
      }
    case (nil, nil): break
    }
  }
}

extension CacheReader {
  static func change(_ row: Row) throws -> LoggedChange {
    guard let kind = ChangeKind(rawValue: row.int64(2)), let source = ChangeSource(rawValue: row.int64(3))
    else {
      throw CacheError.unreadable("event \(row.int64(0)) is of no known kind")
    }
    var change = Change(kind, source)
    change.channel = row.int64OrNil(4).map(ChannelKey.init)
    change.user = row.int64OrNil(5).map(UserKey.init)
    change.collection = row.stringOrNil(6)
    if let from = row.int64OrNil(7), from <= row.int64(9) {
      let lower = Position(createdAt: from, messageID: row.int64(8))
      let upper = Position(createdAt: row.int64(9), messageID: row.int64(10))
      change.stretch = lower...max(lower, upper)
    }
    change.reference = row.stringOrNil(11)
    change.detail = row.isNull(12) ? nil : Array(row.bytes(12))
    return LoggedChange(sequence: row.int64(0), at: row.int64(1), change: change)
  }

  /// Whether the log can still tell everything after `cursor`, in this epoch (B52).
  package func covers(_ cursor: EventCursor) throws -> Bool {
    guard cursor.epoch == log.epoch.load(ordering: .relaxed) else { return false }
    guard try cursor.sequence >= oldestKept() - 1 else { return false }
    guard let end = try end(of: cursor.run) else { return false }
    return try cursor.sequence <= end && cursor.connection <= lastChange()
  }

  /// The last sequence of a run so far; nil: the log knows no such run.
  private func end(of run: Int64) throws -> Int64? {
    if let known = notes?.run, known.number == run { return known.end }
    let isKnown = try db.first("SELECT 1 FROM run WHERE run = ?1") {
      $0.bind(1, run)
    } _: { _ in
      true
    }
    let next = try db.first("SELECT first_seq FROM run WHERE run > ?1 ORDER BY run LIMIT 1") {
      $0.bind(1, run)
    } _: {
      $0.int64(0)
    }
    let end = isKnown == nil ? nil : try next.map { $0 - 1 } ?? lastChange()
    notes?.run = (run, end)
    return end
  }

  /// The last sequence in this snapshot. An answer read from it includes all changes up to that one.
  package func lastChange() throws -> Int64 {
    if let known = notes?.last { return known }
    let found = try max(
      db.first("SELECT seq FROM event ORDER BY seq DESC LIMIT 1") { $0.int64(0) } ?? 0,
      db.first("SELECT first_seq - 1 FROM run ORDER BY run DESC LIMIT 1") { $0.int64(0) } ?? 0)
    notes?.last = found
    return found
  }
}
