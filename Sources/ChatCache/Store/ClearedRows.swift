import CSodium
import ChatModel
import Platform
import SQLite

// Rows that were cleared and are too many for one commit. The commit that clears makes them invisible; then
// they are deleted in the background, one slice per commit, so that other writes go in between (B58).
//
// A channel's messages: the whole line is a gap, and `channel.cleared_version` is the sequence of the clear.
// Messages of that version or older are deleted. Storing an answer first deletes the cleared messages of its
// stretch. If these are more than one commit may delete, the answer is not stored, and the stretch stays a
// gap for a later one. In a crowded channel the unread counts are those of the members' rows and of stored
// messages, also of cleared ones. Before these are deleted, the members' rows count them, some members in
// each slice.
//
// Everything: `meta.clearing` is the log's sequence at the clear. Until all is deleted, no user is in any
// channel as far as readers are told, and no answer about channels is stored. Then the rest is cleared in one
// commit, as a small cache is, and every user's sync begins again.
//
// A user who was forgotten: the row in `user` gets another user_id, so that the user is unknown at once.
// Its unsent rows, which nothing sends, its memberships and remembered requests are deleted, then the row.

/// The time that one slice of a deletion may take in the writer.
struct SliceTime {
  private let end = Clock.system.monotonicNanoseconds() + Limits.sliceNanoseconds

  var isOver: Bool { Clock.system.monotonicNanoseconds() >= end }
}

extension CacheReader {
  /// The log's sequence when everything was cleared, if rows are left to delete.
  func clearsEverything() throws -> Int64? {
    if let notes, notes.isClearing == false { return nil }
    let found = try db.meta(.clearing)
    notes?.isClearing = found != nil
    return found
  }

  /// Whether everything was cleared, and rows are left to delete. Readers are then told of no channel.
  package func isBeingCleared() throws -> Bool { try clearsEverything() != nil }

  /// The channels that have cleared messages to delete.
  func clearedChannels() throws -> [ChannelKey] {
    try db.all("SELECT id FROM channel INDEXED BY channel_cleared WHERE cleared_version IS NOT NULL") {
      ChannelKey($0.int64(0))
    }
  }

  /// The forgotten users whose memberships or remembered requests are still to be deleted.
  func removedUsers() throws -> [UserKey] {
    try db.all("SELECT id FROM user INDEXED BY user_removed WHERE is_removed = 1") { UserKey($0.int64(0)) }
  }

  /// The sequence at which the channel was cleared, if messages are left to delete; else 0.
  func clearedVersion(of channel: ChannelKey) throws -> Int64 {
    try db.first("SELECT cleared_version FROM channel WHERE id = ?1") {
      $0.bind(1, channel.rawValue)
    } _: {
      $0.int64OrNil(0)
    }.flatMap { $0 } ?? 0
  }

  /// The position up to which the rows of the crowded channel's members do not count its cleared messages
  /// yet; nil: they count all of them.
  func uncountedCleared(of channel: ChannelKey) throws -> Position? {
    try db.first(
      """
      SELECT known_to_at, known_to_id
      FROM channel
      WHERE id = ?1
        AND cleared_version IS NOT NULL
        AND is_crowded = 1
        AND (folded_user IS NOT NULL OR (folded_at, folded_id) < (known_to_at, known_to_id))
      """
    ) {
      $0.bind(1, channel.rawValue)
    } _: {
      Position(createdAt: $0.int64(0), messageID: $0.int64(1))
    }
  }

  /// Whether the stretch, or a thread in it, has more cleared messages than one commit deletes.
  func hasManyCleared(
    in stretch: ClosedRange<Position>, of channel: ChannelKey, ofThread thread: Int64? = nil
  ) throws -> Bool {
    let version = try clearedVersion(of: channel)
    guard version > 0 else { return false }
    if let thread {
      let most = Limits.clearedAtOnce
      return try replies(to: thread, in: stretch, of: channel, notAfter: version, limit: most + 1).count
        > most
    }
    return try db.first(
      """
      SELECT 1
      FROM message
      WHERE channel = ?1
        AND (created_at, message_id) >= (?2, ?3)
        AND (created_at, message_id) <= (?4, ?5)
        AND version <= ?6
      LIMIT 1 OFFSET ?7
      """
    ) {
      CacheReader.bind($0, stretch, channel)
      $0.bind(6, version)
      $0.bind(7, Limits.clearedAtOnce)
    } _: { _ in
      true
    } ?? false
  }

