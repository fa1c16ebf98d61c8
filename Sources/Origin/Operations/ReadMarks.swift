import JSON
import SQLite

/// Members' read positions, and operations on one member's own view of a channel: hide, reset, typing.
enum ReadMarks {
  /// Moves a member's read position, never back.
  static func mark(_ user: String, in channel: Int64, at time: Int64, _ call: Call) throws {
    try call.db.run(
      "UPDATE member SET read_at = max(read_at, ?3), stamp = ?4 WHERE channel = ?1 AND user_id = ?2"
    ) {
      $0.bind(1, channel)
      $0.bind(2, user)
      $0.bind(3, time)
      $0.bind(4, call.stamp)
    }
  }

  static func markAsRead(_ call: inout Call, _ json: inout JSONWriter) throws {
    let (channel, member) = try MemberRow.acting(call)
    let newest = try ChannelJSON.newest(channel.id, above: 0, call.reading)?.createdAt ?? 0
    let time = max(call.milliseconds, newest)
    try mark(member.userID, in: channel.id, at: time, call)
    try Channels.touch(channel.id, call)
    let update = Value.object(["user_id": .string(member.userID), "read_ts": .integer(time)])
    call.tell("group_channel:message_read", channel.url, ["read_updates": .array([update])])
    json.emptyObject()
  }

  /// `messages/unread_count?user_ids=`: the number of unread messages of each user.
  static func unread(_ question: Question, _ json: inout JSONWriter) throws {
    let channel = try ChannelRow.named(question)
    let users = try question.arguments.neededTexts("user_ids")
    json.beginObject()
    json.name("unread")
    json.beginObject()
    for user in users {
      _ = try Users.named(user, question.reading)
      guard let member = try MemberRow.find(channel.id, user, question.reading) else {
        throw Refusal.notMember
      }
      json.name(user)
      json.value(try member.unread(channel.id, question.reading))
    }
    json.endObject()
    json.endObject()
  }

  /// The number of unread messages in all of a user's channels.
  static func userUnread(_ question: Question, _ json: inout JSONWriter) throws {
    let db = question.reading
    let user = try Users.named(question.arguments.path("user_id"), db)
    let types = try question.arguments.texts("custom_types")
    let channels = try db.all(
      "SELECT c.id, c.custom_type FROM member m JOIN channel c ON c.id = m.channel WHERE m.user_id = ?1",
      { $0.bind(1, user.id) }
    ) { (id: $0.int64(0), type: $0.string(1)) }
    var total: Int64 = 0
    for channel in channels where types?.contains(channel.type) ?? true {
      total += try MemberRow.find(channel.id, user.id, db)?.unread(channel.id, db) ?? 0
    }
    json.beginObject()
    json.field("unread_count", total)
    json.endObject()
  }

  static func hide(_ call: inout Call, _ json: inout JSONWriter) throws {
    let channel = try ChannelRow.named(call)
    let comesBack = try call.arguments.flag("allow_auto_unhide", default: true)
    let state = comesBack ? "hidden_allow_auto_unhide" : "hidden_prevent_auto_unhide"
    let users =
      try call.arguments.flag("should_hide_all")
      ? MemberRow.all(channel.id, call.reading).map(\.userID) : [MemberRow.acting(call).member.userID]
    for user in users {
      try setHidden(state, user, channel, call)
      if try call.arguments.flag("hide_previous_messages") { try raiseFloor(user, channel, call) }
    }
    json.emptyObject()
  }

  static func unhide(_ call: inout Call, _ json: inout JSONWriter) throws {
    let (channel, member) = try MemberRow.acting(call)
    try setHidden("unhidden", member.userID, channel, call)
    json.emptyObject()
  }

  private static func setHidden(_ state: String, _ user: String, _ channel: ChannelRow, _ call: Call) throws {
    try call.db.run("UPDATE member SET hidden_state = ?3, stamp = ?4 WHERE channel = ?1 AND user_id = ?2") {
      $0.bind(1, channel.id)
      $0.bind(2, user)
      $0.bind(3, state)
      $0.bind(4, call.stamp)
    }
  }

  private static func raiseFloor(_ user: String, _ channel: ChannelRow, _ call: Call) throws {
    try call.db.run("UPDATE member SET floor = ?3, stamp = ?4 WHERE channel = ?1 AND user_id = ?2") {
      $0.bind(1, channel.id)
      $0.bind(2, user)
      $0.bind(3, call.milliseconds)
      $0.bind(4, call.stamp)
    }
  }

  static func resetHistory(_ call: inout Call, _ json: inout JSONWriter) throws {
    let channel = try ChannelRow.named(call)
    let users =
      try call.arguments.flag("reset_all")
      ? MemberRow.all(channel.id, call.reading).map(\.userID) : [MemberRow.acting(call).member.userID]
    for user in users { try raiseFloor(user, channel, call) }
    json.beginObject()
    json.field("ts_message_offset", call.milliseconds)
    json.endObject()
  }

  /// Checks the request and does nothing: a real server tells connected clients of typing, and this one has
  /// none.
  static func typing(_ question: Question, _ json: inout JSONWriter) throws {
    let channel = try ChannelRow.named(question)
    for user in try question.arguments.neededTexts("user_ids") {
      guard try MemberRow.find(channel.id, user, question.reading) != nil else { throw Refusal.notMember }
    }
    json.emptyObject()
  }
}
