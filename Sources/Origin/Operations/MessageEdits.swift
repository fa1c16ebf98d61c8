import JSON
import SQLite

/// Edits of messages.
enum MessageEdits {
  static func update(_ call: inout Call, _ json: inout JSONWriter) throws {
    let (channel, id) = try Messages.named(call)
    let arguments = call.arguments
    _ = try arguments.neededText("message_type")
    _ = try arguments.choice("message_type", ["MESG", "FILE", "ADMM"], default: "")
    if let user = try arguments.text("user_id") { try allow(user, id, call.reading) }
    let text = try arguments.text("message")
    guard (text?.count ?? 0) <= NewMessage.textLimit else { throw Refusal.tooLong("message") }
    let data = try arguments.text("data")
    let customType = try arguments.text("custom_type")
    let metaarray = try arguments.value("sorted_metaarray").map { try Metaarrays.read($0).text }
    let milliseconds = call.milliseconds
    try call.db.run(
      """
      UPDATE message
      SET
        message = coalesce(?2, message),
        data = coalesce(?3, data),
        custom_type = coalesce(?4, custom_type),
        metaarray = coalesce(?5, metaarray),
        updated_at = max(updated_at + 1, ?6)
      WHERE id = ?1
      """
    ) {
      $0.bind(1, id)
      $0.bind(2, text)
      $0.bind(3, data)
      $0.bind(4, customType)
      $0.bind(5, metaarray)
      $0.bind(6, milliseconds)
    }
    try mention(id, channel, call)
    try Messages.note(id, isDeleted: false, channel.id, call)
    call.tellMessage("message_update", channel.url, id)
    let parts = MessageJSON(channelURL: channel.url, base: call.base, call.capabilities)
    _ = try parts.write(id: id, call.reading, to: &json)
  }

  /// If the request names a user, only the message's sender may edit it.
  private static func allow(_ user: String, _ id: Int64, _ db: ReadAccess) throws {
    _ = try Users.actor(user, db)
    let isSender = try db.first(
      "SELECT user_id IS ?2 FROM message WHERE id = ?1",
      {
        $0.bind(1, id)
        $0.bind(2, user)
      }
    ) { $0.bool(0) }
    guard isSender == true else { throw Refusal(400108, "Only its sender may edit a message.") }
  }

  /// Changes the mentioned users, if the edit names some.
  private static func mention(_ id: Int64, _ channel: ChannelRow, _ call: Call) throws {
    let arguments = call.arguments
    guard arguments.value("mention_type") != nil || arguments.value("mentioned_user_ids") != nil else {
      return
    }
    let type = try arguments.choice("mention_type", ["users", "channel"], default: "users")
    let users = try arguments.texts("mentioned_user_ids") ?? []
    for user in users { _ = try Users.named(user, call.reading) }
    try call.db.run("UPDATE message SET mention_type = ?2, mentioned = ?3 WHERE id = ?1") {
      $0.bind(1, id)
      $0.bind(2, type)
      $0.bind(3, Value.array(users.map(Value.string)).text)
    }
    let found = try call.reading.first(
      "SELECT created_at, user_id FROM message WHERE id = ?1", { $0.bind(1, id) }
    ) { (createdAt: $0.int64(0), sender: $0.stringOrNil(1)) }
    try Mentions.clear(id, call.db)
    guard let found else { return }
    try Mentions.set(id, channel: channel.id, found.createdAt, sender: found.sender, type, users, call.db)
  }
}

/// `sorted_metaarray`: pairs of a key and a list of strings.
enum Metaarrays {
  static func read(_ value: Value?) throws -> Value {
    guard let value else { return .array([]) }
    guard case .array(let items) = value else {
      throw Refusal(400102, "\"sorted_metaarray\" must be a list.")
    }
    return .array(
      try items.map { item in
        guard let key = item["key"]?.string else { throw Refusal.missing("key") }
        if let values = item["value"], case .array = values {
          return .object(["key": .string(key), "value": .array(values.strings.map(Value.string))])
        }
        guard item["value"] == nil else { throw Refusal(400102, "\"value\" must be a list.") }
        return .object(["key": .string(key), "value": .array([])])
      })
  }

  /// Adds keys or replaces their values, for POST and PUT alike.
  static func put(_ call: inout Call, _ json: inout JSONWriter) throws {
    guard call.arguments.value("sorted_metaarray") != nil else { throw Refusal.missing("sorted_metaarray") }
    let given = try read(call.arguments.value("sorted_metaarray"))
    try change(&call, &json) { all in
      for item in given.items {
        all.removeAll { $0["key"] == item["key"] }
        all.append(item)
      }
    }
  }

  /// Removes keys.
  static func delete(_ call: inout Call, _ json: inout JSONWriter) throws {
    let keys = try call.arguments.neededTexts("keys")
    try change(&call, &json) { all in all.removeAll { keys.contains($0["key"]?.string ?? "") } }
  }

  private static func change(
    _ call: inout Call, _ json: inout JSONWriter, _ body: (inout [Value]) -> Void
  ) throws {
    let (channel, id) = try Messages.named(call)
    let stored = try call.reading.first("SELECT metaarray FROM message WHERE id = ?1", { $0.bind(1, id) }) {
      $0.string(0)
    }
    var all = Value(stored: stored ?? "[]").items
    body(&all)
    let now = call.milliseconds
    try call.db.run(
      "UPDATE message SET metaarray = ?2, updated_at = max(updated_at + 1, ?3) WHERE id = ?1"
    ) {
      $0.bind(1, id)
      $0.bind(2, Value.array(all).text)
      $0.bind(3, now)
    }
    try Messages.note(id, isDeleted: false, channel.id, call)
    call.tellMessage("message_update", channel.url, id)
    json.beginObject()
    json.name("sorted_metaarray")
    Value.array(all).write(to: &json)
    json.endObject()
  }
}
