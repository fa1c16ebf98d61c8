import ChatModel
import JSON
import Platform
import SQLite

// A channel as one user sees it, spliced from the stored parts: the shared fields, then the user's own.

/// Which optional parts of a channel are answered.
package struct ChannelParts: OptionSet, Hashable, Sendable {
  /// One bit each.
  package let rawValue: UInt8
  /// The parts of these bits.
  package init(rawValue: UInt8) { self.rawValue = rawValue }
  /// The members.
  package static let members = ChannelParts(rawValue: 1)
  /// The metadata.
  package static let metadata = ChannelParts(rawValue: 2)
}

extension CacheReader {
  /// The columns of `membership` m and `channel` c that make a channel's object, and place it in a list.
  static let channelColumns = ChannelListSQL.Columns(
    """
    c.id, c.version, m.version, c.body, c.last_message_at, c.last_message, c.read_receipts, c.metadata,
      iif(
        c.is_crowded,
        (SELECT n.unread FROM crowded_count AS n WHERE n.user = m.user AND n.channel = m.channel),
        m.unread
      ),
      iif(
        c.is_crowded,
        (SELECT n.mentions FROM crowded_count AS n WHERE n.user = m.user AND n.channel = m.channel),
        m.mentions
      ),
      \(ownColumns), \(listColumns.text)
    """)

  /// The same with the counts of the row alone, and how a crowded channel's messages are counted from there.
  static let lookupColumns = ChannelListSQL.Columns(
    """
    c.id, c.version, m.version, c.body, c.last_message_at, c.last_message, c.read_receipts, c.metadata,
      m.unread, m.mentions, \(ownColumns), c.is_crowded, m.counted_at, m.counted_id, \(listColumns.text)
    """)

  private static let ownColumns = """
    m.state, m.role, m.is_muted, m.last_read_at, m.hidden_state, m.inviter, m.invited_at, m.floor_at,
      c.updated_at, c.reader_count
    """

  /// The columns that place a channel in a list.
  static let listColumns = ChannelListSQL.Columns(
    "m.channel_url, \(ChannelListSQL.sortAt), m.created_at, m.name_key")

  /// The channel as that user sees it; nil if the user is not in it (B1).
  package func channel(_ view: ChannelView, parts: ChannelParts = []) throws -> ByteBuffer? {
    var rows = try db.rows(
      """
      SELECT
        c.id, c.version, m.version, c.body, c.last_message_at, c.last_message, c.read_receipts, c.metadata,
        iif(
          c.is_crowded,
          (SELECT n.unread FROM crowded_count AS n WHERE n.user = m.user AND n.channel = m.channel),
          m.unread
        ),
        iif(
          c.is_crowded,
          (SELECT n.mentions FROM crowded_count AS n WHERE n.user = m.user AND n.channel = m.channel),
          m.mentions
        ),
        m.state, m.role, m.is_muted, m.last_read_at, m.hidden_state, m.inviter, m.invited_at, m.floor_at,
        c.updated_at, c.reader_count
      FROM membership AS m
      JOIN channel AS c ON c.id = m.channel
      WHERE m.user = ?1 AND m.channel = ?2
      """
    ) {
      $0.bind(1, view.user.rawValue)
      $0.bind(2, view.channel.rawValue)
    }
    guard let row = try rows.next() else { return nil }
    var writer = JSONWriter(capacity: 2048)
    try write(row, parts, heldAt: view.heldAt, into: &writer)
    return writer.finish()
  }

  /// Writes one channel's object from a row of `channelColumns`. `heldAt`: if the channel changed since that
  /// sequence, its last message is not shown. `counts`: those in place of the row's.
  func write(
    _ row: Row, _ parts: ChannelParts, heldAt: Int64?, counts: FollowedCounts.Count? = nil,
    into writer: inout JSONWriter
  ) throws {
    writer.beginObject()
    writer.splice(fields: row.bytes(3))
    if parts.contains(.members) {
      writer.name("members")
      writer.beginArray()
      try writeMembers(of: ChannelKey(row.int64(0)), into: &writer)
      writer.endArray()
    }
    if parts.contains(.metadata), !row.isNull(7) {
      writer.name("metadata")
      writer.splice(row.bytes(7))
    }
    let floor = row.int64(17)
    // The user sees the last message only if it is not below the floor (B23); an invited user sees none.
    let isJoined = row.bytes(10).first == UInt8(ascii: "j")
    if isJoined, !row.isNull(5), row.int64(4) >= floor, row.int64(1) <= heldAt ?? .max {
      writer.name("last_message")
      writer.splice(row.bytes(5))
    }
    writer.name("read_receipts")
    writer.splice(row.bytes(6))
    if !row.isNull(19) { writer.field("reader_count", row.int64(19)) }
    writer.field("unread_message_count", counts?.unread ?? row.int64(8))
    writer.field("unread_mention_count", counts?.mentions ?? row.int64(9))
    writer.name("my_member_state")
    writer.value(utf8: row.bytes(10))
    writer.name("my_role")
    writer.value(utf8: row.bytes(11))
    writer.field("my_muted", row.bool(12))
    writer.field("my_last_read_at", row.int64(13))
    writer.name("hidden_state")
    writer.value(utf8: row.bytes(14))
    if !row.isNull(15) {
      writer.name("inviter")
      writer.splice(row.bytes(15))
    }
    if row.int64(16) > 0 { writer.field("invited_at", row.int64(16)) }
    writer.field("history_floor_at", floor)
    writer.field("updated_at", row.int64(18))
    writer.endObject()
  }

  private func writeMembers(of channel: ChannelKey, into writer: inout JSONWriter) throws {
    var rows = try db.rows(
      """
      SELECT body, state, read_at
      FROM member
      WHERE channel = ?1
      ORDER BY user_id
      """
    ) { $0.bind(1, channel.rawValue) }
    while let row = try rows.next() { CacheReader.writeMember(row, into: &writer) }
  }

  fileprivate static func writeMember(_ row: Row, into writer: inout JSONWriter) {
    writer.beginObject()
    writer.splice(fields: row.bytes(0))
    writer.field("last_read_at", row.int64(2))
    writer.endObject()
  }
}

/// A page of a channel's members.
package struct MemberPage: ~Copyable {
  /// The members as JSON objects with commas between them.
  package let items: ByteBuffer
  /// The number of members in `items`.
  package let count: Int
  /// The last one's id, if more follow.
  package let next: String?
  /// Whether the cache has all members of the channel (B8).
  package let isComplete: Bool
}

extension CacheReader {
  /// The members after the id `after`, ordered by id, each with its read position.
  package func members(of view: ChannelView, after: String, limit: Int) throws -> MemberPage {
    var rows = try db.rows(
      """
      SELECT body, state, read_at, user_id
      FROM member
      WHERE channel = ?1 AND user_id > ?2
      ORDER BY user_id
      LIMIT ?3
      """
    ) {
      $0.bind(1, view.channel.rawValue)
      $0.bind(2, after)
      $0.bind(3, limit + 1)
    }
    var writer = JSONWriter(capacity: 4096)
    var count = 0
    var last = ""
    var hasMore = false
    while let row = try rows.next() {
      if count == limit {
        hasMore = true
        break
      }
      CacheReader.writeMember(row, into: &writer)
      last = row.string(3)
      count += 1
    }
    return MemberPage(
      items: writer.finish(), count: count, next: hasMore ? last : nil,
      isComplete: try memberList(of: view.channel).isComplete)
  }
}