  func storedMessages(of channel: ChannelKey, exceed most: Int) throws -> Bool {
    try db.first("SELECT cached_messages FROM channel WHERE id = ?1") {
      $0.bind(1, channel.rawValue)
    } _: {
      $0.int(0)
    } ?? 0 > most
  }

  /// Whether any of the tables to clear has more rows than one commit deletes, or the log more events up to
  /// the clear.
  func hasMany(eventsThrough sequence: Int64) throws -> Bool {
    for probe in CacheReader.probes {
      let isFound = try db.first(probe) {
        $0.bind(1, log.mostCleared)
      } _: { _ in
        true
      }
      if isFound == true { return true }
    }
    return try db.first("SELECT 1 FROM event WHERE seq <= ?2 LIMIT 1 OFFSET ?1") {
      $0.bind(1, log.mostCleared)
      $0.bind(2, sequence)
    } _: { _ in
      true
    } ?? false
  }

  /// Each finds a row if its table has more than ?1 rows.
  private static let probes: [StaticString] = [
    "SELECT 1 FROM membership LIMIT 1 OFFSET ?1", "SELECT 1 FROM message LIMIT 1 OFFSET ?1",
    "SELECT 1 FROM tombstone LIMIT 1 OFFSET ?1", "SELECT 1 FROM segment LIMIT 1 OFFSET ?1",
    "SELECT 1 FROM member LIMIT 1 OFFSET ?1", "SELECT 1 FROM channel_metadata LIMIT 1 OFFSET ?1",
    "SELECT 1 FROM read_position LIMIT 1 OFFSET ?1", "SELECT 1 FROM thread LIMIT 1 OFFSET ?1",
    "SELECT 1 FROM channel LIMIT 1 OFFSET ?1",
  ]

  /// Whether the user has more than `most` memberships, unsent rows or remembered requests.
  func rows(of user: UserKey, exceed most: Int) throws -> Bool {
    try db.first(
      """
      SELECT 1
      FROM (
        SELECT 1 FROM (SELECT 1 FROM membership WHERE user = ?1 LIMIT 1 OFFSET ?2)
        UNION ALL
        SELECT 1 FROM (SELECT 1 FROM request WHERE user = ?1 LIMIT 1 OFFSET ?2)
        UNION ALL
        SELECT 1 FROM (
          SELECT 1 FROM outbox INDEXED BY outbox_by_user WHERE user = ?1 LIMIT 1 OFFSET ?2
        )
      )
      LIMIT 1
      """
    ) {
      $0.bind(1, user.rawValue)
      $0.bind(2, most)
    } _: { _ in
      true
    } ?? false
  }
}

// The commits that make rows invisible.
extension CacheWriter {
  /// Marks the channel's messages up to that version. The upkeep deletes them.
  func hideMessages(of channel: ChannelKey, through version: Int64) throws {
    try db.run("UPDATE channel SET cleared_version = ?2 WHERE id = ?1") {
      $0.bind(1, channel.rawValue)
      $0.bind(2, version)
    }
    noteClearedRows()
  }

  /// Marks everything as cleared, and the events up to that sequence. The upkeep deletes it. Nil: removes the
  /// mark, because nothing is left.
  func clearLater(_ sequence: Int64?) throws {
    guard let sequence else { return try db.remove(.clearing) }
    try db.set(.clearing, sequence)
    noteClearedRows()
  }

