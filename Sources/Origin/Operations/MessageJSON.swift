import JSON
import SQLite

/// Writes a message as the stand-in's API answers it, from a row of `shown_message`.
struct MessageJSON {
  var areReactionsShown = true
  var isMetaarrayShown = true
  var isThreadShown = true
  var isParentShown = true
  let channelURL: String
  /// The base url of files that this server serves.
  let base: String
  private let isRequestIDShown: Bool

  /// Shows all parts.
  init(channelURL: String, base: String, _ capabilities: Capabilities) {
    self.channelURL = channelURL
    self.base = base
    isRequestIDShown = capabilities.areRequestIDsShown
  }

  /// Shows the parts that a list asks for.
  init(channelURL: String, _ asked: some Asked) throws {
    self.init(channelURL: channelURL, base: asked.base, asked.capabilities)
    areReactionsShown = try asked.arguments.flag("include_reactions")
    isMetaarrayShown = try asked.arguments.flag("with_sorted_meta_array")
    isThreadShown = try asked.arguments.flag("include_thread_info")
    isParentShown = try asked.arguments.flag("include_parent_message_info")
  }

  func write(_ row: Row, _ db: ReadAccess, to json: inout JSONWriter) throws {
    json.beginObject()
    json.field("message_id", row.int64(0))
    json.name("type")
    json.value(utf8: row.bytes(3))
    json.field("channel_url", channelURL)
    json.field("channel_type", "group")
    json.name("custom_type")
    json.value(utf8: row.bytes(7))
    json.name("message")
    json.value(utf8: row.bytes(5))
    json.name("data")
    json.value(utf8: row.bytes(6))
    json.field("created_at", row.int64(1))
    json.field("updated_at", row.int64(2))
    writeFixedFields(row, to: &json)
    json.name("mention_type")
    json.value(utf8: row.bytes(8))
    json.name("mentioned_users")
    try writeMentioned(row, db, to: &json)
    writeFile(row.bytes(11), url: row.string(12), to: &json)
    if !row.isNull(4) { writeSender(row, to: &json) }
    if areReactionsShown {
      json.name("reactions")
      json.splice(row.bytes(13))
    }
    if isMetaarrayShown {
      json.name("sorted_metaarray")
      json.splice(row.bytes(10))
    }
    if isThreadShown { try writeThread(row.int64(0), changedAt: row.int64(16), db, to: &json) }
    if let parent = row.int64OrNil(15) {
      json.field("parent_message_id", parent)
      json.field("is_reply_to_channel", row.bool(17))
      if isParentShown { try writeParent(parent, db, to: &json) }
    }
    json.endObject()
  }

  private func writeFixedFields(_ row: Row, to json: inout JSONWriter) {
    let isSilent = row.bool(18)
    json.field("is_removed", false)
    json.field("silent", isSilent)
    json.field("is_op_msg", row.bool(22))
    if isRequestIDShown {
      json.name("req_id")
      json.value(utf8: row.bytes(14))
    }
    json.field("message_survival_seconds", -1)
    json.field("message_retention_hour", -1)
    json.field("translations", stored: "{}")
    json.field("files", stored: "[]")
    if row.string(3) == "FILE" { json.field("thumbnails", stored: "[]") }
    json.name("message_events")
    json.beginObject()
    json.field("send_push_notification", isSilent ? "suppress" : "receivers")
    json.field("update_unread_count", !isSilent)
    json.field("update_mention_count", true)
    json.field("update_last_message", true)
    json.endObject()
  }

  private func writeMentioned(_ row: Row, _ db: ReadAccess, to json: inout JSONWriter) throws {
    json.beginArray()
    if row.bytes(9).count > 2 {
      for id in Value(stored: row.string(9)).strings {
        if let user = try UserRow.find(id, db) { user.write(to: &json) }
      }
    }
    json.endArray()
  }

  /// `fields` is a stored object without the url.
  private func writeFile(_ fields: UnsafeRawBufferPointer, url: String, to json: inout JSONWriter) {
    json.name("file")
    json.beginObject()
    if !url.isEmpty {
      json.field("url", url.hasPrefix("/") ? base + url : url)
      json.splice(fields: UnsafeRawBufferPointer(rebasing: fields.dropFirst().dropLast()))
    }
    json.endObject()
  }

  private func writeSender(_ row: Row, to json: inout JSONWriter) {
    json.name("user")
    json.beginObject()
    json.name("user_id")
    json.value(utf8: row.bytes(4))
    json.name("nickname")
    json.value(utf8: row.bytes(19))
    json.name("profile_url")
    json.value(utf8: row.bytes(20))
    json.field("metadata", stored: row.stringOrNil(21) ?? "{}")
    json.endObject()
  }

  /// `{}` for a message that never had a reply.
  private func writeThread(_ id: Int64, changedAt: Int64, _ db: ReadAccess, to json: inout JSONWriter) throws
  {
    json.name("thread_info")
    json.beginObject()
    if changedAt > 0 {
      let replies = try db.first(
        """
        SELECT count(*), coalesce(max(created_at), 0)
        FROM message
        WHERE parent = ?1
        """, { $0.bind(1, id) }
      ) { (count: $0.int64(0), last: $0.int64(1)) }
      let most = try db.all(
        """
        SELECT u.user_id, u.nickname, u.profile_url, u.metadata, u.is_active, u.created_at
        FROM message m
        JOIN user u ON u.user_id = m.user_id
        WHERE m.parent = ?1
        GROUP BY u.user_id
        ORDER BY count(*) DESC, u.user_id
        LIMIT 5
        """, { $0.bind(1, id) }, UserRow.init)
      json.field("reply_count", replies?.count ?? 0)
      json.name("most_replies")
      json.beginArray()
      for user in most { user.write(to: &json) }
      json.endArray()
      json.field("last_replied_at", replies?.last ?? 0)
      json.field("updated_at", changedAt)
    }
    json.endObject()
  }

  private func writeParent(_ id: Int64, _ db: ReadAccess, to json: inout JSONWriter) throws {
    let found = try db.first(
      """
      SELECT type, message, created_at, user_id, file, file_url
      FROM message
      WHERE id = ?1
      """, { $0.bind(1, id) }
    ) { row in
      json.name("parent_message_info")
      json.beginObject()
      json.field("message_id", id)
      json.field("type", row.string(0))
      json.field("ts", row.int64(2))
      json.field("message", row.string(1))
      writeFile(row.bytes(4), url: row.string(5), to: &json)
      return (user: row.stringOrNil(3), isFound: true)
    }
    guard let found else { return }
    if let user = try found.user.flatMap({ try UserRow.find($0, db) }) {
      json.name("user")
      user.write(to: &json)
    }
    json.endObject()
  }

  /// Writes one message by its id; false when there is none.
  func write(id: Int64, _ db: ReadAccess, to json: inout JSONWriter) throws -> Bool {
    try db.first("SELECT * FROM shown_message WHERE id = ?1", { $0.bind(1, id) }) {
      try write($0, db, to: &json)
    } != nil
  }
}
