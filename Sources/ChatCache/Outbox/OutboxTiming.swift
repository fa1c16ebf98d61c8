import ChatModel

/// The operator's choices about sending.
package struct OutboxPolicy: Hashable, Sendable {
  /// The longest wait between two tries of one row, ms (`--backoff-max`).
  package var backoffMaximum: Int64 = 60_000
  /// The pause between the two looks for a send that may have arrived, ms (`--uncertain-grace`, B36).
  package var uncertainGrace: Int64 = 30_000
  /// Whether the upstream answers a repeated request id with the first message
  /// (`--upstream-deduplicates`, B36): then one look that does not show the message is enough.
  package var deduplicates = false
  /// How long a row may wait before it fails, ms (`--pending-lifetime`, B41).
  package var pendingLifetime = Limits.pendingMilliseconds
  /// How many unsent rows one user may have (`--max-unsent`).
  package var maximumUnsent = Limits.unsentRows

  /// The defaults.
  package init() {}

  /// How many looks in a row must not show a message before it is sent again.
  var looks: Int { deduplicates ? 1 : 2 }

  /// The longest pause that an upstream may ask for, ms.
  package static let longestPause: Int64 = 10 * 60_000

  /// The longest wait between two tries of a row, ms, unless the upstream asks for a longer one.
  package var longestWait: Int64 { max(backoffMaximum, uncertainGrace, ReadMark.waitMilliseconds) }

  /// The longest wait after `attempt` tries, ms. It doubles from 1 s.
  package func bound(attempt: Int) -> Int64 {
    max(1, min(backoffMaximum, 1000 << Int64(min(max(attempt - 1, 0), 10))))
  }

  /// The wait after `attempt` tries with full jitter, from 1 ms to the bound; `random` is any number.
  package func delay(attempt: Int, random: UInt64) -> Int64 {
    1 + Int64(random % UInt64(bound(attempt: attempt)))
  }
}

/// A clock that never goes back: the larger of the wall clock and the highest moment it ever returned (B41).
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
  /// The id is new, so the request is accepted.
  case new
  /// The id came with the same content: answer with the request's present state, and send nothing.
  case replay
  /// The id was used for other content.
  case mismatch

  /// Compares the hash of the content with the one remembered for the id, if any. An empty one is unknown:
  /// then the id alone decides.
  package static func decide(remembered: [UInt8]?, asked: [UInt8]) -> Acceptance {
    guard let remembered else { return .new }
    return remembered.isEmpty || remembered == asked ? .replay : .mismatch
  }
}
