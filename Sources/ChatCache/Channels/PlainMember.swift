import ChatModel
import Platform

/// A user who joined a channel and sees there what every member with the same floor sees: the user's rights
/// are known, and nothing of the user is unsent or withheld there.
///
/// Thousands of polls ask for it after each change of their channel, and it seldom changes. So it is kept
/// until a row changes that decides it.
package struct PlainMember: Sendable {
  /// The user.
  package let user: UserKey
  /// The channel.
  package let channel: ChannelKey
  /// The user may not see messages before this moment (ms, B23).
  package let floorAt: Int64

  /// The log, the removals of users, and the changes of the user's rows before the rows were read.
  fileprivate let epoch: UInt64
  fileprivate let removals: UInt64
  fileprivate let changes: UInt64
}

extension Cache {
  /// The user as a plain member of the channel; nil: the user is none.
  package func plainMember(_ name: UserID, in url: ChannelURL) throws -> PlainMember? {
    let epoch = log.epoch.load(ordering: .acquiring)
    guard let removals = log.users.settled, let user = try userKey(of: name) else { return nil }
    let changes = log.memberRows.changes(of: user)
    guard let view = try view(of: url, for: name), view.user == user, view.isJoined, !view.isOfItsOwn else {
      return nil
    }
    return PlainMember(
      user: user, channel: view.channel, floorAt: view.floorAt, epoch: epoch, removals: removals,
      changes: changes)
  }

  /// Whether the user still is that plain member: no row changed that decides it.
  package func isStill(_ member: PlainMember) -> Bool {
    member.changes == log.memberRows.changes(of: member.user) && member.removals == log.users.settled
      && member.epoch == log.epoch.load(ordering: .acquiring)
      && log.rights.limit(of: member.user, opened: log.head) == nil
  }
}

/// Counts the changes of the rows that decide what a user sees in channels: memberships and unsent rows. (A
/// message is withheld only from a user who has unsent rows.) Users share counts, so that they take little
/// room. So a count may also rise because of another user.
///
/// A change is counted twice: when the row is written, and after the commit, before its events are published.
/// A value that was read in between, from the state before, is not kept longer than that.
final class MemberRows: Sendable {
  private let counts = Guarded([UInt64](repeating: 0, count: 4_096))

  /// The changes of the user's rows so far.
  func changes(of user: UserKey) -> UInt64 { counts.withLock { $0[MemberRows.index(of: user)] } }

  /// Counts a change.
  func changed(_ user: UserKey) { counts.withLock { $0[MemberRows.index(of: user)] += 1 } }

  private static func index(of user: UserKey) -> Int { Int(truncatingIfNeeded: user.rawValue) & 4_095 }
}
