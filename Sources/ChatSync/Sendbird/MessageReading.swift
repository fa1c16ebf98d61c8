import ChatCache
import ChatModel
import JSON
import Platform

/// Turns the server's message into a record: names mapped, ids as texts, optional parts beside the body.
enum MessageReading {
  /// Reads one message that was asked for in the channel `url`. A message that names another channel is
  /// unreadable: the members of this one may not see it.
  static func record(_ json: JSONValue, foundIn url: ChannelURL) throws -> MessageRecord {
    if let named = json["channel_url"]?.utf8, !named.isEmpty, !named.elementsEqual(url.text.utf8) {
      throw Unreadable(field: "channel_url", fault: "is that of another channel")
    }
    return try record(json, in: url)
  }

  /// Reads one message of the channel `url`, which the answer may leave out.
  static func record(_ json: JSONValue, in url: ChannelURL) throws -> MessageRecord {
    guard let id = id(json) else { throw Unreadable(field: "message_id") }
    guard let createdAt = json["created_at"]?.milliseconds ?? json["ts"]?.milliseconds else {
      throw Unreadable(field: "created_at")
    }
    let kind = kind(json)
    let parentID = json["parent_message_id"]?.messageID
    let parent = json.object("parent_message_info")
    let position = Position(createdAt: createdAt, messageID: id)
    return MessageRecord(
      messageID: id, createdAt: createdAt, updatedAt: json.time("updated_at"), kind: kind,
      isSilent: json.flag("silent") || json.flag("is_silent"),
      isReplyToChannel: json.flag("is_reply_to_channel"),
      parentID: parentID, parentAt: parent.flatMap { ($0["created_at"] ?? $0["ts"])?.milliseconds },
      sender: sender(json).map { userID($0) } ?? "", customType: json.text("custom_type"),
      requestID: json.text("req_id"), mentions: mentions(json),
      body: written { body(json, kind, position, url, &$0) },
      reactions: json.objects("reactions").map { values in written { $0.array(values) } },
      metaarray: json.objects("sorted_metaarray").map { values in written { $0.array(values) } },
      threadInfo: json.object("thread_info").map { value in written { threadInfo(value, &$0) } },
      parent: parent.map { value in written { embeddedParent(value, parentID, &$0) } })
  }

  /// The message's id; nil if it has none.
  static func id(_ json: JSONValue) -> Int64? { json["message_id"]?.messageID ?? json["msg_id"]?.messageID }

  private static func kind(_ json: JSONValue) -> MessageQuery.Kind {
    switch json.text("type") {
    case "MESG", "": .user
    case "FILE": .file
    case "ADMM", "BRDM": .admin
    default: .other
    }
  }

  private static func sender(_ json: JSONValue) -> JSONValue? { json.object("user") ?? json.object("sender") }

  private static func userID(_ user: JSONValue) -> String {
    user["user_id"]?.string ?? user["guest_id"]?.string ?? ""
  }

  private static func mentions(_ json: JSONValue) -> MessageRecord.Mentions {
    if json.text("mention_type") == "channel" { return .everybody }
    let users = json["mentioned_users"]?.items.map(userID) ?? []
    return users.isEmpty ? .nobody : .users(users)
  }

  private static func body(
    _ json: JSONValue, _ kind: MessageQuery.Kind, _ position: Position, _ url: ChannelURL,
    _ out: inout JSONWriter
  ) {
    out.name("message_id")
    out.value(quoting: position.messageID)
    out.copy(text: json["req_id"], as: "request_id")
    out.field("position", position.description)
    out.field("channel_url", url.text)
    out.name("type")
    out.value(plain: word(kind))
    out.copy(text: json["message"], as: "message")
    out.copy(text: json["data"], as: "data")
    out.copy(text: json["custom_type"], as: "custom_type")
    if kind != .admin, let sender = sender(json) {
      out.name("sender")
      person(sender, &out)
    }
    out.name("mention_type")
    out.value(plain: json.text("mention_type") == "channel" ? "channel" : "users")
    out.name("mentioned_users")
    out.beginArray()
    for user in json["mentioned_users"]?.items ?? JSONValue.Items.none { person(user, &out) }
    out.endArray()
    out.field("created_at", position.createdAt)
    out.field("updated_at", json.time("updated_at"))
    out.name("sending_status")
    out.value(plain: "succeeded")
    if let file = json.object("file") { self.file(file, json["thumbnails"], &out) }
    if let parent = json["parent_message_id"]?.messageID {
      out.name("parent_message_id")
      out.value(quoting: parent)
    }
    out.field("is_silent", json.flag("silent") || json.flag("is_silent"))
    out.field("is_reply_to_channel", json.flag("is_reply_to_channel"))
    out.copy(json.object("og_tag"), as: "og")
    out.copy(json.object("translations"), as: "translations")
    extras(json, &out)
    if kind == .other { out.copy(json, as: "raw") }
  }

