import JSON
import SQLite

/// Operators, muted and banned members.
enum Moderation {
  private static func members(
    _ call: Call, _ isListed: (MemberRow) -> Bool, _ name: String,
    _ json: inout JSONWriter
  ) throws {
    let channel = try ChannelRow.named(call.arguments.path("channel_url"), call.db.reading)
    json.beginObject()
    json.name(name)
    json.beginArray()
    for member in try MemberRow.all(channel.id, call.db.reading) where isListed(member) {
      try member.write(call.db.reading, to: &json)
    }
    json.endArray()
    json.field("next", "")
    json.endObject()
  }

  static func operators(_ call: inout Call, _ json: inout JSONWriter) throws {
    try members(call, \.isOperator, "operators", &json)
  }

  static func muted(_ call: inout Call, _ json: inout JSONWriter) throws {
    try members(call, \.isMuted, "muted_list", &json)
  }

  static func addOperators(_ call: inout Call, _ json: inout JSONWriter) throws {
    try setOperators(true, &call, &json)
  }

  static func removeOperators(_ call: inout Call, _ json: inout JSONWriter) throws {
    try setOperators(false, &call, &json)
  }

  private static func setOperators(_ isOperator: Bool, _ call: inout Call, _ json: inout JSONWriter) throws {
    let channel = try ChannelRow.named(call.arguments.path("channel_url"), call.db.reading)
    guard let users = try call.arguments.texts("operator_ids") else { throw Refusal.missing("operator_ids") }
    for user in users {
      guard try MemberRow.find(channel.id, user, call.db.reading) != nil else { throw Refusal.notMember }
      try call.db.run("UPDATE member SET is_operator = ?3 WHERE channel = ?1 AND user_id = ?2") {
        $0.bind(1, channel.id)
        $0.bind(2, user)
        $0.bind(3, isOperator)
      }
    }
    try Channels.touch(channel.id, call)
    json.beginObject()
    json.endObject()
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
    let channel = try ChannelRow.named(call.arguments.path("channel_url"), call.db.reading)
    guard try MemberRow.find(channel.id, user, call.db.reading) != nil else { throw Refusal.notMember }
    try call.db.run("UPDATE member SET is_muted = ?3 WHERE channel = ?1 AND user_id = ?2") {
      $0.bind(1, channel.id)
      $0.bind(2, user)
      $0.bind(3, isMuted)
    }
    try Channels.touch(channel.id, call)
    json.beginObject()
    json.endObject()
  }

  static func ban(_ call: inout Call, _ json: inout JSONWriter) throws {
    let channel = try ChannelRow.named(call.arguments.path("channel_url"), call.db.reading)
    let user = try Users.named(call.arguments.neededText("user_id"), call.db.reading)
    try call.db.run("INSERT OR IGNORE INTO ban (channel, user_id) VALUES (?1, ?2)") {
      $0.bind(1, channel.id)
      $0.bind(2, user.id)
    }
    try Members.remove(user.id, from: channel, call)
    try Channels.touch(channel.id, call)
    call.tell("group_channel:leave", channel.url, ["users": .array([.object(["user_id": .string(user.id)])])])
    json.beginObject()
    json.name("user")
    user.write(to: &json)
    json.endObject()
  }

  static func unban(_ call: inout Call, _ json: inout JSONWriter) throws {
    let channel = try ChannelRow.named(call.arguments.path("channel_url"), call.db.reading)
    let user = call.arguments.path("user_id")
    try call.db.run("DELETE FROM ban WHERE channel = ?1 AND user_id = ?2") {
      $0.bind(1, channel.id)
      $0.bind(2, user)
    }
    json.beginObject()
    json.endObject()
  }
}
