import ChatModel
import SQLite

/// What the cache holds (B58).
package struct CacheInfo: Sendable, Equatable {
  /// Pages in use times their size.
  package var sizeBytes: Int64 = 0
  /// Channels.
  package var channels: Int64 = 0
  /// Messages.
  package var messages: Int64 = 0
  /// Unsent messages and changes.
  package var unsent: Int64 = 0
}

/// What the cache holds of one channel (B56).
package struct CachedChannel: Sendable, Equatable {
  /// The channel.
  package let url: ChannelURL
  /// The application's own kind.
  package let customType: String
  /// Messages stored.
  package let messages: Int64
  /// Their bytes.
  package let bytes: Int64
  /// When a view of it was last opened or disposed of, ms.
  package let accessedAt: Int64
  /// The newest message's time, nil without one that the user may know of.
  package let lastMessageAt: Int64?
  /// When it was made, ms.
  package let createdAt: Int64
}

/// What cached channels are listed by (B56).
package enum CachedChannelOrder: String, Sendable, CaseIterable {
  case accessedAt = "accessed_at"
  case messages = "cached_message_count"
  case bytes = "cached_bytes"
  case lastMessageAt = "last_message_at"
  case createdAt = "channel_created_at"
  case customType = "custom_type"

  /// The newest message's time where it is the user's to know: of a channel joined, at or after the floor
  /// (B23).
  fileprivate static let shownLastMessageAt = """
    CASE
      WHEN ?1 IS NULL OR m.state = 'joined' AND c.last_message_at >= m.floor_at THEN c.last_message_at
    END
    """

  fileprivate var column: String {
    switch self {
    case .accessedAt: "c.accessed_at"
    case .messages: "c.cached_messages"
    case .bytes: "c.cached_bytes"
    case .lastMessageAt: "coalesce(\(CachedChannelOrder.shownLastMessageAt), 0)"
    case .createdAt: "c.created_at"
    case .customType: "c.custom_type"
    }
  }
}

extension CacheReader {
  /// What the cache holds; counts of that user's own, or of all.
  package func info(of user: UserKey?) throws -> CacheInfo {
    var info = CacheInfo()
    let pages = try db.first("PRAGMA page_count") { $0.int64(0) } ?? 0
    let free = try db.first("PRAGMA freelist_count") { $0.int64(0) } ?? 0
    info.sizeBytes = (pages - free) * (try db.first("PRAGMA page_size") { $0.int64(0) } ?? 0)
    let counts = try db.first(
      """
      SELECT count(*), sum(cached_messages)
      FROM channel AS c
      WHERE ?1 IS NULL
        OR EXISTS (SELECT 1 FROM membership AS m WHERE m.user = ?1 AND m.channel = c.id)
      """
    ) {
      $0.bind(1, user?.rawValue)
    } _: {
      ($0.int64(0), $0.int64(1))
    }
    info.channels = counts?.0 ?? 0
    info.messages = counts?.1 ?? 0
    info.unsent =
      try db.first("SELECT count(*) FROM outbox WHERE ?1 IS NULL OR user = ?1") {
        $0.bind(1, user?.rawValue)
      } _: {
        $0.int64(0)
      } ?? 0
    return info
  }

  /// The cached channels of that user, or of all, in an order.
  package func cachedChannels(
    of user: UserKey?, by order: CachedChannelOrder, isDescending: Bool, limit: Int
  ) throws -> [CachedChannel] {
    var rows = try db.rows(
      composed: """
        SELECT
          c.channel_url, c.custom_type, c.cached_messages, c.cached_bytes, c.accessed_at,
          \(CachedChannelOrder.shownLastMessageAt), c.created_at
        FROM channel AS c
        LEFT JOIN membership AS m ON m.user = ?1 AND m.channel = c.id
        WHERE ?1 IS NULL OR m.user IS NOT NULL
        ORDER BY \(order.column) \(isDescending ? "DESC" : "ASC"), c.channel_url
        LIMIT ?2
        """
    ) {
      $0.bind(1, user?.rawValue)
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
}
