import ChatModel
import SQLite

// The log as one user may read it: changes that concern the user alone, the user's channels, or everybody.

extension CacheReader {
  /// The changes after `sequence` that concern that user, oldest first, at most `limit`. Changes of a single
  /// view are left out, except those of `view`. `end`: the sequence up to which the log was read.
  ///
  /// If the changes mostly concern the user, the log is read in order. Otherwise the user's channels are
  /// looked up one by one, so that other users' changes cost nothing.
  ///
  /// `isAssumed`: whether the user is taken for a member of a channel without a look at its members, unless
  /// something after `sequence` may have changed that.
  package func changes(
    for user: UserKey, view: String? = nil, after sequence: Int64, limit: Int,
    isAssumed: (ChannelKey) throws -> Bool = { _ in false }
  ) throws -> (changes: [LoggedChange], end: Int64, isWhole: Bool) {
    if let tail = try tail(after: sequence) {
      let isAsItWas = tail.allSatisfy { $0.change.leavesMemberships(of: user) }
      let own = try tail.all {
        try concerns($0.change, user, view, isAssumed: { try isAsItWas && isAssumed($0) })
      }
      let each = try LoggedChange.each(of: own, after: sequence, limit: limit)
      if each.isWhole { return (each.changes, try lastChange(), true) }
    }
    var found = try walk(user, view, sequence, limit)
    if !found.isWhole, found.changes.count * 4 < limit {
      let own = try gather(user, view, sequence, limit)
      let isWhole = own.count < limit
      found = (own, isWhole ? try lastChange() : own[own.count - 1].sequence, isWhole)
    }
    let each = try LoggedChange.each(of: found.changes, after: sequence, limit: limit)
    if each.isWhole { return (each.changes, found.end, found.isWhole) }
    return (each.changes, each.changes[each.changes.count - 1].sequence, false)
  }

  /// All changes after `sequence`; nil: they are more than a few, or this reading notes nothing.
  func tail(after sequence: Int64) throws -> ArraySlice<LoggedChange>? {
    guard let notes, try lastChange() - sequence <= CacheReader.mostInTail else { return nil }
    let known = notes.tail ?? (after: .max, changes: [])
    if sequence < known.after {
      notes.tail = (sequence, try changes(after: sequence, upTo: known.after) + known.changes)
    }
    return notes.tail?.changes.drop { $0.sequence <= sequence }
  }

  private func changes(after sequence: Int64, upTo end: Int64) throws -> [LoggedChange] {
    try db.all(
      """
      SELECT
        seq, at, kind, source, channel, user, collection, from_at, from_id, to_at, to_id,
        reference, detail
      FROM event
      WHERE seq > ?1 AND seq <= ?2
      ORDER BY seq
      """
    ) {
      $0.bind(1, sequence)
      $0.bind(2, end)
    } _: {
      try CacheReader.change($0)
    }
  }

  private static let mostInTail = 64

  /// Whether the user may read the change, as `walk` decides it.
  private func concerns(
    _ change: Change, _ user: UserKey, _ view: String?, isAssumed: (ChannelKey) throws -> Bool
  ) throws -> Bool {
    if let collection = change.collection { return change.user == user && collection == view }
    if let named = change.user { return named == user }
    guard let channel = change.channel else { return true }
    return try isAssumed(channel) || isMember(user, of: channel)
  }

