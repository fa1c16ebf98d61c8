import JSON
import SQLite

/// Operators, muted and banned members, and the frozen channel.
enum Moderation {
  private static func members(
    _ question: Question, _ name: StaticString, _ isListed: (MemberRow) -> Bool, _ json: inout JSONWriter
  ) throws {
    let channel = try ChannelRow.named(question)
    json.beginObject()
    json.name(name)
    json.beginArray()
    for member in try MemberRow.all(channel.id, question.reading) where isListed(member) {
      member.write(to: &json)
    }
    json.endArray()
    json.field("next", "")
    json.endObject()
  }

  static func operators(_ question: Question, _ json: inout JSONWriter) throws {
    try members(question, "operators", \.isOperator, &json)
  }

  static func muted(_ question: Question, _ json: inout JSONWriter) throws {
    try members(question, "muted_list", \.isMuted, &json)
  }

  static func addOperators(_ call: inout Call, _ json: inout JSONWriter) throws {
    try setOperators(true, &call, &json)
  }

  static func removeOperators(_ call: inout Call, _ json: inout JSONWriter) throws {
    try setOperators(false, &call, &json)
  }

  private static func setOperators(_ isOperator: Bool, _ call: inout Call, _ json: inout JSONWriter) throws {
    let channel = try ChannelRow.named(call)
    for user in try call.arguments.neededTexts("operator_ids") {
      guard try MemberRow.find(channel.id, user, call.reading) != nil else { throw Refusal.notMember }
      try call.db.run("UPDATE member SET is_operator = ?3 WHERE channel = ?1 AND user_id = ?2") {
        $0.bind(1, channel.id)
        $0.bind(2, user)
        $0.bind(3, isOperator)
      }
    }
    try Channels.touch(channel.id, call)
    json.emptyObject()
  }

  static func mute(_ call: inout Call, _ json: inout JSONWriter) throws {
    try setMuted(true, call.arguments.neededText("user_id"), &call, &json)
  }

  static func unmute(_ call: inout Call, _ json: inout JSONWriter) throws {
    try setMuted(false, call.arguments.path("user_id"), &call, &json)
  }

  private static func setMuted(
    _ isMuted: Bool, _ user: String, _ call: inout Call, _ json: inout JSONWriter
  ) throws {
    let channel = try ChannelRow.named(call)
    guard try MemberRow.find(channel.id, user, call.reading) != nil else { throw Refusal.notMember }
    try call.db.run("UPDATE member SET is_muted = ?3 WHERE channel = ?1 AND user_id = ?2") {
      $0.bind(1, channel.id)
      $0.bind(2, user)
      $0.bind(3, isMuted)
    }
    try Channels.touch(channel.id, call)
    json.emptyObject()
  }

  static func ban(_ call: inout Call, _ json: inout JSONWriter) throws {
    let channel = try ChannelRow.named(call)
    let user = try Users.named(call.arguments.neededText("user_id"), call.reading)
    try call.db.run("INSERT OR IGNORE INTO ban (channel, user_id) VALUES (?1, ?2)") {
      $0.bind(1, channel.id)
      $0.bind(2, user.id)
    }
    try Members.remove(user.id, from: channel, call)
    try Channels.touch(channel.id, call)
    call.tell("group_channel:leave", channel.url, ["users": .array([Members.user(user.id)])])
    json.beginObject()
    json.name("user")
    user.write(to: &json)
    json.endObject()
  }

  static func banned(_ question: Question, _ json: inout JSONWriter) throws {
    let channel = try ChannelRow.named(question)
    let users = try question.reading.all(
      "SELECT user_id FROM ban WHERE channel = ?1 ORDER BY user_id", { $0.bind(1, channel.id) }
    ) { $0.string(0) }
    json.beginObject()
    json.name("banned_list")
    json.beginArray()
    for id in users {
      guard let user = try UserRow.find(id, question.reading) else { continue }
      json.beginObject()
      json.name("user")
      user.write(to: &json)
      json.endObject()
    }
    json.endArray()
    json.field("next", "")
    json.endObject()
  }

  static func unban(_ call: inout Call, _ json: inout JSONWriter) throws {
    let channel = try ChannelRow.named(call)
    let user = call.arguments.path("user_id")
    try call.db.run("DELETE FROM ban WHERE channel = ?1 AND user_id = ?2") {
      $0.bind(1, channel.id)
      $0.bind(2, user)
    }
    json.emptyObject()
  }

  static func freeze(_ call: inout Call, _ json: inout JSONWriter) throws {
    let channel = try ChannelRow.named(call)
    guard call.arguments.value("freeze") != nil else { throw Refusal.missing("freeze") }
    let isFrozen = try call.arguments.flag("freeze")
    try call.db.run("UPDATE channel SET is_frozen = ?2 WHERE id = ?1") {
      $0.bind(1, channel.id)
      $0.bind(2, isFrozen)
    }
    try Channels.touch(channel.id, call)
    call.tell("group_channel:freeze_unfreeze", channel.url, ["freeze": .bool(isFrozen)])
    try ChannelJSON.writeDetail(channel.url, call, to: &json)
  }
}
