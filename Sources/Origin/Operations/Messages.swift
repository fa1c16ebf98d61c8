import JSON
import SQLite

/// Operations on messages.
enum Messages {
  static func list(_ call: inout Call, _ json: inout JSONWriter) throws {
    let channel = try ChannelRow.named(call.arguments.path("channel_url"), call.db.reading)
    let window = try MessageWindow(channel, call.arguments, call.db.reading, call.capabilities)
    let parts = try MessageJSON.Parts(call.arguments)
    json.beginObject()
    json.name("messages")
    try window.write(parts, call.db.reading, to: &json)
    json.endObject()
  }

  static func send(_ call: inout Call, _ json: inout JSONWriter) throws {
    let channel = try ChannelRow.named(call.arguments.path("channel_url"), call.db.reading)
    let new = try NewMessage(call)
    if let user = new.user { try allow(user, in: channel, call.db.reading) }
    if let parent = new.parent {
      let above = try call.db.reading.first(
        "SELECT parent IS NULL FROM message WHERE id = ?1 AND channel = ?2",
        {
          $0.bind(1, parent)
          $0.bind(2, channel.id)
        }
      ) { $0.bool(0) }
      guard let above else { throw Refusal.unknown("parent_message_id") }
      guard above else { throw Refusal.invalid("parent_message_id") }
    }
    if let first = try repeated(new, channel, call) {
      guard try MessageJSON.write(id: first, MessageJSON.Parts(), call.db.reading, to: &json) else {
        throw Refusal.unknown("Message")
      }
      return
    }
    let id = try new.insert(into: channel.id, call.db, stamp: call.stamp)
    try NewMessage.announce(in: channel.id, at: new.createdAt, call.db, stamp: call.stamp)
    if let parent = new.parent { try note(parent, isDeleted: false, channel.id, call) }
    if let key = try call.arguments.text("dedup_id"), let user = new.user,
      call.capabilities.duplicates != .off
    {
      try call.db.run("INSERT INTO sent (channel, user_id, dedup_id, id) VALUES (?1, ?2, ?3, ?4)") {
        $0.bind(1, channel.id)
        $0.bind(2, user)
        $0.bind(3, key)
        $0.bind(4, id)
      }
    }
    call.tellMessage("message_send", channel.url, id, new)
    _ = try MessageJSON.write(id: id, MessageJSON.Parts(), call.db.reading, to: &json)
  }

  /// The message that the same `dedup_id` made before.
  private static func repeated(_ new: NewMessage, _ channel: ChannelRow, _ call: Call) throws -> Int64? {
    guard call.capabilities.duplicates != .off, let user = new.user,
      let key = try call.arguments.text("dedup_id")
    else { return nil }
    let id = try call.db.reading.first(
      """
      SELECT id
      FROM sent
      WHERE channel = ?1
        AND user_id = ?2
        AND dedup_id = ?3
      """,
      {
        $0.bind(1, channel.id)
        $0.bind(2, user)
        $0.bind(3, key)
      }
    ) { $0.int64(0) }
    if id != nil, call.capabilities.duplicates == .error { throw Refusal.exists("dedup_id") }
    return id
  }

  private static func allow(_ user: String, in channel: ChannelRow, _ db: ReadAccess) throws {
    _ = try Users.actor(user, db)
    guard let member = try MemberRow.find(channel.id, user, db), member.state == "joined" else {
      throw Refusal.notMember
    }
    if member.isMuted { throw Refusal(900041, "The user is muted.") }
    if channel.isFrozen, !member.isOperator { throw Refusal(900050, "The channel is frozen.") }
  }

  /// The channel of the path and the id of a message in it.
  static func named(_ call: Call) throws -> (channel: ChannelRow, id: Int64) {
    let channel = try ChannelRow.named(call.arguments.path("channel_url"), call.db.reading)
    guard let id = Int64(call.arguments.path("message_id")) else {
      throw Refusal(400101, "\"message_id\" must be a number.")
    }
    let found = try call.db.reading.first(
      "SELECT 1 FROM message WHERE id = ?1 AND channel = ?2",
      {
        $0.bind(1, id)
        $0.bind(2, channel.id)
      }
    ) { _ in true }
    guard found != nil else { throw Refusal.unknown("Message") }
    return (channel, id)
  }

  static func view(_ call: inout Call, _ json: inout JSONWriter) throws {
    let (_, id) = try named(call)
    _ = try MessageJSON.write(id: id, MessageJSON.Parts(), call.db.reading, to: &json)
  }