  /// Deletes the user. A user with many rows is hidden instead, and the upkeep deletes the rows.
  func deleteOrHide(_ user: UserKey) throws {
    guard try reader.rows(of: user, exceed: reader.log.mostCleared) else {
      while try removeUnsent(of: user) > 0 {}
      try db.run("DELETE FROM request WHERE user = ?1") { $0.bind(1, user.rawValue) }
      try db.run("DELETE FROM user WHERE id = ?1") { $0.bind(1, user.rawValue) }
      return
    }
    for owned in CacheWriter.ownedByUser { try db.run(owned) { $0.bind(1, user.rawValue) } }
    var unique: UInt64 = 0
    randombytes_buf(&unique, MemoryLayout<UInt64>.size)
    try db.run("UPDATE user SET user_id = ?2, phase = 'stopped', is_removed = 1 WHERE id = ?1") {
      $0.bind(1, user.rawValue)
      $0.bind(2, "removed \(user.rawValue) \(unique)")
    }
    noteClearedRows()
  }

  /// Statements that delete what belongs to a user, except memberships and requests.
  private static let ownedByUser: [StaticString] = [
    "DELETE FROM ticket WHERE user = ?1", "DELETE FROM collection WHERE user = ?1",
    "DELETE FROM withheld WHERE user = ?1", "DELETE FROM unsent_count WHERE user = ?1",
  ]

  /// Deletes the stored message if it was cleared.
  func dropCleared(_ id: Int64, _ batch: inout MessageBatch) throws {
    let version = try clearedVersion(&batch)
    guard version > 0, let row = try reader.doomed(id, in: batch.channel), row.version <= version else {
      return
    }
    try deleteRow(at: row.counted.position, in: batch.channel)
    batch.rows -= 1
    batch.bytes -= row.bytes
  }
}

extension CacheWriter {
  /// The sequence at which the batch's channel was cleared, looked up once; 0: no cleared messages are left.
  private func clearedVersion(_ batch: inout MessageBatch) throws -> Int64 {
    let version = try batch.clearedVersion ?? reader.clearedVersion(of: batch.channel)
    batch.clearedVersion = version
    return version
  }
}

/// How far the deletion of a channel's cleared messages has come.
struct ClearedReach: Sendable {
  /// The sequence at which the channel was cleared. A later clear begins the deletion again.
  var version: Int64 = 0
  var position = Position.start
}

// The slices.
extension CacheWriter {
  /// Deletes cleared messages of the channel after `reached`. Returns how far it came; nil: none is left.
  func removeSlice(ofCleared channel: ChannelKey, after reached: ClearedReach) throws -> ClearedReach? {
    let version = try reader.clearedVersion(of: channel)
    guard version > 0 else { return nil }
    let time = SliceTime()
    var reached = reached.version == version ? reached : ClearedReach(version: version)
    while let last = try reader.uncountedCleared(of: channel), !time.isOver {
      _ = try countEvicted(last, in: channel, members: Limits.countedMembers)
    }
    while !time.isOver {
      guard let next = try removeCleared(of: channel, upTo: version, from: reached.position) else {
        try db.run("UPDATE channel SET cleared_version = NULL WHERE id = ?1") {
          $0.bind(1, channel.rawValue)
        }
        return nil
      }
      reached.position = next
    }
    return reached
  }

  /// Deletes the cleared ones among the next rows. Returns the position after these rows.
  private func removeCleared(
    of channel: ChannelKey, upTo version: Int64, from reached: Position
  ) throws -> Position? {
    let next = try rows(of: channel, version, from: reached)
    guard let last = next.last?.position else { return nil }
    let cleared = next.filter(\.isCleared)
    for row in cleared { try deleteRow(at: row.position, in: channel) }
    try db.run(
      """
      UPDATE channel
      SET cached_messages = cached_messages - ?2, cached_bytes = cached_bytes - ?3
      WHERE id = ?1
      """
    ) {
      $0.bind(1, channel.rawValue)
      $0.bind(2, cleared.count)
      $0.bind(3, cleared.reduce(0) { $0 + $1.bytes })
    }
    return last.next
  }

