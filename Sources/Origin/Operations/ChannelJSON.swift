import JSON
import SQLite

/// A channel as stored, and as one member sees it.
struct ChannelRow {
  let id: Int64
  let url: String
  let name: String
  let coverURL: String
  let data: String
  let customType: String
  let createdAt: Int64
  let isDistinct: Bool
  let isPublic: Bool
  let isSuper: Bool
  let isFrozen: Bool
  let metadata: String

  init(_ row: Row) {
    id = row.int64(0)
    url = row.string(1)
    name = row.string(2)
    coverURL = row.string(3)
    data = row.string(4)
    customType = row.string(5)
    createdAt = row.int64(6)
    isDistinct = row.bool(7)
    isPublic = row.bool(8)
    isSuper = row.bool(9)
    isFrozen = row.bool(10)
    metadata = row.string(11)
  }

  static let columns = """
    c.id, c.url, c.name, c.cover_url, c.data, c.custom_type, c.created_at, c.distinct_key IS NOT NULL,
    c.is_public, c.is_super, c.is_frozen, c.metadata
    """

  static func find(_ url: String, _ db: ReadAccess) throws -> ChannelRow? {
    var rows = try db.rows(composed: "SELECT \(columns) FROM channel c WHERE c.url = ?1") { $0.bind(1, url) }
    return try rows.next().map(ChannelRow.init)
  }

  /// The channel of the path; unknown ones are refused.
  static func named(_ url: String, _ db: ReadAccess) throws -> ChannelRow {
    guard let channel = try find(url, db) else { throw Refusal.unknown("Channel") }
    return channel
  }
}

/// A membership as stored.
struct MemberRow {
  let userID: String
  let state: String
  let isOperator: Bool
  let isMuted: Bool
  let hiddenState: String
  let readAt: Int64
  let floor: Int64
  let joinedAt: Int64

  init(_ row: Row) {
    userID = row.string(0)
    state = row.string(1)
    isOperator = row.bool(2)
    isMuted = row.bool(3)
    hiddenState = row.string(4)
    readAt = row.int64(5)
    floor = row.int64(6)
    joinedAt = row.int64(7)
  }

  static func all(_ channel: Int64, _ db: ReadAccess) throws -> [MemberRow] {
    try db.all(
      """
      SELECT user_id, state, is_operator, is_muted, hidden_state, read_at, floor, joined_at
      FROM member
      WHERE channel = ?1
      ORDER BY user_id
      """, { $0.bind(1, channel) }, MemberRow.init)
  }

  static func find(_ channel: Int64, _ user: String, _ db: ReadAccess) throws -> MemberRow? {
    try db.first(
      """
      SELECT user_id, state, is_operator, is_muted, hidden_state, read_at, floor, joined_at
      FROM member
      WHERE channel = ?1
        AND user_id = ?2
      """,
      {
        $0.bind(1, channel)
        $0.bind(2, user)
      }, MemberRow.init)
  }

  /// Messages of others after what was read and above the floor.
  func unread(_ channel: Int64, _ db: ReadAccess) throws -> Int64 {
    try db.first(
      """
      SELECT count(*)
      FROM message
      WHERE channel = ?1
        AND created_at > ?2
        AND user_id IS NOT ?3
        AND is_silent = 0
        AND (parent IS NULL OR is_reply_to_channel = 1)
      """,
      {
        $0.bind(1, channel)
        $0.bind(2, max(readAt, floor))
        $0.bind(3, userID)
      }
    ) { $0.int64(0) } ?? 0
  }

  func write(_ db: ReadAccess, to json: inout JSONWriter) throws {
    try UserRow.find(userID, db)?.write(to: &json) { json in
      json.field("state", state)
      json.field("role", isOperator ? "operator" : "")
      json.field("is_muted", isMuted)
    }
  }
}