  static func update(_ call: inout Call, _ json: inout JSONWriter) throws {
    let (channel, id) = try named(call)
    _ = try call.arguments.neededText("message_type")
    let text = try call.arguments.text("message")
    let data = try call.arguments.text("data")
    let customType = try call.arguments.text("custom_type")
    let milliseconds = call.milliseconds
    try call.db.run(
      """
      UPDATE message
      SET
        message = coalesce(?2, message),
        data = coalesce(?3, data),
        custom_type = coalesce(?4, custom_type),
        updated_at = ?5
      WHERE id = ?1
      """
    ) {
      $0.bind(1, id)
      $0.bind(2, text)
      $0.bind(3, data)
      $0.bind(4, customType)
      $0.bind(5, milliseconds)
    }
    try note(id, isDeleted: false, channel.id, call)
    call.tellMessage("message_update", channel.url, id)
    _ = try MessageJSON.write(id: id, MessageJSON.Parts(), call.db.reading, to: &json)
  }

  static func delete(_ call: inout Call, _ json: inout JSONWriter) throws {
    let (channel, id) = try named(call)
    try call.db.run("DELETE FROM message WHERE id = ?1") { $0.bind(1, id) }
    try note(id, isDeleted: true, channel.id, call)
    try Channels.touch(channel.id, call)
    call.tellMessage("message_delete", channel.url, id)
    json.beginObject()
    json.endObject()
  }

  /// Puts a message into its channel's changelog.
  static func note(_ id: Int64, isDeleted: Bool, _ channel: Int64, _ call: Call) throws {
    try call.db.run(
      "INSERT OR REPLACE INTO message_change (channel, id, stamp, is_deleted) VALUES (?1, ?2, ?3, ?4)"
    ) {
      $0.bind(1, channel)
      $0.bind(2, id)
      $0.bind(3, call.stamp)
      $0.bind(4, isDeleted)
    }
  }

  static func count(_ call: inout Call, _ json: inout JSONWriter) throws {
    let channel = try ChannelRow.named(call.arguments.path("channel_url"), call.db.reading)
    let total = try call.db.reading.first(
      "SELECT count(*) FROM message WHERE channel = ?1", { $0.bind(1, channel.id) }
    ) { $0.int64(0) }
    json.beginObject()
    json.field("total", total ?? 0)
    json.endObject()
  }

  static func changelog(_ call: inout Call, _ json: inout JSONWriter) throws {
    guard call.capabilities.areChangelogsOn else { throw Refusal(400108, "Not allowed.", status: 403) }
    let db = call.db.reading
    let channel = try ChannelRow.named(call.arguments.path("channel_url"), db)
    let since = try ChangelogPlace(call.arguments).stamp
    let parts = try MessageJSON.Parts(call.arguments)
    let changes = try db.all(
      """
      SELECT id, stamp, is_deleted
      FROM message_change
      WHERE channel = ?1
        AND stamp > ?2
      ORDER BY stamp
      LIMIT 101
      """,
      {
        $0.bind(1, channel.id)
        $0.bind(2, since)
      }
    ) { (id: $0.int64(0), stamp: $0.int64(1), isDeleted: $0.bool(2)) }
    let page = changes.prefix(100)
    json.beginObject()
    json.name("updated")
    json.beginArray()
    for change in page where !change.isDeleted {
      _ = try MessageJSON.write(id: change.id, parts, db, to: &json)
    }
    json.endArray()
    json.name("deleted")
    json.beginArray()
    for change in page where change.isDeleted {
      json.beginObject()
      json.field("message_id", change.id)
      json.field("deleted_at", change.stamp / 1000)
      json.endObject()
    }
    json.endArray()
    json.field("has_more", changes.count > 100)
    json.field("next", "\(page.last?.stamp ?? since)")
    json.endObject()
  }
}

extension Call {
  /// Leaves a webhook about a message.
  mutating func tellMessage(_ what: String, _ url: String, _ id: Int64, _ new: NewMessage? = nil) {
    var payload: [String: Value] = ["message_id": .integer(id)]
    var more: [String: Value] = [:]
    if let new {
      payload["message"] = .string(new.text)
      payload["custom_type"] = .string(new.customType)
      payload["created_at"] = .integer(new.createdAt)
      payload["data"] = .string(new.data)
      more["type"] = .string(new.type)
      more["silent"] = .bool(new.isSilent)
      more["mention_type"] = .string(new.mentionType)
      if let user = new.user { more["sender"] = .object(["user_id": .string(user)]) }
    }
    more["payload"] = .object(payload)
    tell("group_channel:\(what)", url, more)
  }
}
