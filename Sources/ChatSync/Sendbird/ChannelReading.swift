import ChatCache
import ChatModel
import JSON

/// Turns the wire's channel into Perch's: what all members share apart from what only the asking user sees.
enum ChannelReading {
  /// Reads one channel; `isOwnView` says that it was asked for as a user, so that member fields are that
  /// user's.
  static func record(_ json: JSONValue, isOwnView: Bool) throws -> ChannelRecord {
    let json = json.object("channel") ?? json
    guard let url = json["channel_url"]?.string, !url.isEmpty else { throw Unreadable(what: "channel_url") }
    let channel = ChannelURL(url)
    return ChannelRecord(
      url: channel, name: json.text("name"), customType: json.text("custom_type"),
      createdAt: json.time("created_at"),
      isDistinct: json.flag("is_distinct"), isPublic: json.flag("is_public"), isSuper: json.flag("is_super"),
      isFrozen: json.flag("freeze"), memberCount: json.int("member_count"),
      joinedMemberCount: json.int("joined_member_count"), body: written { body(json, &$0) },
      lastMessage: lastMessage(json, channel), readReceipts: json["read_receipt"].flatMap(receipts),
      metadata: json["metadata"].flatMap(metadata), members: json["members"].flatMap(members),
      membership: isOwnView ? membership(json) : nil)
  }

  private static func body(_ json: JSONValue, _ out: inout JSONWriter) {
    out.copy(text: json["channel_url"], as: "channel_url")
    out.copy(text: json["name"], as: "name")
    out.copy(text: json["cover_url"], as: "cover_url")
    out.copy(text: json["data"], as: "data")
    out.copy(text: json["custom_type"], as: "custom_type")
    out.field("created_at", json.time("created_at"))
    out.field("is_distinct", json.flag("is_distinct"))
    out.field("is_public", json.flag("is_public"))
    out.field("is_super", json.flag("is_super"))
    out.field("is_frozen", json.flag("freeze"))
    out.field("is_broadcast", json.flag("is_broadcast"))
    out.field("member_count", json.int("member_count"))
    out.field("joined_member_count", json.int("joined_member_count"))
  }

  private static func lastMessage(_ json: JSONValue, _ url: ChannelURL) -> ChannelRecord.LastMessage {
    guard let message = json["last_message"] else { return .absent }
    if message.isNull { return .none }
    guard message.kind == .object, message["message_id"] != nil else { return .none }
    // A last message that cannot be read says nothing; the message listing will meet it again.
    return (try? MessageReading.record(message, in: url)).map { .message($0) } ?? .absent
  }

  private static func receipts(_ json: JSONValue) -> [String: Int64]? {
    guard json.kind == .object else { return nil }
    var receipts: [String: Int64] = [:]
    for field in json.fields {
      receipts[String(decoding: field.name, as: UTF8.self)] = field.value.milliseconds ?? 0
    }
    return receipts
  }

  private static func metadata(_ json: JSONValue) -> [String: String]? {
    guard json.kind == .object else { return nil }
    var metadata: [String: String] = [:]
    for field in json.fields {
      metadata[String(decoding: field.name, as: UTF8.self)] = field.value.string ?? ""
    }
    return metadata
  }

  private static func members(_ json: JSONValue) -> [MemberRecord]? {
    guard json.kind == .array else { return nil }
    return json.items.compactMap { member($0) }
  }

  /// One member, nil where it has no id.
  static func member(_ json: JSONValue) -> MemberRecord? {
    guard let id = json["user_id"]?.string, !id.isEmpty else { return nil }
    let state = MembershipRecord.State(rawValue: json.text("state")) ?? .joined
    return MemberRecord(
      userID: id, nickname: json.text("nickname"), state: state,
      body: written { out in
        MessageReading.personFields(json, &out)
        out.field("state", state.rawValue)
        out.field("role", json.text("role"))
        out.field("is_muted", json.flag("is_muted"))
        out.field("is_active", json["is_active"]?.tolerantBool ?? true)
      })
  }

  private static func membership(_ json: JSONValue) -> MembershipRecord? {
    guard let state = json["member_state"]?.string else { return nil }
    let hidden = json.text("hidden_state")
    let known = ["unhidden", "hidden_allow_auto_unhide", "hidden_prevent_auto_unhide"]
    return MembershipRecord(
      state: MembershipRecord.State(rawValue: state) ?? .none, isOperator: json.text("my_role") == "operator",
      isMuted: json["is_muted"]?.tolerantBool ?? (json.text("is_muted") == "true"),
      hiddenState: known.contains(hidden) ? hidden : json.flag("is_hidden") ? known[1] : known[0],
      floorAt: json.time("ts_message_offset"), lastReadAt: json.time("user_last_read"),
      unread: max(0, json.int("unread_message_count")), mentions: max(0, json.int("unread_mention_count")),
      joinedAt: json.time("joined_ts"), invitedAt: json.time("invited_at"),
      inviter: json.object("inviter").map { inviter in written { MessageReading.person(inviter, &$0) } })
  }
}
