import JSON

/// How a message in an answer compares with the stored one.
enum MessageOrder {
  case newer, older, unclear
}

/// A message's reactions and its thread. They change without raising the message's `updated_at`. The time of
/// a thread's last change tells an answer that is behind from a newer one.
struct MessageParts {
  private let reactions: [UInt8]?
  /// The time of the thread's last change (ms); 0: there is none, or it has no time.
  private let threadChangedAt: Int64

  init(reactions: [UInt8]?, threadInfo: [UInt8]?) {
    self.reactions = reactions
    threadChangedAt = MessageParts.changedAt(threadInfo)
  }

  /// How a listed message with these parts compares with a row of the same `updated_at`. A removal leaves no
  /// time: a listing with other reactions, or with a thread that the row lacks, may be newer or older.
  func order(comparedTo stored: MessageParts) -> MessageOrder {
    guard threadChangedAt == stored.threadChangedAt else {
      guard threadChangedAt > 0, stored.threadChangedAt > 0 else { return .unclear }
      return threadChangedAt > stored.threadChangedAt ? .newer : .older
    }
    return reactions == stored.reactions ? .newer : .unclear
  }

  private static func changedAt(_ threadInfo: [UInt8]?) -> Int64 {
    guard let threadInfo else { return 0 }
    do {
      return try threadInfo.withUnsafeBytes {
        try JSONParser.parse($0) { $0["updated_at"]?.int64 ?? 0 }
      }
    } catch { return 0 }
  }
}
