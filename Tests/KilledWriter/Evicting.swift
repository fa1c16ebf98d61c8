import ChatCache
import ChatModel
import Glibc
import Platform

/// Stores messages without end in a small cache, so that at any moment a pass is running or pages are given
/// back.
struct Evicting {
  let directory: String

  /// The cache as this program opens it: with two megabytes more than an empty one takes.
  static func configuration(_ directory: String) -> Cache.Configuration {
    var configuration = Cache.Configuration(directory: directory)
    configuration.limit = CacheLimit(exactly: 4 << 20)
    return configuration
  }

  /// Prints a number after each round. Returns an exit code after a failure.
  func run() -> Int32 {
    do {
      let cache = try Cache(Evicting.configuration(directory))
      cache.noteConnection()
      // Goes on after the newest message that an earlier run stored.
      let newest = try cache.read {
        try $0.cachedChannels(of: nil, by: .lastMessageAt, isDescending: true, limit: 1).first?.lastMessageAt
      }
      var round = (newest ?? 0) / 10_000
      while true {
        round += 1
        for channel in 0..<4 { try store(round, in: ChannelURL("c\(channel)"), cache) }
        try cache.evict()
        try cache.shrink()
        let line = "\(round)\n"
        _ = line.utf8.withContiguousStorageIfAvailable { write(STDOUT_FILENO, $0.baseAddress, $0.count) }
      }
    } catch {
      Log.line(.error, "evicting_failed", ["reason": .text("\(error)")])
      return 3
    }
  }

  private func store(_ round: Int64, in url: ChannelURL, _ cache: Cache) throws {
    let rows = (0..<60).map { Evicting.message(round * 1_000 + $0, bytes: 4_000) }
    let listing = MessageListing(
      window: MessageWindow(.newest, older: 60, newer: 0), rows: rows, isWhole: true,
      askedAt: cache.cursor.sequence)
    try cache.blocking.write {
      _ = try $0.store([listing], in: url, ListingContext(source: .apiResult, generation: 1))
    }
  }

  /// A message of `bytes` bytes.
  static func message(_ id: Int64, bytes: Int) -> MessageRecord {
    let text = String(repeating: "x", count: bytes)
    return MessageRecord(
      messageID: id, createdAt: id * 10, updatedAt: 0, kind: .user, isSilent: false, isReplyToChannel: false,
      parentID: nil, sender: "bob", customType: "", requestID: "", mentions: .nobody,
      body: Array("\"message_id\":\"\(id)\",\"message\":\"\(text)\"".utf8))
  }
}