  /// Reads `limit` rows of the log in order, and returns those that concern the user.
  private func walk(
    _ user: UserKey, _ view: String?, _ sequence: Int64, _ limit: Int
  ) throws -> (changes: [LoggedChange], end: Int64, isWhole: Bool) {
    var end = sequence
    var count = 0
    var changes: [LoggedChange] = []
    var rows = try db.rows(
      """
      SELECT
        e.seq, e.at, e.kind, e.source, e.channel, e.user, e.collection, e.from_at, e.from_id, e.to_at,
        e.to_id, e.reference, e.detail,
        CASE
          WHEN e.collection IS NULL
            THEN e.user = ?1 OR (e.user IS NULL AND (e.channel IS NULL OR m.user IS NOT NULL))
          ELSE e.user = ?1 AND e.collection IS ?4
        END
      FROM event AS e
      LEFT JOIN membership AS m ON m.user = ?1 AND m.channel = e.channel
      WHERE e.seq > ?2
      ORDER BY e.seq
      LIMIT ?3
      """
    ) {
      $0.bind(1, user.rawValue)
      $0.bind(2, sequence)
      $0.bind(3, limit)
      $0.bind(4, view)
    }
    while let row = try rows.next() {
      count += 1
      end = row.int64(0)
      if row.bool(13) { changes.append(try CacheReader.change(row)) }
    }
    return (changes, end, count < limit)
  }

  /// Looks up the user's own events, those for everybody, and those of the user's channels that changed.
  private func gather(
    _ user: UserKey, _ view: String?, _ sequence: Int64, _ limit: Int
  ) throws -> [LoggedChange] {
    try db.all(
      """
      SELECT
        seq, at, kind, source, channel, user, collection, from_at, from_id, to_at, to_id,
        reference, detail
      FROM event
      WHERE seq IN (
        SELECT seq
        FROM event INDEXED BY event_by_user
        WHERE user = ?1 AND seq > ?2 AND (collection IS NULL OR collection = ?4)
        UNION ALL
        SELECT seq
        FROM event INDEXED BY event_for_all
        WHERE channel IS NULL AND user IS NULL AND seq > ?2 AND collection IS NULL
        UNION ALL
        SELECT e.seq
        FROM membership AS m
        CROSS JOIN channel AS c ON c.id = m.channel AND c.version > ?2
        CROSS JOIN event AS e INDEXED BY event_by_channel
          ON e.channel = m.channel AND e.user IS NULL AND e.seq > ?2
        WHERE m.user = ?1 AND e.collection IS NULL
        ORDER BY 1
        LIMIT ?3
      )
      ORDER BY seq
      """
    ) {
      $0.bind(1, user.rawValue)
      $0.bind(2, sequence)
      $0.bind(3, limit)
      $0.bind(4, view)
    } _: {
      try CacheReader.change($0)
    }
  }

  /// The changes of that user's connection after `sequence` and up to `end`, oldest first.
  package func connectionChanges(
    of user: UserKey, after sequence: Int64, upTo end: Int64
  ) throws -> [LoggedChange] {
    if let tail = try tail(after: sequence) {
      return tail.filter { logged in
        let change = logged.change
        return change.kind == .connection && change.user ?? user == user && logged.sequence <= end
      }
    }
    return try db.all(
      """
      SELECT
        seq, at, kind, source, channel, user, collection, from_at, from_id, to_at, to_id,
        reference, detail
      FROM event INDEXED BY event_for_all
      WHERE channel IS NULL AND user IS NULL AND seq > ?2 AND seq <= ?3 AND kind = ?4
      UNION ALL
      SELECT
        seq, at, kind, source, channel, user, collection, from_at, from_id, to_at, to_id,
        reference, detail
      FROM event INDEXED BY event_by_user
      WHERE user = ?1 AND seq > ?2 AND seq <= ?3 AND kind = ?4
      ORDER BY seq
      """
    ) {
      $0.bind(1, user.rawValue)
      $0.bind(2, sequence)
      $0.bind(3, end)
      $0.bind(4, ChangeKind.connection.rawValue)
    } _: {
      try CacheReader.change($0)
    }
  }

  /// The changes after `sequence` that show withheld messages to that user alone (B38), oldest first.
  package func releases(to user: UserKey, after sequence: Int64) throws -> [LoggedChange] {
    try db.all(
      """
      SELECT
        seq, at, kind, source, channel, user, collection, from_at, from_id, to_at, to_id,
        reference, detail
      FROM event INDEXED BY event_by_user
      WHERE user = ?1 AND seq > ?2 AND kind = ?3
      ORDER BY seq
      """
    ) {
      $0.bind(1, user.rawValue)
      $0.bind(2, sequence)
      $0.bind(3, ChangeKind.messages.rawValue)
    } _: {
      try CacheReader.change($0)
    }
  }

