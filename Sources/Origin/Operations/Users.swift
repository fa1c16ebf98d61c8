import CSodium
import JSON
import SQLite

/// Operations on users.
enum Users {
  /// The user with that id. Throws a refusal if there is none.
  static func named(_ id: String, _ db: ReadAccess) throws -> UserRow {
    guard let user = try UserRow.find(id, db) else { throw Refusal.unknown("User") }
    return user
  }

  /// The user who acts. Throws a refusal if the user is unknown or deactivated.
  static func actor(_ id: String, _ db: ReadAccess) throws -> UserRow {
    guard let user = try UserRow.find(id, db) else {
      throw Refusal(400301, "The user is unknown or deleted.")
    }
    guard user.isActive else { throw Refusal(400300, "The user is deactivated.") }
    return user
  }

  static func create(_ call: inout Call, _ json: inout JSONWriter) throws {
    let arguments = call.arguments
    let id = try arguments.newID("user_id", limit: 80)
    guard try UserRow.find(id, call.reading) == nil else { throw Refusal.exists("User") }
    let nickname = try arguments.text("nickname") ?? ""
    guard nickname.count <= 80 else { throw Refusal.tooLong("nickname") }
    let profile = try arguments.text("profile_url") ?? ""
    let metadata = Value.object(strings(try arguments.object("metadata") ?? [:])).text
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
      $0.bind(5, call.seconds)
    }
    try answer(id, call, &json)
  }

  /// Answers the user, with a new access token if the request asks for one.
  private static func answer(_ id: String, _ call: Call, _ json: inout JSONWriter) throws {
    let isTokenWanted = try call.arguments.flag("issue_access_token")
    let token = isTokenWanted ? accessToken() : ""
    if isTokenWanted {
      try call.db.run("UPDATE user SET access_token = ?2 WHERE user_id = ?1") {
        $0.bind(1, id)
        $0.bind(2, token)
      }
    }
    try named(id, call.reading).write(to: &json) { json in
      if isTokenWanted { json.field("access_token", token) }
    }
  }

  private static func accessToken() -> String {
    var bytes = [UInt8](repeating: 0, count: 20)
    randombytes_buf(&bytes, bytes.count)
    return String(decoding: Webhooks.hex(bytes), as: UTF8.self)
  }

  static func view(_ question: Question, _ json: inout JSONWriter) throws {
    try named(question.arguments.path("user_id"), question.reading).write(to: &json)
  }

  static func update(_ call: inout Call, _ json: inout JSONWriter) throws {
    let user = try named(call.arguments.path("user_id"), call.reading)
    let nickname = try call.arguments.text("nickname") ?? user.nickname
    let profile = try call.arguments.text("profile_url") ?? user.profileURL
    let isActive = try call.arguments.flag("is_active", default: user.isActive)
    let metadata = try call.arguments.object("metadata").map { Value.object(strings($0)).text }
    try call.db.run(
      """
      UPDATE user
      SET nickname = ?2, profile_url = ?3, is_active = ?4, metadata = ?5
      WHERE user_id = ?1
      """
    ) {
      $0.bind(1, user.id)
      $0.bind(2, nickname)
      $0.bind(3, profile)
      $0.bind(4, isActive)
      $0.bind(5, metadata ?? user.metadata)
    }
    try answer(user.id, call, &json)
  }

  /// Deletes the user and every membership. The user's messages stay, without a sender's name.
  static func delete(_ call: inout Call, _ json: inout JSONWriter) throws {
    let user = try named(call.arguments.path("user_id"), call.reading)
    let urls = try call.reading.all(
      "SELECT c.url FROM member m JOIN channel c ON c.id = m.channel WHERE m.user_id = ?1",
      { $0.bind(1, user.id) }
    ) { $0.string(0) }
    for url in urls {
      guard let channel = try ChannelRow.find(url, call.reading) else { continue }
      try Members.remove(user.id, from: channel, call)
      try Channels.touch(channel.id, call)
      call.tell("group_channel:leave", url, ["users": .array([Members.user(user.id)])])
    }
    try call.db.run("DELETE FROM user WHERE user_id = ?1") { $0.bind(1, user.id) }
    json.emptyObject()
  }

  static func list(_ question: Question, _ json: inout JSONWriter) throws {
    let limit = Int(try question.arguments.number("limit", 1...100, default: 10))
    let after = try question.arguments.text("token") ?? ""
    let users = try question.reading.all(
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
    for user in users.prefix(limit) { user.write(to: &json) }
    json.endArray()
    json.field("next", users.count > limit ? users[limit - 1].id : "")
    json.endObject()
  }

  /// Values are stored as strings; booleans as the published client's language spells them.
  static func strings(_ fields: [String: Value]) -> [String: Value] {
    fields.mapValues { value in
      switch value {
      case .string: value
      case .bool(let flag): .string(flag ? "True" : "False")
      default: .string(value.text)
      }
    }
  }
}
