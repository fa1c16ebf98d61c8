import JSON

/// How a message in an answer stands to the stored one.
enum MessageOrder {
  case newer, older, unclear
}

/// When a message's reactions and its thread last changed, as they say themselves. They change without
/// raising the message's `updated_at`, so these times tell an answer that is behind from a newer one.
struct MessageParts {
  private let reactions: [UInt8]?
  /// The time of the last reaction (ms); 0: there is none, or it has no time.
  private let reactedAt: Int64
  /// The time of the thread's last change (ms); 0: there is none, or it has no time.
  private let threadChangedAt: Int64

  init(reactions: [UInt8]?, threadInfo: [UInt8]?) {
    self.reactions = reactions
    reactedAt = MessageParts.read(reactions) { $0.items.reduce(0) { max($0, MessageParts.time($1)) } }
    threadChangedAt = MessageParts.read(threadInfo, MessageParts.time)
  }

  /// How a listed message with these parts stands to a row with those and the same `updated_at`. A reaction
  /// that is taken away leaves no time, so a listing that lacks one may be newer or older.
  func order(comparedTo stored: MessageParts) -> MessageOrder {
    if threadChangedAt != stored.threadChangedAt, threadChangedAt > 0, stored.threadChangedAt > 0 {
      return threadChangedAt > stored.threadChangedAt ? .newer : .older
    }
    if reactions == stored.reactions { return .newer }
    return reactedAt > stored.reactedAt ? .newer : .unclear
  }

  private static func time(_ json: JSONValue) -> Int64 { json["updated_at"]?.int64 ?? 0 }

  private static func read(_ bytes: [UInt8]?, _ body: (JSONValue) -> Int64) -> Int64 {
    guard let bytes else { return 0 }
    do { return try bytes.withUnsafeBytes { try JSONParser.parse($0, body) } } catch { return 0 }
  }
}
