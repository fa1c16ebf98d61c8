import ChatModel
import SQLite

// A channel of which many users here are members is crowded. A message into it changes the channel's row and
// no membership: the position in each member's list and the counts of unread messages are computed when
// somebody asks (the view `unread_message`).
//
// A member of a crowded channel follows it if its last message is at or after the member's floor. The
// membership's `sort_at` is then `ChannelColumns.follows`. Other members have a position in their list as in
// other channels.

extension ChannelColumns {
  /// The value of `sort_at` of members who follow a crowded channel: below every position in a list.
  static let follows: Int64 = -4_000_000_000_000_000_000
}

/// How many crowded channels a user follows. It decides how a list in the order of messages finds them.
package enum FollowedChannels: Hashable, Sendable {
  /// None.
  case none
  /// So few that all are read and sorted.
  case few
  /// So many that the crowded channels are read in their order, and those that the user is not in are passed
  /// over.
  case many

  /// The most channels that are few.
  static let mostFew = 64
}

extension CacheReader {
  /// Whether messages into the channel change no membership.
  func isCrowded(_ channel: ChannelKey) throws -> Bool {
    try db.first("SELECT is_crowded FROM channel WHERE id = ?1") {
      $0.bind(1, channel.rawValue)
    } _: {
      $0.bool(0)
    } ?? false
  }

  /// The same by the channel's url.
  package func isCrowded(_ url: ChannelURL) throws -> Bool {
    try channelKey(of: url).map { try isCrowded($0) } ?? false
  }

  /// Whether the channel has more members here than `most`.
  package func hasMoreMembers(_ channel: ChannelKey, than most: Int) throws -> Bool {
    try db.first(
      "SELECT 1 FROM membership INDEXED BY membership_by_channel WHERE channel = ?1 LIMIT 1 OFFSET ?2"
    ) {
      $0.bind(1, channel.rawValue)
      $0.bind(2, most)
    } _: { _ in
      true
    } ?? false
  }

  /// The most memberships with a `sort_at` below zero that are walked to find a user's crowded channels.
  static let mostBelowZero = 1000

  /// Whether more than `most` of the user's memberships have a `sort_at` below zero and above `least`: those
  /// in crowded channels, and those in channels without a message. The user's crowded channels are then found
  /// among all crowded channels.
  func hasManyBelowZero(_ user: UserKey, _ most: Int, above least: Int64 = .min) throws -> Bool {
    try db.first(
      """
      SELECT 1
      FROM membership INDEXED BY membership_by_last_message
      WHERE user = ?1 AND sort_at < 0 AND sort_at > ?3
      LIMIT 1 OFFSET ?2
      """
    ) {
      $0.bind(1, user.rawValue)
      $0.bind(2, most)
      $0.bind(3, least)
    } _: { _ in
      true
    } ?? false
  }

  /// The position up to which new rows of a crowded channel's members count its messages; nil: the channel is
  /// not crowded.
  func foldedPosition(of channel: ChannelKey) throws -> Position? { try fold(of: channel)?.position }

  /// How many crowded channels the user follows.
  package func followedChannels(of user: UserKey) throws -> FollowedChannels {
    let found = try db.all(
      """
      SELECT 1
      FROM membership INDEXED BY membership_by_last_message
      WHERE user = ?1 AND sort_at = -4000000000000000000
      LIMIT ?2
      """
    ) {
      $0.bind(1, user.rawValue)
      $0.bind(2, FollowedChannels.mostFew + 1)
    } _: { _ in
      true
    }
    return switch found.count {
    case 0: .none
    case ...FollowedChannels.mostFew: .few
    default: .many
    }
  }
}

extension CacheWriter {
  /// Makes the channel crowded if it has more members here than a message may change. What its members see
  /// stays the same.
  func crowdIfNeeded(_ channel: ChannelKey) throws {
    guard try !reader.isCrowded(channel), try reader.hasMoreMembers(channel, than: mostChangedMembers) else {
      return
    }
    try db.run("UPDATE channel SET is_crowded = 1 WHERE id = ?1") { $0.bind(1, channel.rawValue) }
    // No event tells it, because nobody sees a difference. Counts that are kept in memory are counted anew.
    try db.count(.crowded)
    try db.run(
      """
      UPDATE membership AS m
      SET unread = max(0, unread - (
          SELECT count(*) FROM unread_message AS x WHERE x.user = m.user AND x.channel = m.channel
        )),
        mentions = max(0, mentions - (
          SELECT count(*)
          FROM unread_message AS x
          WHERE x.user = m.user AND x.channel = m.channel AND x.is_mention
        )),
        sort_at = iif(c.last_message_at >= m.floor_at, -4000000000000000000, m.sort_at)
      FROM channel AS c
      WHERE m.channel = ?1 AND c.id = ?1
      """
    ) { $0.bind(1, channel.rawValue) }
  }

  /// Lets members follow the crowded channel, or no longer follow it, whose floor is between its last message
  /// before and its last message now (B7, B23). `version`: the sequence of the event.
  func follow(_ channel: ChannelKey, from old: Int64?, to new: Int64?, version: Int64) throws {
    guard old != new else { return }
    try db.run(
      """
      UPDATE membership INDEXED BY membership_by_floor
      SET version = max(version, ?5),
        sort_at = iif(?4 >= floor_at, -4000000000000000000, created_at - ?6)
      WHERE channel = ?1 AND floor_at > ?2 AND floor_at <= ?3
      """
    ) {
      $0.bind(1, channel.rawValue)
      $0.bind(2, min(old ?? .min, new ?? .min))
      $0.bind(3, max(old ?? .min, new ?? .min))
      $0.bind(4, new)
      $0.bind(5, version)
      $0.bind(6, ChannelColumns.withoutMessage)
    }
  }

