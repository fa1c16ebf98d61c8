import JSON
import SQLite

/// Operations on the members of a channel and on one member's view of it.
enum Members {
  static func add(
    _ user: String, to channel: Int64, state: String, isOperator: Bool = false, _ call: Call
  ) throws {
    try call.db.run(
      """
      INSERT INTO member (channel, user_id, state, is_operator, joined_at, sort_at, stamp)
      VALUES (
        ?1, ?2, ?3, ?4, ?5,
        coalesce((SELECT max(created_at) FROM message WHERE channel = ?1), ?6), ?7)
      ON CONFLICT DO UPDATE
      SET state = excluded.state, stamp = excluded.stamp
      """
    ) {
      $0.bind(1, channel)
      $0.bind(2, user)
      $0.bind(3, state)
      $0.bind(4, isOperator)
      $0.bind(5, call.seconds)
      $0.bind(6, call.milliseconds)
      $0.bind(7, call.stamp)
    }
    try call.db.run(
      """
      DELETE FROM departure
      WHERE user_id = ?1
        AND url = (SELECT url FROM channel WHERE id = ?2)
      """
    ) {
      $0.bind(1, user)
      $0.bind(2, channel)
    }
  }

  static func remove(_ user: String, from channel: ChannelRow, _ call: Call) throws {
    try call.db.run("DELETE FROM member WHERE channel = ?1 AND user_id = ?2") {
      $0.bind(1, channel.id)
      $0.bind(2, user)
    }
    try call.db.run("INSERT OR REPLACE INTO departure (user_id, url, stamp) VALUES (?1, ?2, ?3)") {
      $0.bind(1, user)
      $0.bind(2, channel.url)
      $0.bind(3, call.stamp)
    }
  }

  static func list(_ call: inout Call, _ json: inout JSONWriter) throws {
    let channel = try ChannelRow.named(call.arguments.path("channel_url"), call.db.reading)
    let limit = Int(try call.arguments.number("limit", 1...100, default: 10))
    let after = try call.arguments.text("token") ?? ""
    let members = try MemberRow.all(channel.id, call.db.reading).filter { $0.userID > after }
    json.beginObject()
    json.name("members")
    json.beginArray()
    for member in members.prefix(limit) { try member.write(call.db.reading, to: &json) }
    json.endArray()
    json.field("next", members.count > limit ? members[limit - 1].userID : "")
    json.endObject()
  }

  static func view(_ call: inout Call, _ json: inout JSONWriter) throws {
    let channel = try ChannelRow.named(call.arguments.path("channel_url"), call.db.reading)
    let user = try Users.named(call.arguments.path("user_id"), call.db.reading)
    let member = try MemberRow.find(channel.id, user.id, call.db.reading)
    json.beginObject()
    json.field("is_member", member != nil)
    json.field("state", member?.state ?? "none")
    json.endObject()
  }

  static func invite(_ call: inout Call, _ json: inout JSONWriter) throws {
    let users = try call.arguments.texts("user_ids")
    guard let users, !users.isEmpty else { throw Refusal.missing("user_ids") }
    try join(users, state: "joined", "group_channel:join", &call, &json)
  }

  static func join(_ call: inout Call, _ json: inout JSONWriter) throws {
    try join([try call.arguments.neededText("user_id")], state: "joined", "group_channel:join", &call, &json)
  }

  private static func join(
    _ users: [String], state: String, _ category: String, _ call: inout Call, _ json: inout JSONWriter
  ) throws {
    let channel = try ChannelRow.named(call.arguments.path("channel_url"), call.db.reading)
    for user in users {
      _ = try Users.named(user, call.db.reading)
      let isBanned = try call.db.reading.first(
        "SELECT 1 FROM ban WHERE channel = ?1 AND user_id = ?2",
        {
          $0.bind(1, channel.id)
          $0.bind(2, user)
        }
      ) { _ in true }
      guard isBanned == nil else { throw Refusal(400750, "The user is banned.") }
      try add(user, to: channel.id, state: state, call)
    }
    try Channels.touch(channel.id, call)
    call.tell(category, channel.url, ["users": .array(users.map { .object(["user_id": .string($0)]) })])
    try ChannelJSON.writeDetail(channel.url, viewer: users.first, call.db.reading, to: &json)
  }

