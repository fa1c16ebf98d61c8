import ChatCache
import ChatModel
import JSON

/// Whether an upstream's listings hold replies, as far as a page shows it (B32), as a value.
///
/// A reply in a page proves that they do. A thread's last reply that is missing, although the page claims to
/// list everything at its time, proves that they do not. Until a page shows either, nothing is known, and no
/// reply is deleted because a listing lacks it.
enum ReplyListing {
  /// What the page shows beyond what is known; nil: nothing new.
  static func shown(by rows: [MessageRecord], of window: MessageWindow, known: Bool?) -> Bool? {
    guard known != true else { return nil }
    if rows.contains(where: { $0.parentID != nil }) { return true }
    guard known == nil, let claim = window.listing(rows.map(\.position)).claim else { return nil }
    let isMissing = rows.contains { row in
      guard let thread = row.threadInfo, let last = lastReply(thread) else { return false }
      return claim.contains(.first(at: last)) && claim.contains(.last(at: last)) && last > row.createdAt
    }
    return isMissing ? false : nil
  }

  /// The time of the thread's last reply (ms); nil if it has none.
  private static func lastReply(_ thread: [UInt8]) -> Int64? {
    do {
      return try thread.withUnsafeBytes { bytes in
        try JSONParser.parse(bytes) { thread -> Int64? in
          guard let replies = thread["reply_count"]?.int64, replies > 0 else { return nil }
          return thread["last_replied_at"]?.int64
        }
      }
    } catch {
      // Thread information that cannot be read does not show whether the upstream lists replies.
      return nil
    }
  }
}
