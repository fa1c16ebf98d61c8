import ChatModel
import Platform

/// The keys of users by their ids, kept in memory until a user is removed. A key is never given to another
/// user, so no other change makes an entry wrong.
final class KnownUsers: Sendable {
  private struct Shelf {
    var revision: UInt64 = 0
    var keys: [UserID: UserKey] = [:]
  }

  /// A thread has one that it seldom shares, so nobody waits.
  private let shelves = (0..<16).map { _ in Guarded(Shelf()) }
  private static let most = 4096

  /// The user's, if it is known of the state of that number.
  func key(of user: UserID, at revision: UInt64) -> UserKey? {
    shelves[Thread.currentNumber % shelves.count].withLock { shelf in
      shelf.revision == revision ? shelf.keys[user] : nil
    }
  }

  /// Keeps what was read in the state of that number.
  func keep(_ key: UserKey, of user: UserID, at revision: UInt64) {
    shelves[Thread.currentNumber % shelves.count].withLock { shelf in
      if shelf.revision != revision || shelf.keys.count >= KnownUsers.most {
        shelf.keys.removeAll(keepingCapacity: true)
        shelf.revision = revision
      }
      shelf.keys[user] = key
    }
  }
}

extension Cache {
  /// The short name of a user who ever connected here.
  package func userKey(of user: UserID) throws -> UserKey? {
    let revision = log.users.settled
    if let revision, let known = knownUsers.key(of: user, at: revision) { return known }
    guard let key = try read({ try $0.userKey(of: user) }) else { return nil }
    if let revision, log.users.isStill(revision) { knownUsers.keep(key, of: user, at: revision) }
    return key
  }
}
