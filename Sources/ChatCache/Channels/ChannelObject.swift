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

  /// The parts that the channels of that list have.
  init(of query: ChannelQuery) {
    self = []
    if query.includesMembers { insert(.members) }
    if query.includesMetadata { insert(.metadata) }
  }
}

extension CacheReader {
  /// The columns of `channel` c that name it, and make the fields of its object which all its members see.
  private static let commonColumns = """
    c.id, c.version, c.body, c.last_message_at, c.last_message, c.read_receipts, c.metadata, c.reader_count,
      c.updated_at
    """

  /// The columns of `membership` m that make the fields which the user alone sees; the unread counts follow.
  static let ownColumns = """
    m.state, m.role, m.is_muted, m.last_read_at, m.hidden_state, m.inviter, m.invited_at, m.floor_at
    """

  /// The columns of `membership` m and `channel` c that make a channel's object.
  private static let objectColumns = """
    \(commonColumns), \(ownColumns),
      iif(
        c.is_crowded,
        (SELECT n.unread FROM crowded_count AS n WHERE n.user = m.user AND n.channel = m.channel),
        m.unread
      ),
      iif(
        c.is_crowded,
        (SELECT n.mentions FROM crowded_count AS n WHERE n.user = m.user AND n.channel = m.channel),
        m.mentions
      )
    """

  /// The same, and the columns that place the channel in a list.
  static let channelColumns = ChannelListSQL.Columns("\(objectColumns), \(listColumns.text)")

  /// The columns that place a channel in a list.
  static let listColumns = ChannelListSQL.Columns(
    "m.channel_url, \(ChannelListSQL.sortAt), m.created_at, m.name_key")

  private static let channelSQL = SharedSQL(
    """
    SELECT \(objectColumns)
    FROM membership AS m
    JOIN channel AS c ON c.id = m.channel
    WHERE m.user = ?1 AND m.channel = ?2
    """)

  private static let commonSQL = SharedSQL("SELECT \(commonColumns) FROM channel AS c WHERE c.id = ?1")

  /// The channel as that user sees it; nil if the user is not in it (B1).
  package func channel(_ view: ChannelView, parts: ChannelParts = []) throws -> ByteBuffer? {
    var rows = try db.rows(CacheReader.channelSQL) {
      $0.bind(1, view.user.rawValue)
      $0.bind(2, view.channel.rawValue)
    }
    guard let row = try rows.next() else { return nil }
    var writer = JSONWriter(capacity: 2048)
    try write(row, parts, lastMessageRule(for: view.user, heldAt: view.heldAt), into: &writer)
    return writer.finish()
  }

  /// Writes one channel's object from a row of `channelColumns`. Returns where the fields end that all
  /// members see.
  @discardableResult
  func write(
    _ row: Row, _ parts: ChannelParts, _ rule: LastMessageRule, into writer: inout JSONWriter
  ) throws -> Int {
    let own = OwnFields(row, from: 9)
    writer.beginObject()
    let last = try lastMessage(
      of: ChannelKey(row.int64(0)), at: row.int64(3), version: row.int64(1), to: own, rule)
    try writeCommon(row, parts, showsLastMessage: last.isCommon, into: &writer)
    let commonEnd = writer.buffer.count
    last.writeEarlier(into: &writer)
    own.write(row.int64(17), row.int64(18), into: &writer)
    writer.field("updated_at", row.int64(8))
    writer.endObject()
    return commonEnd
  }

  /// Writes the fields that all members see, without `updated_at`, and returns their hash. Polls of one
  /// snapshot share the text.
  func writeCommon(
    of channel: ChannelKey, _ parts: ChannelParts, showsLastMessage: Bool, into writer: inout JSONWriter
  ) throws -> Int {
    if let known = notes?.channel(channel)?.text(parts, hasLastMessage: showsLastMessage) {
      known.bytes.withUnsafeBytes { writer.splice(fields: $0) }
      return known.hash
    }
    var rows = try db.rows(CacheReader.commonSQL) { $0.bind(1, channel.rawValue) }
    guard let row = try rows.next() else { throw CacheError.unreadable("a membership has no channel") }
    var common = JSONWriter(capacity: 1024)
    try writeCommon(row, parts, showsLastMessage: showsLastMessage, into: &common)
    let hash = ListedChannel.hash(common.buffer.bytes)
    notes?.channel(channel)?.keep(
      .init(parts: parts, hasLastMessage: showsLastMessage, bytes: common.buffer.array, hash: hash))
    writer.splice(fields: common.buffer.bytes)
    return hash
  }

  /// Writes the fields that all members see, without `updated_at`, from a row of `commonColumns`.
  private func writeCommon(
    _ row: Row, _ parts: ChannelParts, showsLastMessage: Bool, into writer: inout JSONWriter
  ) throws {
    writer.splice(fields: row.bytes(2))
    if parts.contains(.members) {
      writer.name("members")
      writer.beginArray()
      try writeMembers(of: ChannelKey(row.int64(0)), into: &writer)
      writer.endArray()
    }
    if parts.contains(.metadata), !row.isNull(6) {
      writer.name("metadata")
      writer.splice(row.bytes(6))
    }
    if showsLastMessage, !row.isNull(4) {
      writer.name("last_message")
      writer.splice(row.bytes(4))
    }
    writer.name("read_receipts")
    writer.splice(row.bytes(5))
    if !row.isNull(7) { writer.field("reader_count", row.int64(7)) }
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

/// The fields of a channel that the user alone sees, in a row of `ownColumns`.
struct OwnFields: ~Copyable {
  private let row: Row
  private let first: Int32

  init(_ row: Row, from first: Int32) {
    self.row = row
    self.first = first
  }

  /// The user may not see messages before this moment (B23).
  var floor: Int64 { row.int64(first + 7) }
  var lastReadAt: Int64 { row.int64(first + 3) }

  /// Whether the user may read a message of that time: it is not below the floor (B23). An invited user may
  /// read none.
  func mayReadMessage(at time: Int64) -> Bool {
    row.bytes(first).first == UInt8(ascii: "j") && time >= floor
  }

  func write(_ unread: Int64, _ mentions: Int64, into writer: inout JSONWriter) {
    writer.field("unread_message_count", unread)
    writer.field("unread_mention_count", mentions)
    writer.name("my_member_state")
    writer.value(utf8: row.bytes(first))
    writer.name("my_role")
    writer.value(utf8: row.bytes(first + 1))
    writer.field("my_muted", row.bool(first + 2))
    writer.field("my_last_read_at", lastReadAt)
    writer.name("hidden_state")
    writer.value(utf8: row.bytes(first + 4))
    if !row.isNull(first + 5) {
      writer.name("inviter")
      writer.splice(row.bytes(first + 5))
    }
    if row.int64(first + 6) > 0 { writer.field("invited_at", row.int64(first + 6)) }
    writer.field("history_floor_at", floor)
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
