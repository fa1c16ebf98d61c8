import ChatModel
import SQLite

// The table `user`: the users who connected, and how far the channels of each are listed.

extension CacheReader {
  /// All users who ever connected and were not removed.
  package func knownUsers() throws -> [KnownUser] {
    try db.all(
      "SELECT user_id, is_synced, phase, refused_age FROM user WHERE is_removed = 0 ORDER BY id"
    ) { row in
      let phase = row.string(2)
      return KnownUser(
        id: UserID(row.string(0)), isSynced: row.bool(1), isStopped: phase == "stopped",
        isClosed: phase == "closed", refusedFor: row.int64OrNil(3).map { max(0, log.age.now - $0) })
    }
  }

  /// Whether all of the user's channels were listed once (B11).
  func isSynced(_ user: UserKey) throws -> Bool {
    try db.first("SELECT is_synced FROM user WHERE id = ?1") {
      $0.bind(1, user.rawValue)
    } _: {
      $0.bool(0)
    } ?? false
  }

  /// The token of the user's channel changelog.
  package func channelToken(of user: UserID) throws -> SyncToken? {
    try db.first("SELECT channel_token FROM user WHERE user_id = ?1") {
      $0.bind(1, user.text)
    } _: {
      $0.stringOrNil(0).map(SyncToken.init)
    } ?? nil
  }

  /// The user's channels that no page of the sweep with that number contained.
  package func unmet(by sweep: Int64, of user: UserID) throws -> [ChannelURL] {
    try db.all(
      """
      SELECT m.channel_url
      FROM membership AS m
      JOIN user AS u ON u.id = m.user
      WHERE u.user_id = ?1 AND m.sweep < ?2
      """
    ) {
      $0.bind(1, user.text)
      $0.bind(2, sweep)
    } _: {
      ChannelURL($0.string(0))
    }
  }

  /// The user's channels after that one, in the order of their keys, at most `limit`.
  package func channels(
    of user: UserID, after last: ChannelKey?, limit: Int
  ) throws -> [(key: ChannelKey, url: ChannelURL)] {
    try db.all(
      """
      SELECT m.channel, m.channel_url
      FROM user AS u
      CROSS JOIN membership AS m ON m.user = u.id
      WHERE u.user_id = ?1 AND m.channel > ?2
      ORDER BY m.channel
      LIMIT ?3
      """
    ) {
      $0.bind(1, user.text)
      $0.bind(2, last?.rawValue ?? .min)
      $0.bind(3, limit)
    } _: {
      (ChannelKey($0.int64(0)), ChannelURL($0.string(1)))
    }
  }

  /// The connected users who are members of the channel.
  package func connectedMembers(of url: ChannelURL) throws -> [UserID] {
    try connectedMembers(of: url, after: nil, limit: .max).map(\.user)
  }

  /// The connected members of the channel after that user, in the order of their keys, at most `limit`.
  package func connectedMembers(
    of url: ChannelURL, after last: UserKey?, limit: Int
  ) throws -> [(key: UserKey, user: UserID)] {
    guard try !isBeingCleared() else { return [] }
    return try db.all(
      """
      SELECT m.user, u.user_id
      FROM channel AS c
      JOIN membership AS m INDEXED BY membership_by_channel ON m.channel = c.id
      JOIN user AS u ON u.id = m.user
      WHERE c.channel_url = ?1 AND m.user > ?2 AND u.phase = 'connected'
      ORDER BY m.user
      LIMIT ?3
      """
    ) {
      $0.bind(1, url.text)
      $0.bind(2, last?.rawValue ?? .min)
      $0.bind(3, limit)
    } _: {
      (UserKey($0.int64(0)), UserID($0.string(1)))
    }
  }

  /// Whether the user is connected and in the channel.
  package func isConnectedMember(_ user: UserID, of url: ChannelURL) throws -> Bool {
    guard try !isBeingCleared() else { return false }
    return try db.first(
      """
      SELECT 1
      FROM user AS u
      CROSS JOIN channel AS c
      CROSS JOIN membership AS m ON m.user = u.id AND m.channel = c.id
      WHERE u.user_id = ?1 AND u.phase = 'connected' AND c.channel_url = ?2
      """
    ) {
      $0.bind(1, user.text)
      $0.bind(2, url.text)
    } _: { _ in
      true
    } ?? false
  }
}