  /// Deletes the cleared messages in a stretch, before an answer covers it; in a thread's stretch, only those
  /// of the thread.
  func dropCleared(
    in stretch: ClosedRange<Position>, ofThread thread: Int64?, _ batch: inout MessageBatch
  ) throws {
    let version = try clearedVersion(&batch)
    guard version > 0 else { return }
    let cleared = try reader.messages(
      in: stretch, of: batch.channel, notAfter: version, sparesReplies: false, thread: thread)
    for position in cleared { try dropCleared(position.messageID, &batch) }
  }

  private struct ClearedRow { let position: Position, isCleared: Bool, bytes: Int64 }

  /// The next rows at or after a position, oldest first.
  private func rows(of channel: ChannelKey, _ version: Int64, from reached: Position) throws -> [ClearedRow] {
    try db.reading.all(
      """
      SELECT
        created_at, message_id, version <= ?4,
        length(body) + coalesce(length(reactions), 0) + coalesce(length(metaarray), 0)
          + coalesce(length(thread_info), 0) + coalesce(length(parent), 0)
      FROM message
      WHERE channel = ?1 AND (created_at, message_id) >= (?2, ?3)
      ORDER BY created_at, message_id
      LIMIT ?5
      """
    ) {
      $0.bind(1, channel.rawValue)
      $0.bind(2, reached.createdAt)
      $0.bind(3, reached.messageID)
      $0.bind(4, version)
      $0.bind(5, Limits.trimmedRows)
    } _: {
      ClearedRow(
        position: Position(createdAt: $0.int64(0), messageID: $0.int64(1)), isCleared: $0.bool(2),
        bytes: $0.int64(3))
    }
  }

  /// Deletes one slice of a forgotten user's rows, and with the last slice the row in `user`. True: more are
  /// left.
  func removeSlice(ofRemoved user: UserKey) throws -> Bool {
    let time = SliceTime()
    while try removeUnsent(of: user) + remove(CacheWriter.memberships, of: user) > 0 {
      if time.isOver { return true }
    }
    // A request is remembered as long as its unsent row is there.
    while try remove(CacheWriter.requests, of: user) > 0 {
      if time.isOver { return true }
    }
    try db.run("DELETE FROM user WHERE id = ?1 AND is_removed = 1") { $0.bind(1, user.rawValue) }
    noteLeaving()
    // The upkeep hears only of commits with an event, and must hear that the user left.
    try append(Change(.connection, .channelRefresh, user: user))
    return false
  }

  /// Deletes some of the user's memberships. Returns how many.
  func removeMemberships(of user: UserKey) throws -> Int { try remove(CacheWriter.memberships, of: user) }

  /// Deletes some of the user's unsent rows. Returns how many.
  private func removeUnsent(of user: UserKey) throws -> Int {
    if try remove(CacheWriter.uploads, of: user) > 0 { noteFreedFiles() }
    return try remove(CacheWriter.unsent, of: user)
  }

  private func remove(_ rows: StaticString, of user: UserKey) throws -> Int {
    try db.run(rows) {
      $0.bind(1, user.rawValue)
      $0.bind(2, Limits.trimmedRows)
    }
  }

  private static let uploads: StaticString = """
    DELETE FROM upload
    WHERE row IN (SELECT id FROM outbox INDEXED BY outbox_by_user WHERE user = ?1 ORDER BY id LIMIT ?2)
    """

  private static let unsent: StaticString = """
    DELETE FROM outbox
    WHERE id IN (SELECT id FROM outbox INDEXED BY outbox_by_user WHERE user = ?1 ORDER BY id LIMIT ?2)
    """

  private static let memberships: StaticString = """
    DELETE FROM membership
    WHERE user = ?1
      AND channel IN (SELECT channel FROM membership WHERE user = ?1 ORDER BY channel LIMIT ?2)
    """

  private static let requests: StaticString = """
    DELETE FROM request
    WHERE user = ?1
      AND request_id IN (SELECT request_id FROM request WHERE user = ?1 ORDER BY request_id LIMIT ?2)
    """
}
