import ChatModel
import SQLite

/// The values of a message that its deletion needs.
struct DoomedMessage {
  let version: Int64
  let bytes: Int64
  /// The values by which it was counted.
  let counted: CountedMessage
}

extension CacheReader {
  /// Whether a listing's claim above its last row (`open`) is outdated: newer messages were stored since it
  /// was requested, and no row stored before shows that those positions were past then.
  func isOutdated(
    _ open: ClosedRange<Position>, in channel: ChannelKey, since sequence: Int64
  ) throws -> Bool {
    let bind: (Statement, Position) -> Void = {
      $0.bind(1, channel.rawValue)
      $0.bind(2, $1.createdAt)
      $0.bind(3, $1.messageID)
      $0.bind(4, sequence)
    }
    let isPast = try db.first(
      """
      SELECT 1
      FROM message
      WHERE channel = ?1 AND (created_at, message_id) >= (?2, ?3) AND version <= ?4
      LIMIT 1
      """
    ) {
      bind($0, open.upperBound)
    } _: { _ in
      true
    }
    if isPast == true { return false }
    return try db.first(
      """
      SELECT 1
      FROM message
      WHERE channel = ?1 AND (created_at, message_id) >= (?2, ?3) AND version > ?4
      LIMIT 1
      """
    ) {
      bind($0, open.lowerBound)
    } _: { _ in
      true
    } ?? false
  }

  /// Whether all covered messages of the channel became unverified after that sequence of the log. True also
  /// if the log does not reach back to that sequence (B53).
  func wasDoubted(_ channel: ChannelKey, since sequence: Int64) throws -> Bool {
    if try sequence < oldestKept() - 1 { return true }
    return try db.first(
      "SELECT 1 FROM event WHERE channel = ?1 AND kind = ?2 AND seq > ?3 LIMIT 1"
    ) {
      $0.bind(1, channel.rawValue)
      $0.bind(2, ChangeKind.unverified.rawValue)
      $0.bind(3, sequence)
    } _: { _ in
      true
    } ?? false
  }

  /// Whether the upstream called the message deleted (B21).
  func isDeleted(_ id: Int64, in channel: ChannelKey) throws -> Bool {
    try db.first("SELECT 1 FROM tombstone WHERE channel = ?1 AND message_id = ?2") {
      $0.bind(1, channel.rawValue)
      $0.bind(2, id)
    } _: { _ in
      true
    } ?? false
  }

  /// The time of a stored message; nil: it is not stored.
  func time(of id: Int64, in channel: ChannelKey) throws -> Int64? {
    try db.first(
      "SELECT created_at FROM message INDEXED BY message_by_id WHERE channel = ?1 AND message_id = ?2"
    ) {
      $0.bind(1, channel.rawValue)
      $0.bind(2, id)
    } _: {
      $0.int64(0)
    }
  }

  func doomed(_ id: Int64, in channel: ChannelKey) throws -> DoomedMessage? {
    try db.first(
      """
      SELECT
        created_at, sender, flags, body, reactions, metaarray, thread_info, parent, mentions, version
      FROM message INDEXED BY message_by_id
      WHERE channel = ?1 AND message_id = ?2
      """
    ) {
      $0.bind(1, channel.rawValue)
      $0.bind(2, id)
    } _: { row in
      DoomedMessage(
        version: row.int64(9), bytes: Int64((3...7).reduce(0) { $0 + row.bytes(Int32($1)).count }),
        counted: CountedMessage(
          position: Position(createdAt: row.int64(0), messageID: id), sender: row.string(1),
          flags: MessageFlags(rawValue: row.int64(2)), mentions: row.stringOrNil(8)))
    }
  }

  /// The stored messages of a stretch, or of a thread in it, that changed no later than `sequence`.
  func messages(
    in stretch: ClosedRange<Position>, of channel: ChannelKey, notAfter sequence: Int64, sparesReplies: Bool,
    thread: Int64? = nil
  ) throws -> [Position] {
    if let thread { return try replies(to: thread, in: stretch, of: channel, notAfter: sequence) }
    return try db.all(
      """
      SELECT created_at, message_id
      FROM message
      WHERE channel = ?1
        AND (created_at, message_id) >= (?2, ?3)
        AND (created_at, message_id) <= (?4, ?5)
        AND version <= ?6
        AND NOT (?7 AND parent_id IS NOT NULL)
      """
    ) {
      CacheReader.bind($0, stretch, channel)
      $0.bind(6, sequence)
      $0.bind(7, sparesReplies)
    } _: {
      Position(createdAt: $0.int64(0), messageID: $0.int64(1))
    }
  }

  /// The stored replies to a message in a stretch that changed no later than `sequence`, at most `limit`.
  func replies(
    to parent: Int64, in stretch: ClosedRange<Position>, of channel: ChannelKey, notAfter sequence: Int64,
    limit: Int = -1
  ) throws -> [Position] {
    try db.all(
      """
      SELECT created_at, message_id
      FROM message INDEXED BY message_by_parent
      WHERE channel = ?1
        AND (created_at, message_id) >= (?2, ?3)
        AND (created_at, message_id) <= (?4, ?5)
        AND version <= ?6
        AND parent_id = ?7
      LIMIT ?8
      """
    ) {
      CacheReader.bind($0, stretch, channel)
      $0.bind(6, sequence)
      $0.bind(7, parent)
      $0.bind(8, limit)
    } _: {
      Position(createdAt: $0.int64(0), messageID: $0.int64(1))
    }
  }
}
