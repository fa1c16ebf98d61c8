import JSON
import SQLite

/// A user's metadata: all of it, or the one key in the path.
enum UserMetadata {
  private static func user(_ asked: some Asked) throws -> UserRow {
    try Users.named(asked.arguments.path("user_id"), asked.reading)
  }

  static func view(_ question: Question, _ json: inout JSONWriter) throws {
    let all = Value(stored: try user(question).metadata).fields
    let key = question.arguments.path("key")
    guard !key.isEmpty else { return Value.object(all).write(to: &json) }
    guard let value = all[key] else { throw Refusal.unknown(key) }
    Value.object([key: value]).write(to: &json)
  }

  /// Adds (POST) or changes (PUT) metadata; the answer has only the keys of the request.
  static func put(_ call: inout Call, _ json: inout JSONWriter) throws {
    let user = try user(call)
    let key = call.arguments.path("key")
    let given: [String: Value]
    if key.isEmpty {
      given = Users.strings(try call.arguments.neededObject("metadata"))
    } else {
      guard let value = call.arguments.value("value") else { throw Refusal.missing("value") }
      given = Users.strings([key: value])
    }
    try set(user.id, Value(stored: user.metadata).fields.merging(given) { $1 }, call.db)
    Value.object(given).write(to: &json)
  }

  static func delete(_ call: inout Call, _ json: inout JSONWriter) throws {
    let user = try user(call)
    let key = call.arguments.path("key")
    try set(
      user.id, key.isEmpty ? [:] : Value(stored: user.metadata).fields.filter { $0.key != key }, call.db)
    json.emptyObject()
  }

  private static func set(_ id: String, _ all: [String: Value], _ db: WriteAccess) throws {
    try db.run("UPDATE user SET metadata = ?2 WHERE user_id = ?1") {
      $0.bind(1, id)
      $0.bind(2, Value.object(all).text)
    }
  }
}
