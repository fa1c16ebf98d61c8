import ChatModel
import JSON
import SQLite

/// The newest messages of a crowded channel, to count what is unread. After each message the lists of
/// thousands of members are looked at, and each member's poll brings counts to compare with. Each counts here
/// from its own position on, and the messages are read once for all: those of one snapshot of the database,
/// or those of the writer's transactions.
///
/// It counts the messages of the view `unread_message`.
final class CountedMessages {
  /// The most messages of a channel that are kept. Beyond them the view `unread_message` is counted.
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
  /// Whether messages came that are newer than all that were read.
  private var lacksNewest = false

  /// Notes that the message at that position was stored, changed or deleted. False: it may be among those
  /// that were read, and so they do not hold any more.
  func note(_ position: Position) -> Bool {
    if let newest = messages.first?.counted.position, position > newest {
      lacksNewest = true
      return true
    }
    return position.createdAt < from
  }

  /// Reads on, back to that time. False: the messages are too many.
  func reach(_ time: Int64, in channel: ChannelKey, _ db: ReadAccess) throws -> Bool {
    if lacksNewest, let newest = messages.first?.counted.position {
      let newer = try read(from: newest.next, before: .max, in: channel, db, limit: CountedMessages.most)
      messages = newer.count < CountedMessages.most ? newer + messages : newer
      lacksNewest = false
      keepNewest(from: from)
    }
    guard time < from, !isFull else { return time >= from }
    messages += try read(
      from: .first(at: time), before: from, in: channel, db, limit: CountedMessages.most - messages.count)
    keepNewest(from: time)
    return time >= from
  }

  /// Drops the oldest messages if there are too many. `time`: all messages since then were read.
  private func keepNewest(from time: Int64) {
    messages.removeLast(max(0, messages.count - CountedMessages.most))
    isFull = messages.count == CountedMessages.most
    // Of the oldest millisecond some messages may be missing.
    from = isFull ? (messages.last?.counted.position.createdAt ?? time) + 1 : time
  }

  private func read(
    from first: Position, before time: Int64, in channel: ChannelKey, _ db: ReadAccess, limit: Int
  ) throws -> [Message] {
    try db.all(
      """
      SELECT created_at, message_id, sender, flags, mentions
      FROM message
      WHERE channel = ?1 AND (created_at, message_id) >= (?2, ?3) AND created_at < ?4
      ORDER BY created_at DESC, message_id DESC
      LIMIT ?5
      """
    ) {
      $0.bind(1, channel.rawValue)
      $0.bind(2, first.createdAt)
      $0.bind(3, first.messageID)
      $0.bind(4, time)
      $0.bind(5, limit)
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

/// The messages of crowded channels as the writer's transactions have them. They are kept until one of them
/// changes, or a write fails; newer messages are read as they are needed.
final class CountedChannels: @unchecked Sendable {  // because the writer's thread alone uses it
  private static let most = 32

  private var channels: [ChannelKey: CountedMessages] = [:]

  /// The messages of a channel.
  func messages(of channel: ChannelKey) -> CountedMessages {
    if let known = channels[channel] { return known }
    if channels.count >= CountedChannels.most, let any = channels.keys.first { channels[any] = nil }
    let made = CountedMessages()
    channels[channel] = made
    return made
  }

  /// Notes that the message at that position was stored, changed or deleted.
  func note(_ position: Position, in channel: ChannelKey) {
    if let known = channels[channel], !known.note(position) { channels[channel] = nil }
  }

  /// Notes that messages of the channel were deleted.
  func forget(_ channel: ChannelKey) { channels[channel] = nil }

  /// Forgets the messages of all channels.
  func forgetAll() { channels = [:] }
}

extension CacheReader {
  /// The counts of a member of a crowded channel: those of the member's row, and the messages from `position`
  /// on, which the row does not count.
  func crowdedCount(
    of user: UserKey, named name: ExactText, in channel: ChannelKey, from position: Position,
    row: FollowedCounts.Count
  ) throws -> FollowedCounts.Count {
    guard let messages = counted?.messages(of: channel) ?? notes?.channel(channel)?.counted,
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
