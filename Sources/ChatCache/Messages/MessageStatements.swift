import ChatModel
import SQLite

// The statements that read messages to be answered. `MessageRows` and `ViewRow` take their rows.

/// The columns of such a statement, in their order: a test compares them with each statement's text.
enum MessageColumn: Int32, CaseIterable {
  case createdAt, messageID, type, flags, parentID, parentAt, sender, customType, body, reactions
  case metaarray, threadInfo, parent
  /// Only `rows(_:ofVersion:orFirst:_:)` has these columns.
  case version, firstVersion
}

/// The columns of `plainRows`, in their order.
enum PlainMessageColumn: Int32, CaseIterable { case createdAt, messageID, body, flags }

extension CacheReader {
  /// The rows of a stretch, from its newest or from its oldest.
  func rows(_ isBackwards: Bool, _ range: ClosedRange<Position>, _ channel: ChannelKey) throws -> Rows {
    let bind: (Statement) -> Void = { CacheReader.bind($0, range, channel) }
    if isBackwards {
      return try db.walk(
        """
        SELECT
          created_at, message_id, type, flags, parent_id, parent_at, sender, custom_type, body, reactions,
          metaarray, thread_info, parent
        FROM message
        WHERE channel = ?1
          AND (created_at, message_id) >= (?2, ?3)
          AND (created_at, message_id) <= (?4, ?5)
        ORDER BY created_at DESC, message_id DESC
        """, bind)
    }
    return try db.walk(
      """
      SELECT
        created_at, message_id, type, flags, parent_id, parent_at, sender, custom_type, body, reactions,
        metaarray, thread_info, parent
      FROM message
      WHERE channel = ?1
        AND (created_at, message_id) >= (?2, ?3)
        AND (created_at, message_id) <= (?4, ?5)
      ORDER BY created_at, message_id
      """, bind)
  }

  /// The rows from a position's millisecond on, for pages that filter only replies and include no optional
  /// part. The caller skips rows before the position and stops at the range's end, because each column and
  /// each comparison in SQL costs time in every row.
  func plainRows(_ isBackwards: Bool, fromTimeOf position: Position, _ channel: ChannelKey) throws -> Rows {
    func bind(_ statement: Statement) {
      statement.bind(1, channel.rawValue)
      statement.bind(2, position.createdAt)
    }
    if isBackwards {
      return try db.walk(
        """
        SELECT created_at, message_id, body, flags
        FROM message
        WHERE channel = ?1
          AND created_at <= ?2
        ORDER BY created_at DESC, message_id DESC
        """, bind)
    }
    return try db.walk(
      """
      SELECT created_at, message_id, body, flags
      FROM message
      WHERE channel = ?1
        AND created_at >= ?2
      ORDER BY created_at, message_id
      """, bind)
  }

  /// The same from the position itself on, for milliseconds of many messages.
  func plainRows(_ isBackwards: Bool, from position: Position, _ channel: ChannelKey) throws -> Rows {
    func bind(_ statement: Statement) {
      statement.bind(1, channel.rawValue)
      statement.bind(2, position.createdAt)
      statement.bind(3, position.messageID)
    }
    if isBackwards {
      return try db.walk(
        """
        SELECT created_at, message_id, body, flags
        FROM message
        WHERE channel = ?1
          AND (created_at, message_id) <= (?2, ?3)
        ORDER BY created_at DESC, message_id DESC
        """, bind)
    }
    return try db.walk(
      """
      SELECT created_at, message_id, body, flags
      FROM message
      WHERE channel = ?1
        AND (created_at, message_id) >= (?2, ?3)
      ORDER BY created_at, message_id
      """, bind)
  }

  /// The replies to a message in a stretch, from the newest or from the oldest.
  func replies(
    _ isBackwards: Bool, _ range: ClosedRange<Position>, _ channel: ChannelKey, _ parent: Int64
  ) throws -> Rows {
    let bind: (Statement) -> Void = {
      CacheReader.bind($0, range, channel)
      $0.bind(6, parent)
    }
    if isBackwards {
      return try db.walk(
        """
        SELECT
          created_at, message_id, type, flags, parent_id, parent_at, sender, custom_type, body, reactions,
          metaarray, thread_info, parent
        FROM message INDEXED BY message_by_parent
        WHERE channel = ?1
          AND parent_id = ?6
          AND (created_at, message_id) >= (?2, ?3)
          AND (created_at, message_id) <= (?4, ?5)
        ORDER BY created_at DESC, message_id DESC
        """, bind)
    }
    return try db.walk(
      """
      SELECT
        created_at, message_id, type, flags, parent_id, parent_at, sender, custom_type, body, reactions,
        metaarray, thread_info, parent
      FROM message INDEXED BY message_by_parent
      WHERE channel = ?1
        AND parent_id = ?6
        AND (created_at, message_id) >= (?2, ?3)
        AND (created_at, message_id) <= (?4, ?5)
      ORDER BY created_at, message_id
      """, bind)
  }

  static func bind(_ statement: Statement, _ range: ClosedRange<Position>, _ channel: ChannelKey) {
    statement.bind(1, channel.rawValue)
    statement.bind(2, range.lowerBound.createdAt)
    statement.bind(3, range.lowerBound.messageID)
    statement.bind(4, range.upperBound.createdAt)
    statement.bind(5, range.upperBound.messageID)
  }

  /// The rows of a stretch, or those of `version` alone, from the oldest. `orFirst`: also the rows that were
  /// stored with that version for the first time, and have another one now.
  func rows(
    _ range: ClosedRange<Position>, ofVersion version: Int64?, orFirst: Bool = false, _ channel: ChannelKey
  ) throws -> Rows {
    try db.rows(
      """
      SELECT
        created_at, message_id, type, flags, parent_id, parent_at, sender, custom_type, body, reactions,
        metaarray, thread_info, parent, version, first_version
      FROM message
      WHERE channel = ?1
        AND (created_at, message_id) >= (?2, ?3)
        AND (created_at, message_id) <= (?4, ?5)
        AND (?6 IS NULL OR version = ?6 OR first_version = ?7)
      ORDER BY created_at, message_id
      """
    ) {
      CacheReader.bind($0, range, channel)
      $0.bind(6, version)
      $0.bind(7, orFirst ? version : nil)
    }
  }

  /// The row of one message that is not older than `floor`, if there is one and it was not cleared.
  func rows(ofMessage id: Int64, from floor: Int64, _ channel: ChannelKey) throws -> Rows {
    try db.rows(
      """
      SELECT
        created_at, message_id, type, flags, parent_id, parent_at, sender, custom_type, body, reactions,
        metaarray, thread_info, parent
      FROM message INDEXED BY message_by_id
      WHERE channel = ?1
        AND message_id = ?2
        AND created_at >= ?3
        AND version > (SELECT coalesce(cleared_version, 0) FROM channel WHERE id = ?1)
      """
    ) {
      $0.bind(1, channel.rawValue)
      $0.bind(2, id)
      $0.bind(3, floor)
    }
  }
}

extension Row {
  func int64(_ column: MessageColumn) -> Int64 { int64(column.rawValue) }
  func int64OrNil(_ column: MessageColumn) -> Int64? { int64OrNil(column.rawValue) }
  func isNull(_ column: MessageColumn) -> Bool { isNull(column.rawValue) }

  /// The message's position.
  var messagePosition: Position {
    Position(createdAt: int64(.createdAt), messageID: int64(.messageID))
  }
}