extension CacheWriter {
  /// Inserts the user's row or reopens it, because the upstream knows the user.
  package func acknowledge(_ user: UserID) throws {
    let changed = try db.run(
      """
      INSERT INTO user (user_id, phase, seen_at)
      VALUES (?1, 'connected', ?2)
      ON CONFLICT (user_id) DO UPDATE
      SET phase = 'connected', refused_at = NULL, refused_age = NULL, closed_at = NULL, closed_age = NULL,
        seen_at = excluded.seen_at
      WHERE phase <> 'connected' OR refused_at IS NOT NULL
      """
    ) {
      $0.bind(1, user.text)
      $0.bind(2, now)
    }
    if changed > 0 { try tellConnection(of: user) }
  }

  /// Notes that the upstream said for the first time that the user is gone. The second time closes the user,
  /// even after a restart (B5).
  package func refuse(_ user: UserID) throws {
    try db.run(
      "UPDATE user SET refused_at = ?2, refused_age = ?3 WHERE user_id = ?1 AND refused_at IS NULL"
    ) {
      $0.bind(1, user.text)
      $0.bind(2, now)
      $0.bind(3, age)
    }
  }

  /// Removes one user who was closed more than `milliseconds` ago, if there is one, and all data of this user
  /// alone (B5).
  package func forgetClosed(after milliseconds: Int64) throws -> [UserID] {
    try noteAge()
    let users = try db.reading.all(
      "SELECT user_id FROM user WHERE phase = 'closed' AND closed_age < ?1 LIMIT 1"
    ) {
      $0.bind(1, age - milliseconds)
    } _: {
      UserID($0.string(0))
    }
    for user in users { try remove(user) }
    return users
  }

  /// Closes a user, after the upstream said twice that the user is gone. The user's requests are refused from
  /// now on; the user's data stays (B5).
  package func close(_ user: UserID) throws {
    let changed = try db.run(
      """
      UPDATE user
      SET phase = 'closed', closed_at = ?2, closed_age = ?3
      WHERE user_id = ?1 AND phase <> 'closed'
      """
    ) {
      $0.bind(1, user.text)
      $0.bind(2, now)
      $0.bind(3, age)
    }
    if changed > 0 { try tellConnection(of: user) }
  }

  /// Stops syncing for the user until the next connect (B4).
  package func stop(_ user: UserID) throws {
    let changed = try db.run(
      "UPDATE user SET phase = 'stopped' WHERE user_id = ?1 AND phase = 'connected'"
    ) {
      $0.bind(1, user.text)
    }
    if changed > 0 { try tellConnection(of: user) }
  }

  /// Removes all data of this user alone. If the user has pending or failed rows and `isForced` is false,
  /// removes nothing and returns their number (B4). Counting and removing are one commit.
  package func forget(_ user: UserID, isForced: Bool) throws -> Int64 {
    if !isForced, let key = try reader.userKey(of: user) {
      let unsent = try reader.unsent(of: key)
      guard unsent.pending + unsent.failed == 0 else { return unsent.pending + unsent.failed }
    }
    try remove(user)
    return 0
  }

  /// Removes all data of this user alone; data that other members see stays (B4).
  package func remove(_ user: UserID) throws {
    guard let key = try reader.userKey(of: user) else { return }
    noteRemovedUser()
    try deleteOrHide(key)
    noteLeaving()
    try append(Change(.connection, .channelRefresh, user: key))
  }

  /// Notes that all pages of the user's channels are stored (B11). Does nothing if everything was cleared
  /// since the listing began at sequence `mark`.
  package func endListing(of user: UserID, begunAt mark: Int64 = .max) throws {
    guard try !reader.wasEverythingCleared(since: mark), try reader.clearsEverything() == nil else { return }
    let changed = try db.run(
      """
      UPDATE user
      SET is_synced = 1, listed_to = coalesce(listed_to, 0)
      WHERE user_id = ?1 AND is_synced = 0
      """
    ) { $0.bind(1, user.text) }
    guard changed > 0, let key = try reader.userKey(of: user) else { return }
    try append(Change(.syncProgress, .channelRefresh, user: key))
  }

  /// Notes that all pages are stored, if the pages of the sweep with that number contained every stored
  /// channel of the user. False: they did not, and nothing is noted.
  package func endListing(of user: UserID, begunAt mark: Int64, ifMetBy sweep: Int64) throws -> Bool {
    guard try reader.unmet(by: sweep, of: user).isEmpty else { return false }
    try endListing(of: user, begunAt: mark)
    return true
  }

  func setChannelToken(_ token: SyncToken, of user: UserKey) throws {
    try db.run("UPDATE user SET channel_token = ?2 WHERE id = ?1") {
      $0.bind(1, user.rawValue)
      $0.bind(2, token.text)
    }
  }

  private func tellConnection(of user: UserID) throws {
    guard let key = try reader.userKey(of: user) else { return }
    try append(Change(.connection, .channelRefresh, user: key))
  }
}
