import ChatModel
import JSON
import SQLite

// Renders an unsent message as the API shows it: the client's parameters and the fields of every message.
extension CacheReader {
  /// The fields of the unsent message without braces. `params`: the client's parameters, an object with the
  /// contract's names.
  package func unsentBody(
    _ params: [UInt8], _ request: RequestID, of user: UserID, in url: ChannelURL, at now: Int64
  ) throws -> [UInt8] {
    try unsentBody(params, request, drawnSender: person(user, in: url), in: url, at: now)
  }

  /// The same, with the sender's fields as `person` gives them.
  func unsentBody(
    _ params: [UInt8], _ request: RequestID, drawnSender sender: [UInt8], in url: ChannelURL, at now: Int64
  ) throws -> [UInt8] {
    try params.withUnsafeBytes { bytes in
      try JSONParser.parse(bytes) { asked in
        var json = JSONWriter(capacity: params.count + 512)
        json.field("message_id", "")
        json.field("request_id", request.text)
        json.field("channel_url", url.text)
        let type = asked["type"]?.string ?? "user"
        json.field("type", type)
        json.field("message", asked["message"]?.string ?? "")
        json.field("data", asked["data"]?.string ?? "")
        json.field("custom_type", asked["custom_type"]?.string ?? "")
        if type != "admin" {
          json.name("sender")
          json.beginObject()
          sender.withUnsafeBytes { json.splice(fields: $0) }
          json.endObject()
        }
        json.field("mention_type", asked["mention_type"]?.string ?? "users")
        json.name("mentioned_users")
        json.beginArray()
        if let mentioned = asked["mentioned_user_ids"]?.items {
          for user in mentioned {
            guard let id = user.string else { continue }
            let person = try person(UserID(id), in: url)
            json.beginObject()
            person.withUnsafeBytes { json.splice(fields: $0) }
            json.endObject()
          }
        }
        json.endArray()
        json.field("created_at", now)
        json.field("updated_at", Int64(0))
        UnsentBody.parts(asked, into: &json)
        return json.finish().array
      }
    }
  }

  /// A user's fields as messages show them. Nickname and picture are empty if the user is no stored member.
  func person(_ user: UserID, in url: ChannelURL) throws -> [UInt8] {
    let member = try db.first(
      """
      SELECT b.body
      FROM channel AS c
      JOIN member AS b ON b.channel = c.id AND b.user_id = ?2
      WHERE c.channel_url = ?1
      """
    ) {
      $0.bind(1, url.text)
      $0.bind(2, user.text)
    } _: {
      [UInt8(ascii: "{")] + Array($0.bytes(0)) + [UInt8(ascii: "}")]
    }
    var json = JSONWriter()
    json.field("user_id", user.text)
    guard let member else {
      json.field("nickname", "")
      json.field("profile_url", "")
      return json.finish().array
    }
    try member.withUnsafeBytes { bytes in
      try JSONParser.parse(bytes) { member in
        json.field("nickname", member["nickname"]?.string ?? "")
        json.field("profile_url", member["profile_url"]?.string ?? "")
      }
    }
    return json.finish().array
  }
}

/// The optional parts of an unsent message.
private enum UnsentBody {
  static func parts(_ asked: JSONValue, into json: inout JSONWriter) {
    // The url of a file that is not uploaded yet is empty: its bytes are in the spool.
    if asked["type"]?.string == "file" {
      json.name("file")
      json.beginObject()
      json.field("url", asked["file_url"]?.string ?? "")
      json.field("name", asked["file_name"]?.string ?? "")
      json.field("mime", asked["file_mime"]?.string ?? "")
      json.field("size", asked["file_size"]?.int64 ?? 0)
      json.name("thumbnails")
      json.beginArray()
      json.endArray()
      json.endObject()
    }
    if let parent = asked["parent_message_id"]?.string { json.field("parent_message_id", parent) }
    if let metaarray = asked["metaarray"] {
      json.name("metaarray")
      json.value(metaarray)
    }
    json.field("is_silent", asked["is_silent"]?.bool ?? false)
    json.field("is_reply_to_channel", asked["is_reply_to_channel"]?.bool ?? false)
  }
}