  /// Passes the users of this cache who are in the channel to `body`, `count` at a time.
  package func eachMembers(of channel: ChannelKey, _ count: Int, _ body: ([UserKey]) -> Void) throws {
    var some: [UserKey] = []
    var rows = try db.rows("SELECT user FROM membership INDEXED BY membership_by_channel WHERE channel = ?1")
    { $0.bind(1, channel.rawValue) }
    while let row = try rows.next() {
      some.append(UserKey(row.int64(0)))
      guard some.count == count else { continue }
      body(some)
      some = []
    }
    body(some)
  }

  /// Whether anything after `sequence` may concern what that user sees of channels. It may read every later
  /// event: call it only if they are few.
  package func isConcerned(_ user: UserKey, after sequence: Int64) throws -> Bool {
    try db.first(
      """
      SELECT 1
      FROM event AS e
      WHERE e.seq > ?2
        AND e.collection IS NULL
        AND (
          e.user = ?1
          OR e.user IS NULL
            AND (
              e.channel IS NULL
              OR e.kind IN (4, 6)
              OR EXISTS (SELECT 1 FROM membership AS m WHERE m.user = ?1 AND m.channel = e.channel)
            )
        )
      LIMIT 1
      """
    ) {
      $0.bind(1, user.rawValue)
      $0.bind(2, sequence)
    } _: { _ in
      true
    } ?? false
  }

  /// The last event by which the user lost that channel.
  package func loss(of channel: ChannelKey, for user: UserKey) throws -> LoggedChange? {
    try db.first(
      """
      SELECT
        seq, at, kind, source, channel, user, collection, from_at, from_id, to_at, to_id,
        reference, detail
      FROM event INDEXED BY event_by_channel
      WHERE channel = ?1 AND user = ?2 AND kind IN (4, 6)
      UNION ALL
      SELECT
        seq, at, kind, source, channel, user, collection, from_at, from_id, to_at, to_id,
        reference, detail
      FROM event INDEXED BY event_by_channel
      WHERE channel = ?1 AND user IS NULL AND kind IN (4, 6)
      ORDER BY seq DESC
      LIMIT 1
      """
    ) {
      $0.bind(1, channel.rawValue)
      $0.bind(2, user.rawValue)
    } _: {
      try CacheReader.change($0)
    }
  }

  /// The channel's url, also after its users left.
  package func url(of channel: ChannelKey) throws -> ChannelURL? {
    if let known = notes?.channel(channel)?.url { return known }
    let found = try db.first("SELECT channel_url FROM channel WHERE id = ?1") {
      $0.bind(1, channel.rawValue)
    } _: {
      ChannelURL($0.string(0))
    }
    notes?.channel(channel)?.url = found
    return found
  }

  /// Whether the user is in the channel.
  package func isMember(_ user: UserKey, of channel: ChannelKey) throws -> Bool {
    try db.first("SELECT 1 FROM membership WHERE user = ?1 AND channel = ?2") {
      $0.bind(1, user.rawValue)
      $0.bind(2, channel.rawValue)
    } _: { _ in
      true
    } ?? false
  }
}

extension Change {
  /// Whether it is certain that the change ended no membership of the user.
  fileprivate func leavesMemberships(of user: UserKey) -> Bool {
    if let named = self.user { return named != user }
    switch kind {
    case .messages, .messageDeleted, .channel, .coverage, .hugeGap, .unverified, .tailConfirmed: return true
    default: return false
    }
  }
}

extension ArraySlice<LoggedChange> {
  /// Those that satisfy `isWanted`. If that is all of them, nothing is copied.
  fileprivate func all(that isWanted: (LoggedChange) throws -> Bool) rethrows -> [LoggedChange] {
    guard let first = try firstIndex(where: { try !isWanted($0) }) else { return Array(self) }
    return try self[..<first] + self[(first + 1)...].filter(isWanted)
  }
}