  /// Fields that few messages have: several files, a poll, an application's own payload.
  private static func extras(_ json: JSONValue, _ out: inout JSONWriter) {
    if let files = json.objects("files"), !files.isEmpty {
      out.name("files")
      out.beginArray()
      for file in files { fields(of: file, file["thumbnails"], &out) }
      out.endArray()
    }
    out.copy(json.object("poll"), as: "poll")
    out.copy(json.object("extended_message_payload"), as: "extended_payload")
  }

  private static func word(_ kind: MessageQuery.Kind) -> StaticString {
    switch kind {
    case .user: "user"
    case .file: "file"
    case .admin: "admin"
    case .other: "other"
    }
  }

  /// A user as messages and members show it.
  static func person(_ user: JSONValue, _ out: inout JSONWriter) {
    out.beginObject()
    personFields(user, &out)
    out.endObject()
  }

  /// The same without braces.
  static func personFields(_ user: JSONValue, _ out: inout JSONWriter) {
    out.field("user_id", userID(user))
    out.copy(text: user["nickname"] ?? user["name"], as: "nickname")
    out.copy(text: user["profile_url"] ?? user["image"], as: "profile_url")
    out.copy(user.object("metadata") ?? user.object("metas"), as: "metadata")
  }

  private static func file(_ file: JSONValue, _ thumbnails: JSONValue?, _ out: inout JSONWriter) {
    out.name("file")
    fields(of: file, thumbnails, &out)
  }

  private static func fields(of file: JSONValue, _ thumbnails: JSONValue?, _ out: inout JSONWriter) {
    out.beginObject()
    out.copy(text: file["url"], as: "url")
    out.copy(text: file["name"], as: "name")
    out.copy(text: file["type"], as: "mime")
    out.field("size", file["size"]?.number(in: Limits.fileBytes) ?? 0)
    out.name("thumbnails")
    if let thumbnails, thumbnails.kind == .array {
      out.value(thumbnails)
    } else {
      out.beginArray()
      out.endArray()
    }
    out.endObject()
  }

  private static func threadInfo(_ json: JSONValue, _ out: inout JSONWriter) {
    out.beginObject()
    out.field("reply_count", json.count("reply_count"))
    out.name("most_replies")
    out.beginArray()
    for user in json["most_replies"]?.items ?? JSONValue.Items.none { person(user, &out) }
    out.endArray()
    out.field("last_replied_at", json.time("last_replied_at"))
    out.field("updated_at", json.time("updated_at"))
    out.endObject()
  }

  private static func embeddedParent(_ json: JSONValue, _ id: Int64?, _ out: inout JSONWriter) {
    out.beginObject()
    out.name("message_id")
    out.value(quoting: json["message_id"]?.messageID ?? id ?? 0)
    out.name("type")
    out.value(plain: word(kind(json)))
    out.copy(text: json["message"], as: "message")
    out.copy(text: json["custom_type"], as: "custom_type")
    if let sender = sender(json) {
      out.name("sender")
      person(sender, &out)
    }
    out.field("created_at", (json["created_at"] ?? json["ts"])?.milliseconds ?? 0)
    if let file = json.object("file") { self.file(file, nil, &out) }
    out.endObject()
  }
}

extension JSONValue.Items {
  /// No items.
  static var none: JSONValue.Items { JSONValue.Items() }
}