  static func leave(_ call: inout Call, _ json: inout JSONWriter) throws {
    let channel = try ChannelRow.named(call.arguments.path("channel_url"), call.db.reading)
    var users = try call.arguments.texts("user_ids") ?? []
    if try call.arguments.flag("should_leave_all") {
      users = try MemberRow.all(channel.id, call.db.reading).map(\.userID)
    }
    guard !users.isEmpty else { throw Refusal.missing("user_ids") }
    for user in users { try remove(user, from: channel, call) }
    try Channels.touch(channel.id, call)
    call.tell(
      "group_channel:leave", channel.url,
      ["users": .array(users.map { .object(["user_id": .string($0)]) })])
    json.beginObject()
    json.endObject()
  }

  /// The channel and the member that `user_id` names.
  static func own(_ call: Call) throws -> (channel: ChannelRow, member: MemberRow) {
    let channel = try ChannelRow.named(call.arguments.path("channel_url"), call.db.reading)
    let user = try call.arguments.neededText("user_id")
    _ = try Users.actor(user, call.db.reading)
    guard let member = try MemberRow.find(channel.id, user, call.db.reading) else { throw Refusal.notMember }
    return (channel, member)
  }

  static func hide(_ call: inout Call, _ json: inout JSONWriter) throws {
    let (channel, member) = try own(call)
    let comesBack = try call.arguments.flag("allow_auto_unhide", default: true)
    try setHidden(
      comesBack ? "hidden_allow_auto_unhide" : "hidden_prevent_auto_unhide", member, channel, call)
    json.beginObject()
    json.endObject()
  }

  static func unhide(_ call: inout Call, _ json: inout JSONWriter) throws {
    let (channel, member) = try own(call)
    try setHidden("unhidden", member, channel, call)
    json.beginObject()
    json.endObject()
  }

  private static func setHidden(_ state: String, _ member: MemberRow, _ channel: ChannelRow, _ call: Call)
    throws
  {
    try call.db.run("UPDATE member SET hidden_state = ?3, stamp = ?4 WHERE channel = ?1 AND user_id = ?2") {
      $0.bind(1, channel.id)
      $0.bind(2, member.userID)
      $0.bind(3, state)
      $0.bind(4, call.stamp)
    }
  }

  static func resetHistory(_ call: inout Call, _ json: inout JSONWriter) throws {
    let (channel, member) = try own(call)
    try call.db.run("UPDATE member SET floor = ?3, stamp = ?4 WHERE channel = ?1 AND user_id = ?2") {
      $0.bind(1, channel.id)
      $0.bind(2, member.userID)
      $0.bind(3, call.milliseconds)
      $0.bind(4, call.stamp)
    }
    json.beginObject()
    json.field("ts_message_offset", call.milliseconds)
    json.endObject()
  }

  static func markAsRead(_ call: inout Call, _ json: inout JSONWriter) throws {
    let (channel, member) = try own(call)
    try call.db.run("UPDATE member SET read_at = ?3 WHERE channel = ?1 AND user_id = ?2") {
      $0.bind(1, channel.id)
      $0.bind(2, member.userID)
      $0.bind(3, call.milliseconds)
    }
    try Channels.touch(channel.id, call)
    let update = Value.object(["user_id": .string(member.userID), "read_ts": .integer(call.milliseconds)])
    call.tell("group_channel:message_read", channel.url, ["read_updates": .array([update])])
    json.beginObject()
    json.endObject()
  }

  static func typing(_ call: inout Call, _ json: inout JSONWriter) throws {
    let channel = try ChannelRow.named(call.arguments.path("channel_url"), call.db.reading)
    for user in try call.arguments.texts("user_ids") ?? [] {
      guard try MemberRow.find(channel.id, user, call.db.reading) != nil else { throw Refusal.notMember }
    }
    json.beginObject()
    json.endObject()
  }

  static func userUnread(_ call: inout Call, _ json: inout JSONWriter) throws {
    let user = try Users.named(call.arguments.path("user_id"), call.db.reading)
    let channels = try call.db.reading.all(
      "SELECT channel FROM member WHERE user_id = ?1", { $0.bind(1, user.id) }
    ) { $0.int64(0) }
    var total: Int64 = 0
    for channel in channels {
      total += try MemberRow.find(channel, user.id, call.db.reading)?.unread(channel, call.db.reading) ?? 0
    }
    json.beginObject()
    json.field("unread_count", total)
    json.endObject()
  }
}