enum ChannelJSON {
  /// The channel, in `viewer`'s view where one is given.
  static func write(
    _ channel: ChannelRow, viewer: String?, showMembers: Bool, _ db: ReadAccess, to json: inout JSONWriter
  ) throws {
    let members = try MemberRow.all(channel.id, db)
    json.beginObject()
    json.field("channel_url", channel.url)
    json.field("name", channel.name)
    json.field("cover_url", channel.coverURL)
    json.field("data", channel.data)
    json.field("custom_type", channel.customType)
    json.field("created_at", channel.createdAt)
    json.field("is_distinct", channel.isDistinct)
    json.field("is_public", channel.isPublic)
    json.field("is_super", channel.isSuper)
    json.field("is_ephemeral", false)
    json.field("is_broadcast", false)
    json.field("is_discoverable", channel.isPublic)
    json.field("freeze", channel.isFrozen)
    json.field("max_length_message", 5000)
    json.field("member_count", members.count)
    json.field("joined_member_count", members.count { $0.state == "joined" })
    json.field("metadata", stored: channel.metadata)
    json.name("read_receipt")
    json.beginObject()
    for member in members where member.state == "joined" {
      json.name(member.userID)
      json.value(member.readAt)
    }
    json.endObject()
    let own = members.first { $0.userID == viewer }
    try writeLastMessage(channel.id, above: own?.floor ?? 0, db, to: &json)
    if let own { try write(own, channel.id, db, to: &json) }
    if showMembers {
      json.name("members")
      json.beginArray()
      for member in members.prefix(100) { try member.write(db, to: &json) }
      json.endArray()
    }
    json.endObject()
  }

  private static func write(_ own: MemberRow, _ channel: Int64, _ db: ReadAccess, to json: inout JSONWriter)
    throws
  {
    json.field("unread_message_count", try own.unread(channel, db))
    json.field("unread_mention_count", 0)
    json.field("member_state", own.state)
    json.field("my_role", own.isOperator ? "operator" : "none")
    json.field("hidden_state", own.hiddenState)
    json.field("is_hidden", own.hiddenState != "unhidden")
    json.field("is_muted", own.isMuted)
    json.field("user_last_read", own.readAt)
    json.field("joined_ts", own.joinedAt)
    json.field("ts_message_offset", own.floor)
  }

  private static func writeLastMessage(
    _ channel: Int64, above floor: Int64, _ db: ReadAccess, to json: inout JSONWriter
  ) throws {
    let newest = try db.first(
      """
      SELECT id
      FROM message
      WHERE channel = ?1
        AND created_at > ?2
        AND (parent IS NULL OR is_reply_to_channel = 1)
      ORDER BY created_at DESC, id DESC
      LIMIT 1
      """,
      {
        $0.bind(1, channel)
        $0.bind(2, floor)
      }
    ) { $0.int64(0) }
    guard let newest else { return }
    json.name("last_message")
    _ = try MessageJSON.write(id: newest, MessageJSON.Parts(), db, to: &json)
  }

  /// The form that create, update, accept, join and freeze answer: the channel, its operators and a short
  /// `channel` inside.
  static func writeDetail(_ url: String, viewer: String?, _ db: ReadAccess, to json: inout JSONWriter) throws
  {
    let channel = try ChannelRow.named(url, db)
    let members = try MemberRow.all(channel.id, db)
    var whole = JSONWriter()
    try write(channel, viewer: viewer, showMembers: true, db, to: &whole)
    var fields = Value(stored: String(decoding: whole.buffer.bytes, as: UTF8.self)).fields
    fields["operators"] = .array(
      try members.filter(\.isOperator).map { member in
        var one = JSONWriter()
        try member.write(db, to: &one)
        return Value(stored: String(decoding: one.buffer.bytes, as: UTF8.self))
      })
    let short = [
      "channel_url", "name", "cover_url", "data", "custom_type", "created_at", "max_length_message",
      "member_count",
    ]
    fields["channel"] = .object(fields.filter { short.contains($0.key) })
    Value.object(fields).write(to: &json)
  }
}
