import ChatCache
import ChatModel
import JSON

/// Turns the server's channel into a record, in which the fields that all members share and those that only
/// the asking user sees are apart.
enum ChannelReading {
  /// Reads one channel. `isOwnView`: it was requested as a user, so the member fields are that user's.
  static func record(_ json: JSONValue, isOwnView: Bool) throws -> ChannelRecord {
    let json = json.object("channel") ?? json
    guard let channel = url(json) else { throw Unreadable(field: "channel_url") }
    var isWhole = true
    var record = ChannelRecord(
      url: channel, name: json.textIfAny("name"), customType: json.textIfAny("custom_type"),
      createdAt: json["created_at"]?.milliseconds, isDistinct: json["is_distinct"]?.tolerantBool,
      isPublic: json["is_public"]?.tolerantBool, isSuper: json["is_super"]?.tolerantBool,
      isFrozen: json["freeze"]?.tolerantBool, memberCount: json["member_count"]?.count,
      joinedMemberCount: json["joined_member_count"]?.count,
      body: written { body(json, &$0, &isWhole) },
      lastMessage: lastMessage(json, channel), readReceipts: json["read_receipt"].flatMap(receipts),
      metadata: json["metadata"].flatMap(metadata), members: json["members"].flatMap(members),
      membership: isOwnView ? try membership(json) : nil)
    record.isWhole = isWhole
    return record
  }

  /// The channel's url; nil if it has none.
  static func url(_ json: JSONValue) -> ChannelURL? {
    guard let url = json["channel_url"]?.string, !url.isEmpty else { return nil }
    return ChannelURL(url)
  }

  /// Writes the fields that the answer has. `isWhole` becomes false if one is missing (B11).
  private static func body(_ json: JSONValue, _ out: inout JSONWriter, _ isWhole: inout Bool) {
    let texts: [StaticString] = ["channel_url", "name", "cover_url", "data", "custom_type"]
    for name in texts { isWhole = out.copyIfAny(text: json[name], as: name) && isWhole }
    isWhole = out.fieldIfAny("created_at", json["created_at"]?.milliseconds) && isWhole
    let flags: [(wire: StaticString, name: StaticString)] = [
      ("is_distinct", "is_distinct"), ("is_public", "is_public"), ("is_super", "is_super"),
      ("freeze", "is_frozen"), ("is_broadcast", "is_broadcast"),
    ]
    for flag in flags { isWhole = out.fieldIfAny(flag.name, json[flag.wire]?.tolerantBool) && isWhole }
    // Some answers with a whole channel lack this field, so `isWhole` does not depend on it.
    if let length = json["max_length_message"]?.tolerantInt, length > 0 {
      out.field("max_message_length", length)
    }
    let counts: [StaticString] = ["member_count", "joined_member_count"]
    for name in counts { isWhole = out.fieldIfAny(name, json[name]?.count) && isWhole }
  }

  private static func lastMessage(_ json: JSONValue, _ url: ChannelURL) -> ChannelRecord.LastMessage {
    guard let message = json["last_message"] else { return .absent }
    if message.isNull { return .none }
    guard message.kind == .object, message["message_id"] != nil else { return .none }
    do { return .message(try MessageReading.record(message, foundIn: url)) } catch {
      // The channel is stored without a last message that cannot be read. The listing of the channel's
      // messages reads that message again and reports it.
      return .absent
    }
  }

  private static func receipts(_ json: JSONValue) -> ReadReceipts? {
    guard json.kind == .object else { return nil }
    var receipts = ReadReceipts()
    for field in json.fields {
      if let moment = field.value.milliseconds { receipts.append(field.name, moment) }
    }
    return receipts
  }

  private static func metadata(_ json: JSONValue) -> [ExactText: String]? {
    guard json.kind == .object else { return nil }
    var metadata: [ExactText: String] = [:]
    for field in json.fields {
      metadata[ExactText(String(decoding: field.name, as: UTF8.self))] = field.value.string ?? ""
    }
    return metadata
  }

  private static func members(_ json: JSONValue) -> [MemberRecord]? {
    guard json.kind == .array else { return nil }
    return json.items.compactMap { member($0) }
  }

  /// One member; nil if it has no id.
  static func member(_ json: JSONValue) -> MemberRecord? {
    guard let id = json["user_id"]?.string, !id.isEmpty else { return nil }
    let state = MembershipRecord.State(rawValue: json.text("state"))
    var isWhole = state != nil
    var record = MemberRecord(
      userID: id, nickname: json.textIfAny("nickname") ?? json.textIfAny("name"), state: state,
      body: written { memberBody(json, state, &$0, &isWhole) })
    record.isWhole = isWhole
    return record
  }

  private static func memberBody(
    _ json: JSONValue, _ state: MembershipRecord.State?, _ out: inout JSONWriter, _ isWhole: inout Bool
  ) {
    out.copy(text: json["user_id"], as: "user_id")
    isWhole = out.copyIfAny(text: json["nickname"] ?? json["name"], as: "nickname") && isWhole
    isWhole = out.copyIfAny(text: json["profile_url"] ?? json["image"], as: "profile_url") && isWhole
    if let metadata = json["metadata"] ?? json["metas"], metadata.kind == .object {
      out.copy(metadata, as: "metadata")
    } else {
      isWhole = false
    }
    if let state { out.field("state", state.rawValue) }
    isWhole = out.copyIfAny(text: json["role"], as: "role") && isWhole
    isWhole = out.fieldIfAny("is_muted", json["is_muted"]?.tolerantBool) && isWhole
    isWhole = out.fieldIfAny("is_active", json["is_active"]?.tolerantBool) && isWhole
  }

  private static func membership(_ json: JSONValue) throws -> MembershipRecord {
    let floor = json["ts_message_offset"].flatMap { $0.isNull ? nil : $0 }
    if let floor, floor.floor == nil { throw Unreadable(field: "ts_message_offset") }
    return MembershipRecord(
      state: json["member_state"]?.string.map { MembershipRecord.State(rawValue: $0) ?? .outside },
      isOperator: json["my_role"]?.string.map { $0 == "operator" },
      isMuted: json["is_muted"]?.tolerantBool, hiddenState: hiddenState(json),
      floorAt: floor?.floor, lastReadAt: json["user_last_read"]?.milliseconds,
      unread: json["unread_message_count"]?.count, mentions: json["unread_mention_count"]?.count,
      joinedAt: json["joined_ts"]?.milliseconds, invitedAt: json["invited_at"]?.milliseconds,
      inviter: json.object("inviter").map { inviter in written { MessageReading.person(inviter, &$0) } })
  }

  private static func hiddenState(_ json: JSONValue) -> String? {
    let known = ["unhidden", "hidden_allow_auto_unhide", "hidden_prevent_auto_unhide"]
    if let state = json["hidden_state"]?.string, known.contains(state) { return state }
    return json["is_hidden"]?.tolerantBool.map { $0 ? known[1] : known[0] }
  }
}
