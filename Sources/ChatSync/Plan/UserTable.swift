import ChatCache
import ChatModel

/// The users with their work, and those who are free in the order of their turns: a choice among thousands of
/// users looks at the first.
struct UserTable: Sendable {
  private(set) var works: [UserID: UserWork] = [:]
  /// Those whom the upstream refused once and not yet for good (B5).
  private(set) var refused: Set<UserID> = []
  /// Those whose channels are listed, those with another job, and some who changed meanwhile.
  private var listings = TurnLine<Turn>()
  private var polls = TurnLine<Turn>()

  /// All users.
  var names: [UserID] { Array(works.keys) }

  /// A user's work, nil for none.
  subscript(user: UserID) -> UserWork? {
    get { works[user] }
    _modify {
      let before = turn(of: user)
      defer { note(user, since: before) }
      yield &works[user]
    }
  }

  /// The first in line of those whose next job is due, a listing or another.
  mutating func next(isListing: Bool, now: Int64) -> UserID? {
    let line = isListing ? \UserTable.listings : \UserTable.polls
    var passed: [Turn] = []
    defer { for turn in passed { self[keyPath: line].add(turn) } }
    while let first = self[keyPath: line].first {
      if turn(of: first.user) == first {
        if first.since <= now { return first.user }
        // One whose turn would come before others is not due yet.
        guard first.group == 0 else { return nil }
        passed.append(first)
      }
      self[keyPath: line].removeFirst()
    }
    return nil
  }

  private func turn(of user: UserID) -> Turn? {
    guard let work = works[user], work.isFree else { return nil }
    let (group, since) = work.turn
    return Turn(user: user, isListing: work.phase.isListing, group: group, since: since)
  }

  /// A user's work changed.
  private mutating func note(_ user: UserID, since before: Turn?) {
    if works[user]?.state.refusedAt != nil { refused.insert(user) } else { refused.remove(user) }
    guard let after = turn(of: user), after != before else { return }
    if listings.turns.count + polls.turns.count > 4 * works.count + 64 { sort() }
    if after.isListing { listings.add(after) } else { polls.add(after) }
  }

  /// Lets go of turns that are nobody's any more.
  private mutating func sort() {
    (listings, polls) = (TurnLine(), TurnLine())
    for turn in works.keys.compactMap({ turn(of: $0) }) {
      if turn.isListing { listings.add(turn) } else { polls.add(turn) }
    }
  }

  private struct Turn: Comparable, Sendable {
    let user: UserID
    let isListing: Bool
    let group: Int
    let since: Int64

    static func < (one: Turn, other: Turn) -> Bool {
      (one.group, one.since) < (other.group, other.since)
    }
  }
}

extension UserWork.Phase {
  /// Whether the user's channels are paged through.
  fileprivate var isListing: Bool {
    switch self {
    case .listing, .sweeping: true
    case .connecting, .steady: false
    }
  }
}
