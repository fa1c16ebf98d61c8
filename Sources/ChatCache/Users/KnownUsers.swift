import ChatModel
import Platform

/// The keys of users by their ids, kept in memory until a user is removed. No other change invalidates them,
/// because a key is never given to another user.
struct KnownUsers: Findings {
  var keys: [UserID: UserKey] = [:]

  var count: Int { keys.count }

  mutating func removeAll() { keys.removeAll(keepingCapacity: true) }
}

extension Cache {
  /// The key of a user who ever connected.
  package func userKey(of user: UserID) throws -> UserKey? {
    let revision = log.users.settled
    if let known = log.knownKey(of: user, revision) { return known }
    guard let key = try read({ try $0.userKey(of: user) }) else { return nil }
    if let revision, log.users.isStill(revision) { log.knownUsers.keep(in: revision) { $0.keys[user] = key } }
    return key
  }
}

extension CacheReader {
  /// The key of a user who ever connected. It may be the key of a user who was added after this snapshot.
  package func userKey(of user: UserID) throws -> UserKey? {
    if let known = log.knownKey(of: user, log.users.settled) { return known }
    return try db.first("SELECT id FROM user WHERE user_id = ?1") {
      $0.bind(1, user.text)
    } _: {
      UserKey($0.int64(0))
    }
  }
}

extension CommitLog {
  /// The user's key, if `Cache.userKey` has looked for it since a user was removed.
  fileprivate func knownKey(of user: UserID, _ revision: UInt64?) -> UserKey? {
    revision.flatMap { knownUsers.find(in: $0, { $0.keys[user] }, { $0.keys[user] = $1 }) }
  }
}
