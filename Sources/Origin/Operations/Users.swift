import JSON
import SQLite

/// A user as stored.
struct UserRow {
  let id: String
  let nickname: String
  let profileURL: String
  let metadata: String
  let isActive: Bool
  let createdAt: Int64

  static func find(_ id: String, _ db: ReadAccess) throws -> UserRow? {
    try db.first(
      """
      SELECT user_id, nickname, profile_url, metadata, is_active, created_at
      FROM user
      WHERE user_id = ?1
      """, { $0.bind(1, id) }, UserRow.init)
  }

  init(_ row: Row) {
    id = row.string(0)
    nickname = row.string(1)
    profileURL = row.string(2)
    metadata = row.string(3)
    isActive = row.bool(4)
    createdAt = row.int64(5)
  }

  /// The user; `more` adds the fields of a membership.
  func write(to json: inout JSONWriter, _ more: (inout JSONWriter) -> Void = { _ in }) {
    json.beginObject()
    json.field("user_id", id)
    json.field("nickname", nickname)
    json.field("profile_url", profileURL)
    json.field("metadata", stored: metadata)
    json.field("is_active", isActive)
    json.field("is_online", false)
    json.field("last_seen_at", 0)
    json.field("created_at", createdAt)
    more(&json)
    json.endObject()
  }
}

/// Operations on users and their metadata.
enum Users {
  /// The user of the path; unknown ones are refused.
  static func named(_ id: String, _ db: ReadAccess) throws -> UserRow {
    guard let user = try UserRow.find(id, db) else { throw Refusal.unknown("User") }
    return user
  }

  /// Who acts; unknown or deactivated users may not.
  static func actor(_ id: String, _ db: ReadAccess) throws -> UserRow {
    guard let user = try UserRow.find(id, db) else {
      throw Refusal(400301, "The user is unknown or deleted.")
    }
    guard user.isActive else { throw Refusal(400300, "The user is deactivated.") }
    return user
  }

  static func create(_ call: inout Call, _ json: inout JSONWriter) throws {
    let id = try call.arguments.neededText("user_id")
    guard id.utf8.count <= 80 else { throw Refusal.tooLong("user_id") }
    guard try UserRow.find(id, call.db.reading) == nil else { throw Refusal.exists("User") }
    let nickname = try call.arguments.text("nickname") ?? ""
    let profile = try call.arguments.text("profile_url") ?? ""
    let metadata = Value.object(strings(try call.arguments.object("metadata") ?? [:])).text
    let seconds = call.seconds
    try call.db.run(
      """
      INSERT INTO user (user_id, nickname, profile_url, metadata, created_at)
      VALUES (?1, ?2, ?3, ?4, ?5)
      """
    ) {
      $0.bind(1, id)
      $0.bind(2, nickname)
      $0.bind(3, profile)
      $0.bind(4, metadata)
      $0.bind(5, seconds)
    }
    try named(id, call.db.reading).write(to: &json)
  }

  static func view(_ call: inout Call, _ json: inout JSONWriter) throws {
    try named(call.arguments.path("user_id"), call.db.reading).write(to: &json)
  }

  static func update(_ call: inout Call, _ json: inout JSONWriter) throws {
    let user = try named(call.arguments.path("user_id"), call.db.reading)
    let nickname = try call.arguments.text("nickname") ?? user.nickname
    let profile = try call.arguments.text("profile_url") ?? user.profileURL
    let isActive = try call.arguments.flag("is_active", default: user.isActive)
    try call.db.run("UPDATE user SET nickname = ?2, profile_url = ?3, is_active = ?4 WHERE user_id = ?1") {
      $0.bind(1, user.id)
      $0.bind(2, nickname)
      $0.bind(3, profile)
      $0.bind(4, isActive)
    }
    try named(user.id, call.db.reading).write(to: &json)
  }

  static func delete(_ call: inout Call, _ json: inout JSONWriter) throws {
    let user = try named(call.arguments.path("user_id"), call.db.reading)
    try call.db.run("DELETE FROM member WHERE user_id = ?1") { $0.bind(1, user.id) }
    try call.db.run("DELETE FROM user WHERE user_id = ?1") { $0.bind(1, user.id) }
    json.beginObject()
    json.endObject()
  }

  static func list(_ call: inout Call, _ json: inout JSONWriter) throws {
    let limit = try call.arguments.number("limit", 1...100, default: 10)
    let after = try call.arguments.text("token") ?? ""
    let users = try call.db.reading.all(
      """
      SELECT user_id, nickname, profile_url, metadata, is_active, created_at
      FROM user
      WHERE user_id > ?1
      ORDER BY user_id
      LIMIT ?2
      """,
      {
        $0.bind(1, after)
        $0.bind(2, limit + 1)
      }, UserRow.init)
    json.beginObject()
    json.name("users")
    json.beginArray()
    for user in users.prefix(Int(limit)) { user.write(to: &json) }
    json.endArray()
    json.field("next", users.count > Int(limit) ? users[Int(limit) - 1].id : "")
    json.endObject()
  }

  /// Values are kept as strings; booleans in the spelling the published client's language gives them.
  static func strings(_ fields: [String: Value]) -> [String: Value] {
    fields.mapValues { value in
      switch value {
      case .string: value
      case .bool(let flag): .string(flag ? "True" : "False")
      default: .string(value.text)
      }
    }
  }

  /// Adds (POST) or changes (PUT) metadata; the answer has only the keys of the request.
  static func putMetadata(_ call: inout Call, _ json: inout JSONWriter) throws {
    let user = try named(call.arguments.path("user_id"), call.db.reading)
    let key = call.arguments.path("key")
    let given: [String: Value]
    if key.isEmpty {
      guard let fields = try call.arguments.object("metadata") else { throw Refusal.missing("metadata") }
      given = strings(fields)
    } else {
      guard let value = call.arguments.value("value") else { throw Refusal.missing("value") }
      given = strings([key: value])
    }
    try setMetadata(user.id, Value(stored: user.metadata).fields.merging(given) { $1 }, call.db)
    Value.object(given).write(to: &json)
  }

  static func viewMetadata(_ call: inout Call, _ json: inout JSONWriter) throws {
    let user = try named(call.arguments.path("user_id"), call.db.reading)
    let all = Value(stored: user.metadata).fields
    let key = call.arguments.path("key")
    guard !key.isEmpty else { return Value.object(all).write(to: &json) }
    guard let value = all[key] else { throw Refusal.unknown(key) }
    Value.object([key: value]).write(to: &json)
  }

  static func deleteMetadata(_ call: inout Call, _ json: inout JSONWriter) throws {
    let user = try named(call.arguments.path("user_id"), call.db.reading)
    let key = call.arguments.path("key")
    var all = Value(stored: user.metadata).fields
    if key.isEmpty { all = [:] } else { all[key] = nil }
    try setMetadata(user.id, all, call.db)
    json.beginObject()
    json.endObject()
  }

  private static func setMetadata(_ id: String, _ all: [String: Value], _ db: WriteAccess) throws {
    try db.run("UPDATE user SET metadata = ?2 WHERE user_id = ?1") {
      $0.bind(1, id)
      $0.bind(2, Value.object(all).text)
    }
  }
}
