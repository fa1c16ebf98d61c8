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
    if let revision,
      let known = knownUsers.find(in: revision, { $0.keys[user] }, { $0.keys[user] = $1 })
    {
      return known
    }
    guard let key = try read({ try $0.userKey(of: user) }) else { return nil }
    if let revision, log.users.isStill(revision) { knownUsers.keep(in: revision) { $0.keys[user] = key } }
    return key
  }
}
