import ChatCache
import ChatModel

/// The work of all users, and the free users in the order of their turns, so that the next one of thousands
/// is found without a search.
struct UserTable: Sendable {
  private(set) var works: [UserID: UserWork] = [:]
  /// The users whom the upstream refused once and who are not closed (B5).
  private(set) var refused: Set<UserID> = []
  /// The turns of users whose channels are being listed, and of users with another job. Outdated turns stay
  /// until they are met.
  private var listings = TurnLine<Turn>()
  private var polls = TurnLine<Turn>()

  /// All users.
  var names: [UserID] { Array(works.keys) }

  /// The user's work, nil for none. A change of it moves the user's turn.
  subscript(user: UserID) -> UserWork? {
    get { works[user] }
    _modify {
      let before = turn(of: user)
      defer { note(user, since: before) }
      yield &works[user]
    }
  }

  /// The first user in line whose next job is due. `isListing`: in the line of listings.
  mutating func next(isListing: Bool, now: Int64) -> UserID? {
    let line = isListing ? \UserTable.listings : \UserTable.polls
    var passed: [Turn] = []
    defer { for turn in passed { self[keyPath: line].add(turn) } }
    while let first = self[keyPath: line].first {
      if turn(of: first.user) == first {
        if first.since <= now { return first.user }
        // A user of the preferred group may come first and not be due yet: the next in line is looked at.
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

  /// Adds the user's new turn after a change of the work.
  private mutating func note(_ user: UserID, since before: Turn?) {
    if works[user]?.state.refusedAt != nil { refused.insert(user) } else { refused.remove(user) }
    guard let after = turn(of: user), after != before else { return }
    if listings.turns.count + polls.turns.count > 4 * works.count + 64 { sort() }
    if after.isListing { listings.add(after) } else { polls.add(after) }
  }

  /// Removes the outdated turns.
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
  /// Whether a listing or a sweep pages through the user's channels.
  fileprivate var isListing: Bool {
    switch self {
    case .listing, .sweeping: true
    case .connecting, .steady: false
    }
  }
}
