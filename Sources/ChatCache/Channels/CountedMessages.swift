import ChatModel
import JSON
import SQLite

/// The newest messages of a crowded channel, as one snapshot of the database has them, to count what is
/// unread. After each message the lists of thousands of members are looked at. Each counts here from its own
/// position on, and the messages are read once for all that share the snapshot.
///
/// It counts the messages of the view `unread_message`.
final class CountedMessages {
  /// The most messages of a channel that a snapshot keeps. Beyond them the view `unread_message` is counted.
  private static let most = 1000

  private struct Message {
    let counted: CountedMessage
    let mentions: Mentions
  }

  private enum Mentions {
    case nobody, everybody
    case users([ExactText])
  }

  /// The newest first.
  private var messages: [Message] = []
  /// All messages of this time or later were read.
  private var from = Int64.max
  private var isFull = false

  /// Reads on, back to that time. False: the messages are too many.
  func reach(_ time: Int64, in channel: ChannelKey, _ db: ReadAccess) throws -> Bool {
    guard time < from, !isFull else { return time >= from }
    let found = try read(from: time, in: channel, db)
    messages += found
    isFull = messages.count >= CountedMessages.most
    // Of the oldest millisecond some messages may be missing.
    from = isFull ? (messages.last?.counted.position.createdAt ?? time) + 1 : time
    return time >= from
  }

  private func read(from time: Int64, in channel: ChannelKey, _ db: ReadAccess) throws -> [Message] {
    try db.all(
      """
      SELECT created_at, message_id, sender, flags, mentions
      FROM message
      WHERE channel = ?1 AND created_at >= ?2 AND created_at < ?3
      ORDER BY created_at DESC, message_id DESC
      LIMIT ?4
      """
    ) {
      $0.bind(1, channel.rawValue)
      $0.bind(2, time)
      $0.bind(3, from)
      $0.bind(4, CountedMessages.most - messages.count)
    } _: { row in
      let counted = CountedMessage(
        position: Position(createdAt: row.int64(0), messageID: row.int64(1)), sender: row.string(2),
        flags: MessageFlags(rawValue: row.int64(3)), mentions: row.stringOrNil(4))
      return Message(counted: counted, mentions: try CountedMessages.mentions(counted.mentions))
    }
  }

  /// The users whom a message mentions, read from its column `mentions`.
  private static func mentions(_ stored: ExactText?) throws -> Mentions {
    guard var text = stored?.text else { return .nobody }
    guard text != "*" else { return .everybody }
    return try text.withUTF8 { bytes in
      try JSONParser.parse(UnsafeRawBufferPointer(bytes)) { json in
        .users(json.items.compactMap { $0.string.map { ExactText($0) } })
      }
    }
  }

  /// The messages at or after that position, and the mentions among them, that the user did not send.
  func count(from position: Position, for user: ExactText) -> FollowedCounts.Count {
    var (unread, mentions): (Int64, Int64) = (0, 0)
    for message in messages {
      guard message.counted.position >= position else { break }
      guard message.counted.counts, message.counted.sender != user else { continue }
      unread += 1
      switch message.mentions {
      case .nobody: break
      case .everybody: mentions += 1
      case .users(let users): if users.contains(user) { mentions += 1 }
      }
    }
    return FollowedCounts.Count(unread: unread, mentions: mentions)
  }
}

extension CacheReader {
  /// The counts of a member of a crowded channel: those of the member's row, and the messages from `position`
  /// on, which the row does not count.
  func crowdedCount(
    of user: UserKey, named name: ExactText, in channel: ChannelKey, from position: Position,
    row: FollowedCounts.Count
  ) throws -> FollowedCounts.Count {
    guard let messages = notes?.channel(channel)?.counted,
      try messages.reach(position.createdAt, in: channel, db)
    else { return try crowdedCount(of: user, in: channel, row: row) }
    return row.adding(messages.count(from: position, for: name))
  }

  /// The same, counted in the database: the messages are read once for both counts.
  func crowdedCount(
    of user: UserKey, in channel: ChannelKey, row: FollowedCounts.Count
  ) throws -> FollowedCounts.Count {
    let later = try db.first(
      """
      SELECT count(*), coalesce(sum(is_mention), 0)
      FROM unread_message
      WHERE user = ?1 AND channel = ?2
      """
    ) {
      $0.bind(1, user.rawValue)
      $0.bind(2, channel.rawValue)
    } _: {
      FollowedCounts.Count(unread: $0.int64(0), mentions: $0.int64(1))
    }
    return row.adding(later ?? FollowedCounts.Count(unread: 0, mentions: 0))
  }
}

extension FollowedCounts.Count {
  /// A row's counts and those of later messages together, which are counts again.
  fileprivate func adding(_ later: FollowedCounts.Count) -> FollowedCounts.Count {
    let nearest = Limits.counts.nearest
    return FollowedCounts.Count(
      unread: nearest(nearest(unread) + later.unread), mentions: nearest(nearest(mentions) + later.mentions))
  }
}
