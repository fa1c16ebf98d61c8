import JSON
import SQLite

/// The webhooks of an operation.
extension Call {
  /// Adds a webhook, which is sent after the commit.
  mutating func tell(_ category: String, _ url: String, _ more: [String: Value] = [:]) {
    var fields = more
    fields["category"] = .string(category)
    fields["app_id"] = .string("origin")
    fields["channel"] = .object(["channel_url": .string(url)])
    news.append(.object(fields))
  }

  /// Adds a webhook about a message.
  mutating func tellMessage(_ event: String, _ url: String, _ id: Int64, _ more: [String: Value] = [:]) {
    var fields = more
    var payload = more["payload"]?.fields ?? [:]
    payload["message_id"] = .integer(id)
    fields["payload"] = .object(payload)
    tell("group_channel:\(event)", url, fields)
  }
}

extension Messages {
  /// Adds the webhook about a new message.
  static func tellSent(_ call: inout Call, _ channel: ChannelRow, _ id: Int64, _ new: NewMessage) throws {
    let payload: [String: Value] = [
      "message": .string(new.text), "custom_type": .string(new.customType), "data": .string(new.data),
      "created_at": .integer(new.createdAt),
    ]
    var more: [String: Value] = [
      "payload": .object(payload), "type": .string(new.type), "silent": .bool(new.isSilent),
      "mention_type": .string(new.mentionType),
      "mentioned_users": .array(new.mentioned.map(Members.user)),
    ]
    if let user = try new.user.flatMap({ try UserRow.find($0, call.reading) }) {
      more["sender"] = .object([
        "user_id": .string(user.id), "nickname": .string(user.nickname),
        "profile_url": .string(user.profileURL), "metadata": Value(stored: user.metadata),
      ])
    }
    call.tellMessage("message_send", channel.url, id, more)
  }
}
