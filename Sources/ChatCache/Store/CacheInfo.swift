import ChatModel
import SQLite

/// The size of the cache, in bytes and rows (B58).
package struct CacheInfo: Sendable, Equatable {
  /// The bytes of all pages in use.
  package var sizeBytes: Int64 = 0
  /// The number of channels.
  package var channels: Int64 = 0
  /// The number of messages.
  package var messages: Int64 = 0
  /// The number of unsent messages and changes.
  package var unsent: Int64 = 0
}

/// One cached channel, with the size of its messages (B56).
package struct CachedChannel: Sendable, Equatable {
  /// The channel.
  package let url: ChannelURL
  /// The channel's `custom_type`, which the application chose.
  package let customType: String
  /// The number of stored messages.
  package let messages: Int64
  /// The bytes of these messages.
  package let bytes: Int64
  /// When a client last opened a view of the channel, ended one, or read a page, ms.
  package let accessedAt: Int64
  /// The newest message's time, ms; nil: there is none that the user may see.
  package let lastMessageAt: Int64?
  /// When the channel was created, ms.
  package let createdAt: Int64
}

/// The orders of a list of cached channels (B56).
package enum CachedChannelOrder: String, Sendable, CaseIterable {
  case accessedAt = "accessed_at"
  case messages = "cached_message_count"
  case bytes = "cached_bytes"
  case lastMessageAt = "last_message_at"
  case createdAt = "channel_created_at"
  case customType = "custom_type"

  /// The newest message's time, if the user joined the channel and the message is not before the user's floor
  /// (B23).
  fileprivate static let shownLastMessageAt =
    "CASE WHEN m.state = 'joined' AND c.last_message_at >= m.floor_at THEN c.last_message_at END"

  /// The column that all channels are ordered by, and the index in that order.
  fileprivate var column: (name: String, index: String) {
    switch self {
    case .accessedAt: ("c.accessed_at", "channel_by_access")
    case .messages: ("c.cached_messages", "channel_by_messages")
    case .bytes: ("c.cached_bytes", "channel_by_bytes")
    case .lastMessageAt: ("c.last_message_at", "channel_by_last_message")
    case .createdAt: ("c.created_at", "channel_by_creation")
    case .customType: ("c.custom_type", "channel_by_custom_type")
    }
  }
}

extension CacheReader {
  /// The size of the cache. `user`: counts only the channels, messages and unsent rows of that user; nil:
  /// all.
  package func info(of user: UserKey?) throws -> CacheInfo {
    var info = CacheInfo()
    info.sizeBytes = try db.pageCount().usedBytes
    let counts = try cachedCount(of: user)
    info.channels = counts?.channels ?? 0
    info.messages = counts?.messages ?? 0
    if let user { info.messages += try crowdedMessages(of: user) }
    info.unsent = try allUnsent(of: user)
    return info
  }

  /// The number of messages in the user's crowded channels. `most`: see `hasManyBelowZero`.
  func crowdedMessages(of user: UserKey, most: Int = CacheReader.mostBelowZero) throws -> Int64 {
    let sql: StaticString =
      if try hasManyBelowZero(user, most) {
        """
        SELECT coalesce(sum(c.cached_messages), 0)
        FROM channel AS c INDEXED BY channel_crowded
        CROSS JOIN membership AS m ON m.user = ?1 AND m.channel = c.id
        WHERE c.is_crowded = 1
        """
      } else {
        """
        SELECT coalesce(sum(c.cached_messages), 0)
        FROM membership AS m INDEXED BY membership_by_last_message
        CROSS JOIN channel AS c ON c.id = m.channel AND c.is_crowded = 1
        WHERE m.user = ?1 AND m.sort_at < 0
        """
      }
    return try db.first(sql) {
      $0.bind(1, user.rawValue)
    } _: {
      $0.int64(0)
    } ?? 0
  }

  /// The numbers of channels and messages: those of all users; those of the user, without the messages of
  /// crowded channels.
  func cachedCount(of user: UserKey?) throws -> (channels: Int64, messages: Int64)? {
    try db.first("SELECT channels, messages FROM cached_count WHERE user = ?1") {
      $0.bind(1, user?.rawValue ?? 0)
    } _: {
      ($0.int64(0), $0.int64(1))
    }
  }

  private func allUnsent(of user: UserKey?) throws -> Int64 {
    guard let user else {
      return try db.first("SELECT sum(pending + failed + canceled) FROM unsent_count") { $0.int64(0) } ?? 0
    }
    return try db.first("SELECT pending + failed + canceled FROM unsent_count WHERE user = ?1") {
      $0.bind(1, user.rawValue)
    } _: {
      $0.int64(0)
    } ?? 0
  }

  /// The cached channels of that user, or of all users, in an order. Channels that are equal in that order
  /// are ordered by their urls, in the same direction.
  package func cachedChannels(
    of user: UserKey?, by order: CachedChannelOrder, isDescending: Bool, limit: Int
  ) throws -> [CachedChannel] {
    var rows = try db.rows(
      composed: cachedChannelsSQL(of: user, by: order, isDescending: isDescending, limit: limit)
    ) {
      if let user { $0.bind(1, user.rawValue) }
      $0.bind(2, limit)
    }
    var found: [CachedChannel] = []
    while let row = try rows.next() {
      found.append(
        CachedChannel(
          url: ChannelURL(row.string(0)), customType: row.string(1), messages: row.int64(2),
          bytes: row.int64(3), accessedAt: row.int64(4), lastMessageAt: row.int64OrNil(5),
          createdAt: row.int64(6)))
    }
    return found
  }

  /// The statement of `cachedChannels`.
  func cachedChannelsSQL(
    of user: UserKey?, by order: CachedChannelOrder, isDescending: Bool, limit: Int
  ) throws -> String {
    let walk = try walk(of: user, by: order, limit: limit)
    let direction = isDescending ? "DESC" : "ASC"
    return """
      SELECT
        c.channel_url, c.custom_type, c.cached_messages, c.cached_bytes, c.accessed_at,
        \(user == nil ? "c.last_message_at" : CachedChannelOrder.shownLastMessageAt), c.created_at
      \(walk.from)
      ORDER BY \(walk.key) \(direction), c.channel_url \(direction)
      LIMIT ?2
      """
  }

  /// Chooses the query. If the first `limit` channels of the user come early in the index of the order,
  /// the query walks that index. Otherwise it reads all channels of the user and sorts them.
  private func walk(
    of user: UserKey?, by order: CachedChannelOrder, limit: Int
  ) throws -> (from: String, key: String) {
    let (name, index) = order.column
    guard let user else { return ("FROM channel AS c INDEXED BY \(index)", name) }
    let (own, all) = (try cachedCount(of: user)?.channels ?? 0, try cachedCount(of: nil)?.channels ?? 0)
    // About every (all / own)th channel of the index is the user's: `limit` of them need limit * all / own
    // rows of the index.
    if order != .lastMessageAt, Int64(limit) * all < own * own {
      let from = """
        FROM channel AS c INDEXED BY \(index)
        CROSS JOIN membership AS m ON m.user = ?1 AND m.channel = c.id
        """
      return (from, name)
    }
    let key = order == .lastMessageAt ? "coalesce(\(CachedChannelOrder.shownLastMessageAt), 0)" : name
    return ("FROM membership AS m\nCROSS JOIN channel AS c ON c.id = m.channel\nWHERE m.user = ?1", key)
  }
}
