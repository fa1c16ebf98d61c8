import JSON
import SQLite

/// A message as the wire shows it, written from its row.
struct MessageJSON {
  static let columns = """
    m.id, m.created_at, m.updated_at, m.type, m.user_id, m.message, m.data, m.custom_type, m.mention_type,
    m.mentioned, m.metaarray, m.file, m.reactions, m.parent, m.is_reply_to_channel, m.is_silent, c.url,
    u.nickname, u.profile_url, u.metadata, member.is_operator
    """
  static let joins = """
    FROM message m
    JOIN channel c ON c.id = m.channel
    LEFT JOIN user u ON u.user_id = m.user_id
    LEFT JOIN member ON member.channel = m.channel AND member.user_id = m.user_id
    """

  /// Which optional parts are shown.
  struct Parts {
    var reactions = true
    var metaarray = true
    var thread = true
    var parentInfo = true

    init() {}

    init(_ arguments: Arguments) throws {
      reactions = try arguments.flag("include_reactions")
      metaarray = try arguments.flag("with_sorted_meta_array")
      thread = try arguments.flag("include_thread_info")
      parentInfo = try arguments.flag("include_parent_message_info")
    }
  }

  static func write(_ row: Row, _ parts: Parts, _ db: ReadAccess, to json: inout JSONWriter) throws {
    json.beginObject()
    json.field("message_id", row.int64(0))
    json.field("type", row.string(3))
    json.field("channel_url", row.string(16))
    json.field("channel_type", "group")
    json.field("custom_type", row.string(7))
    json.field("message", row.string(5))
    json.field("data", row.string(6))
    json.field("created_at", row.int64(1))
    json.field("updated_at", row.int64(2))
    json.field("is_removed", false)
    json.field("silent", row.bool(15))
    json.field("is_op_msg", row.bool(20))
    json.field("mention_type", row.string(8))
    json.name("mentioned_users")
    try writeUsers(Value(stored: row.string(9)).strings, db, to: &json)
    json.field("file", stored: row.string(11))
    if !row.isNull(4) { writeSender(row, to: &json) }
    if parts.reactions { json.field("reactions", stored: row.string(12)) }
    if parts.metaarray { json.field("sorted_metaarray", stored: row.string(10)) }
    if parts.thread { try writeThread(row.int64(0), db, to: &json) }
    if let parent = row.int64OrNil(13) {
      json.field("parent_message_id", parent)
      json.field("is_reply_to_channel", row.bool(14))
      if parts.parentInfo { try writeParent(parent, db, to: &json) }
    }
    json.endObject()
  }

  private static func writeSender(_ row: Row, to json: inout JSONWriter) {
    json.name("user")
    json.beginObject()
    json.field("user_id", row.string(4))
    json.field("nickname", row.string(17))
    json.field("profile_url", row.string(18))
    json.field("metadata", stored: row.stringOrNil(19) ?? "{}")
    json.endObject()
  }

  private static func writeUsers(_ ids: [String], _ db: ReadAccess, to json: inout JSONWriter) throws {
    json.beginArray()
    for id in ids { if let user = try UserRow.find(id, db) { user.write(to: &json) } }
    json.endArray()
  }

  private static func writeThread(_ id: Int64, _ db: ReadAccess, to json: inout JSONWriter) throws {
    let replies = try db.all(
      """
      SELECT created_at, max(created_at, updated_at), user_id
      FROM message
      WHERE parent = ?1
      ORDER BY created_at
      """, { $0.bind(1, id) }
    ) { (at: $0.int64(0), changed: $0.int64(1), user: $0.string(2)) }
    json.name("thread_info")
    json.beginObject()
    if !replies.isEmpty {
      var counts: [String: Int] = [:]
      for reply in replies { counts[reply.user, default: 0] += 1 }
      let most = counts.sorted { ($1.value, $0.key) < ($0.value, $1.key) }.prefix(5).map(\.key)
      json.field("reply_count", replies.count)
      json.name("most_replies")
      try writeUsers(most, db, to: &json)
      json.field("last_replied_at", replies.last?.at ?? 0)
      json.field("updated_at", replies.map(\.changed).max() ?? 0)
    }
    json.endObject()
  }

  private static func writeParent(_ id: Int64, _ db: ReadAccess, to json: inout JSONWriter) throws {
    let found = try db.first(
      """
      SELECT type, message, created_at, user_id, file
      FROM message
      WHERE id = ?1
      """, { $0.bind(1, id) }
    ) {
      (type: $0.string(0), text: $0.string(1), at: $0.int64(2), user: $0.stringOrNil(3), file: $0.string(4))
    }
    guard let found else { return }
    json.name("parent_message_info")
    json.beginObject()
    json.field("message_id", id)
    json.field("type", found.type)
    json.field("ts", found.at)
    json.field("message", found.text)
    json.field("file", stored: found.file)
    if let user = try found.user.flatMap({ try UserRow.find($0, db) }) {
      json.name("user")
      user.write(to: &json)
    }
    json.endObject()
  }

  /// Writes one message by its id; false when there is none.
  static func write(id: Int64, _ parts: Parts, _ db: ReadAccess, to json: inout JSONWriter) throws
    -> Bool
  {
    var rows = try db.rows(composed: "SELECT \(columns) \(joins) WHERE m.id = ?1") { $0.bind(1, id) }
    guard let row = try rows.next() else { return false }
    try write(row, parts, db, to: &json)
    return true
  }
}
