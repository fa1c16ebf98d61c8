import JSON
import SQLite

/// Reactions and sorted metaarrays of messages.
enum Reactions {
  static func add(_ call: inout Call, _ json: inout JSONWriter) throws { try change(true, &call, &json) }
  static func remove(_ call: inout Call, _ json: inout JSONWriter) throws { try change(false, &call, &json) }

  private static func change(_ isAdded: Bool, _ call: inout Call, _ json: inout JSONWriter) throws {
    let (channel, id) = try Messages.named(call)
    let user = try Users.actor(call.arguments.neededText("user_id"), call.db.reading)
    guard try MemberRow.find(channel.id, user.id, call.db.reading) != nil else { throw Refusal.notMember }
    let key = try call.arguments.neededText("reaction")
    let stored = try call.db.reading.first("SELECT reactions FROM message WHERE id = ?1", { $0.bind(1, id) })
    {
      $0.string(0)
    }
    let now = call.milliseconds
    var all = Value(stored: stored ?? "[]").items.map { (key: $0["key"]?.string ?? "", value: $0) }
    let place = all.firstIndex { $0.key == key }
    var users = place.map { all[$0].value["user_ids"]?.strings ?? [] } ?? []
    guard users.contains(user.id) != isAdded else {
      throw isAdded ? Refusal.exists("reaction") : Refusal.unknown("reaction")
    }
    users = isAdded ? users + [user.id] : users.filter { $0 != user.id }
    let entry = Value.object([
      "key": .string(key), "user_ids": .array(users.map(Value.string)), "updated_at": .integer(now),
    ])
    if let place { all[place].value = entry } else { all.append((key, entry)) }
    let left = Value.array(all.map(\.value).filter { !($0["user_ids"]?.items.isEmpty ?? true) }).text
    try call.db.run("UPDATE message SET reactions = ?2 WHERE id = ?1") {
      $0.bind(1, id)
      $0.bind(2, left)
    }
    try Messages.note(id, isDeleted: false, channel.id, call)
    call.tellMessage(isAdded ? "reaction_add" : "reaction_delete", channel.url, id)
    json.beginObject()
    json.field("user_id", user.id)
    json.field("operation", isAdded ? "ADD" : "DELETE")
    json.field("success", true)
    json.field("reaction", key)
    json.field("msg_id", id)
    json.field("updated_at", now)
    json.endObject()
  }

  static func list(_ call: inout Call, _ json: inout JSONWriter) throws {
    let (_, id) = try Messages.named(call)
    let stored = try call.db.reading.first("SELECT reactions FROM message WHERE id = ?1", { $0.bind(1, id) })
    {
      $0.string(0)
    }
    json.beginObject()
    json.field("reactions", stored: stored ?? "[]")
    json.endObject()
  }

  /// POST adds keys, PUT replaces values, DELETE takes keys away.
  static func putMetaarray(_ call: inout Call, _ json: inout JSONWriter) throws {
    let given = try Metaarray.read(call.arguments.value("sorted_metaarray"))
    try changeMetaarray(&call, &json) { all in
      for item in given.items {
        all.removeAll { $0["key"] == item["key"] }
        all.append(item)
      }
    }
  }

  static func deleteMetaarray(_ call: inout Call, _ json: inout JSONWriter) throws {
    let keys = try call.arguments.texts("keys") ?? []
    try changeMetaarray(&call, &json) { all in all.removeAll { keys.contains($0["key"]?.string ?? "") } }
  }

  private static func changeMetaarray(
    _ call: inout Call, _ json: inout JSONWriter, _ body: (inout [Value]) -> Void
  ) throws {
    let (channel, id) = try Messages.named(call)
    let stored = try call.db.reading.first("SELECT metaarray FROM message WHERE id = ?1", { $0.bind(1, id) })
    {
      $0.string(0)
    }
    var all = Value(stored: stored ?? "[]").items
    body(&all)
    let now = call.milliseconds
    try call.db.run("UPDATE message SET metaarray = ?2, updated_at = ?3 WHERE id = ?1") {
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
