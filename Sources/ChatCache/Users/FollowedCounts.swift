import ChatModel
import Platform
import SQLite

/// A user's unread messages and mentions in crowded channels (those with many members here), as one
/// read transaction counted them.
///
/// A user may be in a thousand such channels, and each count reads messages. So the cache keeps the counts in
/// memory. The next question counts only the channels again in which the event log tells a later change.
struct FollowedCounts: Sendable {
  /// The last event of the log that the transaction saw.
  private(set) var sequence: Int64
  /// How many channels had become crowded when they were counted.
  let crowded: Int64
  /// The channels with something unread.
  private(set) var counts: [ChannelKey: Count] = [:]
  private(set) var totals = UnreadTotals()

  struct Count: Sendable, Equatable { let unread, mentions: Int64 }

  fileprivate init(at sequence: Int64, crowded: Int64) { (self.sequence, self.crowded) = (sequence, crowded) }

  fileprivate mutating func set(_ count: Count?, in channel: ChannelKey) {
    if let old = counts.removeValue(forKey: channel) { add(old, -1) }
    guard let count, count.unread > 0 || count.mentions > 0 else { return }
    counts[channel] = count
    add(count, 1)
  }

  private mutating func add(_ count: Count, _ sign: Int64) {
    totals.messages += sign * count.unread
    totals.mentions += sign * count.mentions
    totals.channels += sign
  }

  fileprivate mutating func reaches(_ sequence: Int64) { self.sequence = sequence }
}

/// The followed counts of the users who asked last.
final class FollowedCountsMemory: Sendable {
  /// The most channels of all users together.
  private static let channels = 100_000
  /// The most users.
  private static let users = 20_000

  private struct State {
    var users: [UserKey: FollowedCounts] = [:]
    var channels = 0
  }

  private let state = Guarded(State())

  func find(_ user: UserKey) -> FollowedCounts? { state.withLock { $0.users[user] } }

  /// Keeps the counts, unless later ones are kept already.
  func keep(_ counts: FollowedCounts, of user: UserKey) {
    state.withLock { state in
      let old = state.users[user]
      guard old.map({ $0.sequence <= counts.sequence }) ?? true else { return }
      state.channels += counts.counts.count - (old?.counts.count ?? 0)
      if state.channels > FollowedCountsMemory.channels || state.users.count >= FollowedCountsMemory.users {
        state = State(channels: counts.counts.count)
      }
      state.users[user] = counts
    }
  }
}

extension Cache {
  /// The user's unread totals (B68).
  package func unread(of user: UserID) throws -> UnreadTotals {
    try read { reader in
      guard let key = try reader.userKey(of: user), try !reader.isBeingCleared() else {
        return UnreadTotals()
      }
      let followed = try reader.followedCounts(of: key, since: followedCounts.find(key))
      followedCounts.keep(followed, of: key)
      return try reader.unreadByRow(of: key) + followed.totals
    }
  }
}

extension CacheReader {
  /// The most events after which the counts are brought up to date rather than computed anew: so many at
  /// least, and for each channel with something unread as many as are read while its messages are counted.
  private static let mostEvents: (atLeast: Int64, perChannel: Int64) = (500, 5)

  /// The user's counts in crowded channels. `known`: what an earlier transaction counted for the user; only
  /// the channels that changed since are counted again.
  func followedCounts(of user: UserKey, since known: FollowedCounts?) throws -> FollowedCounts {
    let last = try lastChange()
    if var known, try known.crowded == crowdedSoFar(),
      let changed = try changedChannels(of: user, since: known, last)
    {
      for channel in changed { known.set(try followedCount(of: user, in: channel), in: channel) }
      known.reaches(last)
      return known
    }
    return try followedCounts(of: user, at: last)
  }

  /// The channels in which something changed for the user after they were counted; nil: that is not known, or
  /// too much changed.
  private func changedChannels(
    of user: UserKey, since known: FollowedCounts, _ last: Int64
  ) throws -> Set<ChannelKey>? {
    let sequence = known.sequence
    let most = CacheReader.mostEvents
    let mostEvents = max(most.atLeast, Int64(known.counts.count) * most.perChannel)
    guard sequence <= last, last - sequence <= mostEvents else { return nil }
    guard try oldestKept() <= sequence + 1 else { return nil }
    var changed: Set<ChannelKey> = []
    var rows = try db.rows("SELECT channel, user FROM event WHERE seq > ?1 AND collection IS NULL") {
      $0.bind(1, sequence)
    }
    while let row = try rows.next() {
      let isMine = row.int64OrNil(1).map { $0 == user.rawValue } ?? true
      guard isMine else { continue }
      guard let channel = row.int64OrNil(0) else { return nil }
      changed.insert(ChannelKey(channel))
    }
    return changed
  }

  /// All of the user's counts, each counted anew. `sequence`: the last event that this transaction sees.
  func followedCounts(of user: UserKey, at sequence: Int64) throws -> FollowedCounts {
    var all = FollowedCounts(at: sequence, crowded: try crowdedSoFar())
    for (channel, count) in try countsOfFollowed(by: user) { all.set(count, in: channel) }
    return all
  }

  /// How many channels of this file have become crowded.
  private func crowdedSoFar() throws -> Int64 { try db.meta(.crowded) ?? 0 }

  private func countsOfFollowed(by user: UserKey) throws -> [(ChannelKey, FollowedCounts.Count)] {
    try db.all(
      """
      SELECT n.channel, n.unread, n.mentions
      FROM membership AS m INDEXED BY membership_by_last_message
      CROSS JOIN crowded_count AS n ON n.user = m.user AND n.channel = m.channel
      WHERE m.user = ?1 AND m.sort_at = -4000000000000000000
      """
    ) {
      $0.bind(1, user.rawValue)
    } _: {
      (ChannelKey($0.int64(0)), FollowedCounts.Count(unread: $0.int64(1), mentions: $0.int64(2)))
    }
  }

  /// Nil: the user does not follow the channel, or it is not crowded.
  private func followedCount(of user: UserKey, in channel: ChannelKey) throws -> FollowedCounts.Count? {
    try db.first(
      """
      SELECT n.unread, n.mentions
      FROM membership AS m
      CROSS JOIN crowded_count AS n ON n.user = m.user AND n.channel = m.channel
      WHERE m.user = ?1 AND m.channel = ?2 AND m.sort_at = -4000000000000000000
      """
    ) {
      $0.bind(1, user.rawValue)
      $0.bind(2, channel.rawValue)
    } _: {
      FollowedCounts.Count(unread: $0.int64(0), mentions: $0.int64(1))
    }
  }
}
