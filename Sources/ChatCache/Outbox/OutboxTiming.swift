import ChatModel

/// Waits between two tries of one row: full jitter under a bound that doubles from 1 s to 60 s.
package enum OutboxBackoff {
  /// The largest bound, ms.
  package static let maximum: Int64 = 60_000
  /// The pause between two looks for a message that may have arrived, ms (B36).
  package static let lookAgain: Int64 = 30_000
  /// So many looks in a row that do not show it prove that it did not arrive.
  package static let looks = 2

  /// The bound after so many tries, ms.
  package static func bound(attempt: Int) -> Int64 {
    min(maximum, 1000 << Int64(min(max(attempt - 1, 0), 10)))
  }

  /// The wait after `attempt` tries, ms, from 1 to the bound; `random` is any number.
  package static func delay(attempt: Int, random: UInt64) -> Int64 {
    1 + Int64(random % UInt64(bound(attempt: attempt)))
  }
}

/// A clock that never goes back: the larger of the wall clock and the highest moment it ever said (B41).
package struct MonotoneNow: Hashable, Sendable {
  /// The highest moment, ms; stored, so that it survives a start.
  package private(set) var highest: Int64

  /// Goes on from a stored moment.
  package init(highest: Int64) { self.highest = highest }

  /// The moment that counts as now while the wall clock says `wall`.
  package mutating func now(wall: Int64) -> Int64 {
    highest = max(highest, wall)
    return highest
  }
}

/// What to do with a request whose id may have been used before (B37).
package enum Acceptance: Hashable, Sendable {
  /// The id is new: take it in.
  case new
  /// The same again: answer with its present state, send nothing.
  case replay
  /// The id names something else.
  case mismatch

  /// Compares the hash of the content with the one remembered for the id, if any.
  package static func decide(remembered: [UInt8]?, asked: [UInt8]) -> Acceptance {
    guard let remembered else { return .new }
    return remembered == asked ? .replay : .mismatch
  }
}