  /// Adds to the rows of a crowded channel's members what is computed for messages up to a position, so that
  /// these can be deleted. What the members see stays the same.
  func fold(_ channel: ChannelKey, upTo position: Position) throws {
    try fold(channel, upTo: position, users: Int64.min...Int64.max)
    try setFolded(position, of: channel, upTo: nil)
  }

  private func fold(_ channel: ChannelKey, upTo position: Position, users: ClosedRange<Int64>) throws {
    try db.run(
      """
      UPDATE membership AS m
      SET unread = min(?4, unread + (
          SELECT count(*)
          FROM unread_message AS x
          WHERE x.user = m.user
            AND x.channel = m.channel
            AND (x.created_at, x.message_id) <= (?2, ?3)
        )),
        mentions = min(?4, mentions + (
          SELECT count(*)
          FROM unread_message AS x
          WHERE x.user = m.user
            AND x.channel = m.channel
            AND (x.created_at, x.message_id) <= (?2, ?3)
            AND x.is_mention
        )),
        counted_at = ?2,
        counted_id = ?3
      WHERE channel = ?1 AND user >= ?5 AND user <= ?6 AND (counted_at, counted_id) < (?2, ?3)
      """
    ) {
      $0.bind(1, channel.rawValue)
      $0.bind(2, position.createdAt)
      $0.bind(3, position.messageID)
      $0.bind(4, Limits.counts.upperBound)
      $0.bind(5, users.lowerBound)
      $0.bind(6, users.upperBound)
    }
  }

  /// `user`: the last one whose row counts the messages up to there; nil: all rows do.
  private func setFolded(_ position: Position, of channel: ChannelKey, upTo user: Int64?) throws {
    try db.run("UPDATE channel SET folded_at = ?2, folded_id = ?3, folded_user = ?4 WHERE id = ?1") {
      $0.bind(1, channel.rawValue)
      $0.bind(2, position.createdAt)
      $0.bind(3, position.messageID)
      $0.bind(4, user)
    }
  }

  /// Counts the messages of a channel up to `last` in the rows of its members, before they are evicted, so
  /// that those that are fetched again are not counted again. In a crowded channel it counts for `most` more
  /// members, and newer messages too, so that few slices of a pass rewrite the members. False: members are
  /// left.
  func countEvicted(_ last: Position, in channel: ChannelKey, members most: Int) throws -> Bool {
    if var fold = try reader.fold(of: channel) {
      if fold.user == nil {
        guard fold.position < last else { return true }
        fold.position = try reader.position(2_000, after: last, in: channel) ?? last
        fold.user = .min
      }
      let next = try reader.members(of: channel, after: fold.user ?? .min, atMost: most)
      if let first = next.first, let end = next.last {
        try self.fold(channel, upTo: fold.position, users: first...end)
      }
      let isWhole = next.count < most
      try setFolded(fold.position, of: channel, upTo: isWhole ? nil : next.last)
      return isWhole && fold.position >= last
    }
    try db.run(
      """
      UPDATE membership
      SET counted_at = ?2, counted_id = ?3
      WHERE channel = ?1 AND (counted_at, counted_id) < (?2, ?3)
      """
    ) {
      $0.bind(1, channel.rawValue)
      $0.bind(2, last.createdAt)
      $0.bind(3, last.messageID)
    }
    return true
  }
}

extension CacheReader {
  /// Up to which position and which user the rows of a crowded channel's members count its messages; nil: the
  /// channel is not crowded.
  fileprivate func fold(of channel: ChannelKey) throws -> (position: Position, user: Int64?)? {
    try db.first("SELECT folded_at, folded_id, folded_user FROM channel WHERE id = ?1 AND is_crowded = 1") {
      $0.bind(1, channel.rawValue)
    } _: {
      (Position(createdAt: $0.int64(0), messageID: $0.int64(1)), $0.int64OrNil(2))
    }
  }

  fileprivate func members(of channel: ChannelKey, after user: Int64, atMost most: Int) throws -> [Int64] {
    try db.all(
      """
      SELECT user
      FROM membership INDEXED BY membership_by_channel
      WHERE channel = ?1 AND user > ?2
      ORDER BY user
      LIMIT ?3
      """
    ) {
      $0.bind(1, channel.rawValue)
      $0.bind(2, user)
      $0.bind(3, most)
    } _: {
      $0.int64(0)
    }
  }

  /// The position of the channel's `count`th stored message after a position; nil if there are fewer.
  fileprivate func position(
    _ count: Int, after position: Position, in channel: ChannelKey
  ) throws -> Position? {
    try db.first(
      """
      SELECT created_at, message_id
      FROM message
      WHERE channel = ?1 AND (created_at, message_id) > (?2, ?3)
      ORDER BY created_at, message_id
      LIMIT 1 OFFSET ?4
      """
    ) {
      $0.bind(1, channel.rawValue)
      $0.bind(2, position.createdAt)
      $0.bind(3, position.messageID)
      $0.bind(4, count - 1)
    } _: {
      Position(createdAt: $0.int64(0), messageID: $0.int64(1))
    }
  }
}
