import ChatModel
import SQLite

/// A user's totals over all channels (B68).
package struct UnreadTotals: Sendable, Equatable {
  /// Unread messages.
  package var messages: Int64 = 0
  /// Unread mentions.
  package var mentions: Int64 = 0
  /// Channels with something unread.
  package var channels: Int64 = 0

  /// Nothing is unread.
  package init() {}

  init(messages: Int64, mentions: Int64, channels: Int64) {
    self.messages = messages
    self.mentions = mentions
    self.channels = channels
  }

  static func + (one: UnreadTotals, other: UnreadTotals) -> UnreadTotals {
    UnreadTotals(
      messages: one.messages + other.messages, mentions: one.mentions + other.mentions,
      channels: one.channels + other.channels)
  }
}

/// A user as operators see the user.
package struct UserOverview: Sendable, Equatable {
  /// The user's id.
  package let id: UserID
  /// Whether the user is synced, stopped or closed.
  package let phase: CachedUser.Phase
  /// Whether all of the user's channels were listed at least once.
  package let isSynced: Bool
  /// Channels of the user.
  package let channels: Int64
  /// The numbers of pending and failed unsent rows.
  package let unsent: (pending: Int64, failed: Int64)
  /// When the oldest unsent row was accepted, ms.
  package let oldestUnsentAt: Int64?

  /// Whether both have the same values.
  package static func == (one: UserOverview, other: UserOverview) -> Bool {
    one.id == other.id && one.phase == other.phase && one.isSynced == other.isSynced
      && one.channels == other.channels && one.unsent == other.unsent
      && one.oldestUnsentAt == other.oldestUnsentAt
  }
}

extension CacheReader {
  /// The user's unread totals, all of them counted. `Cache.unread(of:)` gives the same.
  package func unread(of user: UserKey) throws -> UnreadTotals {
    guard try !isBeingCleared() else { return UnreadTotals() }
    return try unreadByRow(of: user) + followedCounts(of: user, at: 0).totals
  }

  /// The totals of all channels but the crowded ones that the user follows. `most`: see `hasManyBelowZero`.
  func unreadByRow(of user: UserKey, most: Int = CacheReader.mostBelowZero) throws -> UnreadTotals {
    var all = try unreadInRows(of: user)
    let nearest = Limits.counts.nearest
    for channel in try unreadWithoutFollowing(user, most: most) {
      all.messages += channel.unread - nearest(channel.rowUnread)
      all.mentions += channel.mentions - nearest(channel.rowMentions)
      if channel.rowUnread <= 0, channel.rowMentions <= 0, channel.unread > 0 { all.channels += 1 }
    }
    return all
  }

  /// A member's counts in a crowded channel: those of the row, and with later messages.
  private struct CrowdedCount { let rowUnread, rowMentions, unread, mentions: Int64 }

  /// The counts of the user's crowded channels whose last message is below the user's floor.
  private func unreadWithoutFollowing(_ user: UserKey, most: Int) throws -> [CrowdedCount] {
    let sql: StaticString =
      if try hasManyBelowZero(user, most, above: ChannelColumns.follows) {
        """
        SELECT m.unread, m.mentions, n.unread, n.mentions
        FROM channel AS c INDEXED BY channel_crowded
        CROSS JOIN membership AS m ON m.user = ?1 AND m.channel = c.id
        CROSS JOIN crowded_count AS n ON n.user = m.user AND n.channel = m.channel
        WHERE c.is_crowded = 1 AND m.sort_at < 0 AND m.sort_at > -4000000000000000000
        """
      } else {
        """
        SELECT m.unread, m.mentions, n.unread, n.mentions
        FROM membership AS m INDEXED BY membership_by_last_message
        CROSS JOIN channel AS c ON c.id = m.channel AND c.is_crowded = 1
        CROSS JOIN crowded_count AS n ON n.user = m.user AND n.channel = m.channel
        WHERE m.user = ?1 AND m.sort_at < 0 AND m.sort_at > -4000000000000000000
        """
      }
    return try db.all(sql) {
      $0.bind(1, user.rawValue)
    } _: {
      CrowdedCount(
        rowUnread: $0.int64(0), rowMentions: $0.int64(1), unread: $0.int64(2), mentions: $0.int64(3))
    }
  }

  private func unreadInRows(of user: UserKey) throws -> UnreadTotals {
    try db.first(
      """
      SELECT sum(min(unread, ?2)), sum(min(mentions, ?2)), count(*)
      FROM membership INDEXED BY membership_unread
      WHERE user = ?1 AND (unread > 0 OR mentions > 0) AND sort_at <> -4000000000000000000
      """
    ) {
      $0.bind(1, user.rawValue)
      $0.bind(2, Limits.counts.upperBound)
    } _: {
      UnreadTotals(messages: $0.int64(0), mentions: $0.int64(1), channels: $0.int64(2))
    } ?? UnreadTotals()
  }

  /// The users who ever connected, with ids after `after`, in order.
  package func users(after: String, limit: Int) throws -> [UserOverview] {
    try db.all(
      """
      SELECT
        u.user_id, u.phase, u.is_synced,
        coalesce(c.channels, 0), coalesce(n.pending, 0), coalesce(n.failed, 0),
        (SELECT min(accepted_at) FROM outbox AS o WHERE o.user = u.id)
      FROM user AS u
      LEFT JOIN cached_count AS c ON c.user = u.id
      LEFT JOIN unsent_count AS n ON n.user = u.id
      WHERE u.user_id > ?1 AND u.is_removed = 0
      ORDER BY u.user_id
      LIMIT ?2
      """
    ) {
      $0.bind(1, after)
      $0.bind(2, limit)
    } _: { row in
      UserOverview(
        id: UserID(row.string(0)), phase: CachedUser.Phase(rawValue: row.string(1)) ?? .connected,
        isSynced: row.bool(2), channels: row.int64(3), unsent: (row.int64(4), row.int64(5)),
        oldestUnsentAt: row.int64OrNil(6))
    }
  }
}
