import ChatModel
import SQLite

/// A user who connected here.
package struct CachedUser: Sendable, Equatable {
  /// Whether this user is synced (B2, B4, B5).
  package enum Phase: String, Sendable { case connected, stopped, closed }

  /// The cache's key of the user.
  package let key: UserKey
  /// The user's id.
  package let id: UserID
  /// Whether the user is synced.
  package let phase: Phase
  /// Whether all of the user's channels were listed once (B11).
  package let isSynced: Bool
  /// The sequence of the last event that concerns this user alone.
  package let version: Int64
  /// The user is shown no message of a higher version; nil: all messages are shown (`KnownRights`).
  package let heldAt: Int64?
}

/// One channel as one user sees it, with the values that decide rights, floor and ETags. A user who is not in
/// the channel has none (B1).
package struct ChannelView: Sendable, Equatable {
  /// The user.
  package let user: UserKey
  /// The channel.
  package let channel: ChannelKey
  /// The channel's url.
  package let url: ChannelURL
  /// Whether the user joined; an invited user sees the channel, not its messages.
  package let isJoined: Bool
  /// Whether the user may moderate.
  package let isOperator: Bool
  /// Whether the user may not send.
  package let isMuted: Bool
  /// Whether only operators may send.
  package let isFrozen: Bool
  /// The user may not see messages before this moment (ms, B23).
  package let floorAt: Int64
  /// Messages that were created later are new to the user (ms); nil: those that are new in the channel.
  package let newAfter: Int64?
  /// The sequence of the event by which the user joined the channel; 0: an older program stored that.
  package let gainedVersion: Int64
  /// The sequence of the last event in the channel.
  package let channelVersion: Int64
  /// The sequence of the last event that changed the membership or the channel's position in the list.
  package let membershipVersion: Int64

  /// Whether the user has outbox rows or withheld messages here: then answers to this user differ (B38, B46).
  package let hasUnsent: Bool

  /// The user is shown no message of a higher version, because the user's changes are not known since; nil:
  /// all messages are shown (`KnownRights`).
  package var heldAt: Int64?

  /// The highest sequence of the event log that concerns the user here.
  package var version: Int64 { max(channelVersion, membershipVersion) }
  /// The sequence of the cursor for a client that was shown the channel. It is before all that was left out.
  package var toldVersion: Int64 { heldAt.map { min(version, $0) } ?? version }
  /// Whether a message at that position is new to the user when the cache stores it for the first time.
  package func isNew(_ position: Position) -> Bool { newAfter.map { position.createdAt > $0 } ?? true }
  /// Whether answers to this user differ from those to other members.
  package var isOfItsOwn: Bool { hasUnsent || heldAt != nil }
}

extension CacheReader {
  /// The user; nil if the cache has no such user.
  package func cachedUser(_ user: UserID) throws -> CachedUser? {
    try db.first("SELECT id, phase, is_synced, version FROM user WHERE user_id = ?1") {
      $0.bind(1, user.text)
    } _: { row in
      let key = UserKey(row.int64(0))
      return CachedUser(
        key: key, id: user, phase: CachedUser.Phase(rawValue: row.string(1)) ?? .connected,
        isSynced: row.bool(2), version: row.int64(3), heldAt: rightsLimit(of: key))
    }
  }

  /// Whether the user joined the channel; nil where the user is not in it, or it does not exist (B1).
  package func isJoined(_ user: UserKey, in url: ChannelURL) throws -> Bool? {
    guard try !isBeingCleared() else { return nil }
    return try db.first(
      """
      SELECT m.state = 'joined'
      FROM channel AS c
      JOIN membership AS m ON m.user = ?2 AND m.channel = c.id
      WHERE c.channel_url = ?1
      """
    ) {
      $0.bind(1, url.text)
      $0.bind(2, user.rawValue)
    } _: {
      $0.bool(0)
    }
  }

  /// The channel as that user sees it; nil where the user is not in it, or it does not exist (B1).
  package func view(of url: ChannelURL, for user: UserKey) throws -> ChannelView? {
    guard var view = try storedView(of: url, for: user) else { return nil }
    view.heldAt = rightsLimit(of: user).flatMap { view.channelVersion > $0 ? $0 : nil }
    return view
  }

  private func storedView(of url: ChannelURL, for user: UserKey) throws -> ChannelView? {
    guard try !isBeingCleared() else { return nil }
    return try db.first(
      """
      SELECT
        c.id, m.state, m.role, m.is_muted, c.is_frozen, m.floor_at, c.version, m.version,
        EXISTS (
          SELECT 1
          FROM outbox INDEXED BY outbox_heads
          WHERE user = ?2
            AND channel_url = ?1
            AND kind NOT IN ('reaction', 'read')
            AND state NOT IN ('failed', 'canceled')
        )
          OR EXISTS (
            SELECT 1
            FROM outbox INDEXED BY outbox_ended
            WHERE user = ?2 AND channel_url = ?1 AND state IN ('failed', 'canceled')
          )
          OR EXISTS (
            SELECT 1
            FROM outbox INDEXED BY outbox_aside
            WHERE user = ?2 AND channel_url = ?1 AND kind IN ('reaction', 'read')
          )
          OR EXISTS (SELECT 1 FROM withheld WHERE user = ?2 AND channel = c.id),
        m.new_after, m.gained_version
      FROM channel AS c
      JOIN membership AS m ON m.user = ?2 AND m.channel = c.id
      WHERE c.channel_url = ?1
      """
    ) {
      $0.bind(1, url.text)
      $0.bind(2, user.rawValue)
    } _: { row in
      ChannelView(
        user: user, channel: ChannelKey(row.int64(0)), url: url,
        isJoined: row.bytes(1).first == UInt8(ascii: "j"),
        isOperator: row.bytes(2).first == UInt8(ascii: "o"),
        isMuted: row.bool(3), isFrozen: row.bool(4), floorAt: row.int64(5),
        newAfter: row.int64OrNil(9), gainedVersion: row.int64(10), channelVersion: row.int64(6),
        membershipVersion: row.int64(7), hasUnsent: row.bool(8))
    }
  }
}
