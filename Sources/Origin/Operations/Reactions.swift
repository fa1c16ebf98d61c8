import JSON
import SQLite

/// Reactions to messages.
enum Reactions {
  static func add(_ call: inout Call, _ json: inout JSONWriter) throws { try change(true, &call, &json) }
  static func remove(_ call: inout Call, _ json: inout JSONWriter) throws { try change(false, &call, &json) }

  private static func change(_ isAdded: Bool, _ call: inout Call, _ json: inout JSONWriter) throws {
    let (channel, id) = try Messages.named(call)
    let (_, member) = try MemberRow.acting(call)
    guard member.state == "joined" else { throw Refusal.notMember }
    let key = try call.arguments.neededText("reaction")
    let now = call.milliseconds
    var all = Value(stored: try stored(id, call.reading)).items
    let index = all.firstIndex { key.hasSameBytes(as: $0["key"]?.string) }
    var users = index.map { all[$0]["user_ids"]?.strings ?? [] } ?? []
    guard users.contains(bytesOf: member.userID) != isAdded else {
      throw isAdded ? Refusal.exists("reaction") : Refusal.unknown("reaction")
    }
    users = isAdded ? users + [member.userID] : users.filter { !$0.hasSameBytes(as: member.userID) }
    let entry = Value.object([
      "key": .string(key), "user_ids": .array(users.map(Value.string)), "updated_at": .integer(now),
    ])
    if let index { all[index] = entry } else { all.append(entry) }
    let left = Value.array(all.filter { !($0["user_ids"]?.items.isEmpty ?? true) }).text
    try call.db.run("UPDATE message SET reactions = ?2 WHERE id = ?1") {
      $0.bind(1, id)
      $0.bind(2, left)
    }
    try Messages.note(id, isDeleted: false, channel.id, call)
    call.tellMessage(
      isAdded ? "reaction_add" : "reaction_delete", channel.url, id,
      ["reaction": .string(key), "user": .object(["user_id": .string(member.userID)])])
    json.beginObject()
    json.field("user_id", member.userID)
    json.field("operation", isAdded ? "ADD" : "DELETE")
    json.field("success", true)
    json.field("reaction", key)
    json.field("msg_id", id)
    json.field("updated_at", now)
    json.endObject()
  }

  private static func stored(_ id: Int64, _ db: ReadAccess) throws -> String {
    try db.first("SELECT reactions FROM message WHERE id = ?1", { $0.bind(1, id) }) { $0.string(0) } ?? "[]"
  }

  static func list(_ question: Question, _ json: inout JSONWriter) throws {
    let (_, id) = try Messages.named(question)
    json.beginObject()
    json.field("reactions", stored: try stored(id, question.reading))
    json.endObject()
  }
}
