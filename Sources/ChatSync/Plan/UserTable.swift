import ChatCache
import ChatModel

/// The users with their work, and those who are free in the order of their turns: a choice among thousands of
/// users looks at the first.
struct UserTable: Sendable {
  private(set) var works: [UserID: UserWork] = [:]
  /// Those whom the upstream refused once and not yet for good (B5).
  private(set) var refused: Set<UserID> = []
  /// Those whose channels are listed, those with another job, and some who changed meanwhile.
  private var listings = TurnLine<Place>()
  private var polls = TurnLine<Place>()

  /// All users.
  var names: [UserID] { Array(works.keys) }

  /// A user's work, nil for none.
  subscript(user: UserID) -> UserWork? {
    get { works[user] }
    _modify {
      let before = place(of: user)
      defer { note(user, since: before) }
      yield &works[user]
    }
  }

  /// The first in line of those whose next job is due, a listing or another.
  mutating func next(isListing: Bool, now: Int64) -> UserID? {
    let line = isListing ? \UserTable.listings : \UserTable.polls
    var passed: [Place] = []
    defer { for place in passed { self[keyPath: line].add(place) } }
    while let first = self[keyPath: line].first {
      if place(of: first.user) == first {
        if first.since <= now { return first.user }
        // One whose turn would come before others is not due yet.
        guard first.group == 0 else { return nil }
        passed.append(first)
      }
      self[keyPath: line].removeFirst()
    }
    return nil
  }

  private func place(of user: UserID) -> Place? {
    guard let work = works[user], work.isFree else { return nil }
    let (group, since) = work.turn
    return Place(user: user, isListing: work.phase.isListing, group: group, since: since)
  }

  /// A user's work changed.
  private mutating func note(_ user: UserID, since before: Place?) {
    if works[user]?.state.refusedAt != nil { refused.insert(user) } else { refused.remove(user) }
    guard let after = place(of: user), after != before else { return }
    if listings.places.count + polls.places.count > 4 * works.count + 64 { sort() }
    if after.isListing { listings.add(after) } else { polls.add(after) }
  }

  /// Lets go of places that are nobody's any more.
  private mutating func sort() {
    (listings, polls) = (TurnLine(), TurnLine())
    for place in works.keys.compactMap({ place(of: $0) }) {
      if place.isListing { listings.add(place) } else { polls.add(place) }
    }
  }

  private struct Place: Comparable, Sendable {
    let user: UserID
    let isListing: Bool
    let group: Int
    let since: Int64

    static func < (one: Place, other: Place) -> Bool {
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
