import ChatModel
import JSON

extension CacheReader {
  /// The content of an unsent message after an edit. `body` is rendered again, because the edit may mention
  /// other users.
  func edited(
    _ content: OutboxContent, by changes: [UInt8], in url: ChannelURL
  ) throws -> OutboxContent {
    var edited = try content.edited(by: changes)
    let body = [UInt8(ascii: "{")] + content.body + [UInt8(ascii: "}")]
    let drawn = try body.withUnsafeBytes { bytes in
      try JSONParser.parse(bytes) { message in
        (
          request: message["request_id"]?.string.flatMap { RequestID($0) },
          sender: UserID(message["sender"]?["user_id"]?.string ?? ""), at: message["created_at"]?.int64
        )
      }
    }
    if let request = drawn.request, let moment = drawn.at {
      edited.body = try unsentBody(edited.params, request, of: drawn.sender, in: url, at: moment)
    }
    return edited
  }
}
