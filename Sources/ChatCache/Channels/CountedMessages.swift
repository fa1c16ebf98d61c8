import ChatModel
import JSON
import SQLite

/// The newest messages of a crowded channel, as one snapshot of the database has them, to count what is
/// unread. After each message the lists of thousands of members are looked at. Each counts here from its own
/// position on, and the messages are read once for all.
///
/// It counts the messages of the view `unread_message`.
struct CountedMessages {
  /// The most messages that are read. For members with more unread ones the view `crowded_count` counts.
  private static let most = 1000

  /// The newest first.
  private var messages: [CountedMessage] = []
  /// All messages of this time or later were read.
  private var from = Int64.max
  private var isFull = false

  /// Reads on, back to that time. False: the messages are too many.
  mutating func reach(_ time: Int64, in channel: ChannelKey, _ db: ReadAccess) throws -> Bool {
    guard time < from, !isFull else { return time >= from }
    var rows = try db.rows(
      """
      SELECT created_at, message_id, sender, flags, mentions
      FROM message
      WHERE channel = ?1 AND created_at >= ?2 AND created_at < ?3
      ORDER BY created_at DESC, message_id DESC
      """
    ) {
      $0.bind(1, channel.rawValue)
      $0.bind(2, time)
      $0.bind(3, from)
    }
    while let row = try rows.next() {
      guard messages.count < CountedMessages.most else {
        isFull = true
        return false
      }
      messages.append(
        CountedMessage(
          position: Position(createdAt: row.int64(0), messageID: row.int64(1)), sender: row.string(2),
          flags: MessageFlags(rawValue: row.int64(3)), mentions: row.stringOrNil(4)))
    }
    from = time
    return true
  }

  /// The messages at or after that position, and the mentions among them, that the user did not send.
  func count(from position: Position, for user: ExactText) -> FollowedCounts.Count {
    var (unread, mentions): (Int64, Int64) = (0, 0)
    for message in messages {
      guard message.position >= position else { break }
      guard message.counts, message.sender != user else { continue }
      unread += 1
      if message.isMention(of: user) { mentions += 1 }
    }
    return FollowedCounts.Count(unread: unread, mentions: mentions)
  }
}

extension CountedMessage {
  /// Whether the message mentions the user.
  fileprivate func isMention(of user: ExactText) -> Bool {
    guard let mentions else { return false }
    guard mentions != "*" else { return true }
    var text = mentions.text
    return text.withUTF8 { bytes in
      // `try?`: the column has what Perch wrote; a text that is no JSON mentions nobody.
      (try? JSONParser.parse(UnsafeRawBufferPointer(bytes)) { json in
        json.items.contains { $0.string.map { ExactText($0) == user } ?? false }
      }) ?? false
    }
  }
}

extension CacheReader {
  /// The counts of a member of a crowded channel, whose row counts the messages before `position`.
  func crowdedCount(
    of user: UserKey, named name: ExactText, in channel: ChannelKey, from position: Position,
    row: FollowedCounts.Count
  ) throws -> FollowedCounts.Count? {
    guard let notes,
      try notes.counted[channel, default: CountedMessages()].reach(position.createdAt, in: channel, db),
      let later = notes.counted[channel]?.count(from: position, for: name)
    else { return try crowdedCount(of: user, in: channel) }
    let nearest = Limits.counts.nearest
    return FollowedCounts.Count(
      unread: nearest(nearest(row.unread) + later.unread),
      mentions: nearest(nearest(row.mentions) + later.mentions))
  }

  private func crowdedCount(of user: UserKey, in channel: ChannelKey) throws -> FollowedCounts.Count? {
    try db.first("SELECT unread, mentions FROM crowded_count WHERE user = ?1 AND channel = ?2") {
      $0.bind(1, user.rawValue)
      $0.bind(2, channel.rawValue)
    } _: {
      FollowedCounts.Count(unread: $0.int64(0), mentions: $0.int64(1))
    }
  }
}
