import JSON
import SQLite

/// A channel's members: list, invite, join, leave.
enum Members {
  static func add(
    _ user: String, to channel: Int64, state: String = "joined", isOperator: Bool = false,
    inviter: String? = nil, _ call: Call
  ) throws {
    try call.db.run(
      """
      INSERT INTO member (
        channel, user_id, state, is_operator, joined_at, invited_at, inviter, sort_at, stamp)
      VALUES (
        ?1, ?2, ?3, ?4, ?5, CASE WHEN ?6 IS NULL THEN NULL ELSE ?5 END, ?6,
        coalesce(
          (SELECT -1 FROM crowd WHERE channel = ?1),
          (
            SELECT created_at
            FROM message
            WHERE channel = ?1
              AND (parent IS NULL OR is_reply_to_channel = 1)
            ORDER BY created_at DESC, id DESC
            LIMIT 1
          ), ?5), ?7)
      ON CONFLICT DO UPDATE
      SET
        state = excluded.state,
        stamp = excluded.stamp,
        joined_at = CASE WHEN state = excluded.state THEN joined_at ELSE excluded.joined_at END
      """
    ) {
      $0.bind(1, channel)
      $0.bind(2, user)
      $0.bind(3, state)
      $0.bind(4, isOperator)
      $0.bind(5, call.milliseconds)
      $0.bind(6, inviter)
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

  static func list(_ question: Question, _ json: inout JSONWriter) throws {
    let channel = try ChannelRow.named(question)
    let limit = Int(try question.arguments.number("limit", 1...100, default: 10))
    let after = try question.arguments.text("token") ?? ""
    let members = try MemberRow.page(channel.id, after: after, limit: limit + 1, question.reading)
    json.beginObject()
    json.name("members")
    json.beginArray()
    for member in members.prefix(limit) { member.write(to: &json) }
    json.endArray()
    json.field("next", members.count > limit ? members[limit - 1].userID : "")
    json.endObject()
  }

  static func view(_ question: Question, _ json: inout JSONWriter) throws {
    let channel = try ChannelRow.named(question)
    let user = try Users.named(question.arguments.path("user_id"), question.reading)
    let member = try MemberRow.find(channel.id, user.id, question.reading)
    json.beginObject()
    json.field("is_member", member != nil)
    json.field("state", member?.state ?? "none")
    json.endObject()
  }

  /// Invited users are joined at once unless `invitation_status` says otherwise for them.
  static func invite(_ call: inout Call, _ json: inout JSONWriter) throws {
    let channel = try ChannelRow.named(call)
    let users = try listed(call.arguments)
    guard !users.isEmpty else { throw Refusal.missing("user_ids") }
    let inviter = try call.arguments.text("inviter_id").map { try Users.named($0, call.reading) }
    var joined: [String] = []
    var invited: [String] = []
    for user in users {
      try checkBan(user, channel, call)
      let state = try invitation(user, call.arguments)
      let present = try MemberRow.find(channel.id, user, call.reading)
      if present?.state == "joined" { continue }
      try add(user, to: channel.id, state: state, inviter: inviter?.id ?? "", call)
      if state == "joined" { joined.append(user) } else { invited.append(user) }
    }
    try Channels.touch(channel.id, call)
    let names = invited + joined
    call.tell(
      "group_channel:invite", channel.url,
      ["inviter": user(inviter?.id ?? ""), "invitees": .array(names.map(user))])
    if !joined.isEmpty { call.tell("group_channel:join", channel.url, ["users": .array(joined.map(user))]) }
    try ChannelJSON.writeDetail(channel.url, call, to: &json)
  }

  /// The ids in `user_ids`, and in `users`, which may hold ids or objects.
  static func listed(_ arguments: Arguments) throws -> [String] {
    let ids = try arguments.texts("user_ids") ?? []
    let given = arguments.value("users")
    guard given == nil || given.map({ if case .array = $0 { true } else { false } }) == true else {
      throw Refusal(400102, "\"users\" must be a list.")
    }
    let users = try (given?.items ?? []).map { item in
      guard let id = item.string ?? item["user_id"]?.string else { throw Refusal.missing("user_id") }
      return id
    }
    return (ids + users).onceByBytes
  }

  static func invitation(_ user: String, _ arguments: Arguments) throws -> String {
    switch try arguments.object("invitation_status")?[user]?.string {
    case nil, "joined"?: "joined"
    case "invited_by_friend"?, "invited_by_non_friend"?: "invited"
    default: throw Refusal.invalid("invitation_status")
    }
  }

  static func join(_ call: inout Call, _ json: inout JSONWriter) throws {
    let channel = try ChannelRow.named(call)
    let user = try Users.actor(call.arguments.neededText("user_id"), call.reading).id
    try checkBan(user, channel, call)
    try add(user, to: channel.id, call)
    try Channels.touch(channel.id, call)
    call.tell("group_channel:join", channel.url, ["users": .array([self.user(user)])])
    try ChannelJSON.writeDetail(channel.url, call, to: &json)
  }

  private static func checkBan(_ user: String, _ channel: ChannelRow, _ call: Call) throws {
    _ = try Users.named(user, call.reading)
    let isBanned = try call.reading.first(
      "SELECT 1 FROM ban WHERE channel = ?1 AND user_id = ?2",
      {
        $0.bind(1, channel.id)
        $0.bind(2, user)
      }
    ) { _ in true }
    guard isBanned == nil else { throw Refusal(400750, "The user is banned.") }
  }

  /// Declines an invitation; a joined member is refused.
  static func decline(_ call: inout Call, _ json: inout JSONWriter) throws {
    let (channel, member) = try MemberRow.acting(call)
    guard member.state == "invited" else { throw Refusal(400108, "The user has no invitation.") }
    try remove(member.userID, from: channel, call)
    try Channels.touch(channel.id, call)
    call.tell(
      "group_channel:decline_invite", channel.url,
      ["inviter": user(member.inviter ?? ""), "invitee": user(member.userID)])
    json.emptyObject()
  }

  static func leave(_ call: inout Call, _ json: inout JSONWriter) throws {
    let channel = try ChannelRow.named(call)
    var users = try call.arguments.texts("user_ids") ?? []
    if try call.arguments.flag("should_leave_all") {
      users = try MemberRow.all(channel.id, call.reading).map(\.userID)
    }
    guard !users.isEmpty else { throw Refusal.missing("user_ids") }
    for user in users {
      _ = try Users.named(user, call.reading)
      guard try MemberRow.find(channel.id, user, call.reading) != nil else { throw Refusal.notMember }
      try remove(user, from: channel, call)
    }
    try Channels.touch(channel.id, call)
    call.tell("group_channel:leave", channel.url, ["users": .array(users.map(user))])
    json.emptyObject()
  }

  static func user(_ id: String) -> Value { .object(["user_id": .string(id)]) }
}
