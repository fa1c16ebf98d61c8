import ChatModel

/// A stretch of a channel's line that is not in the cache.
package struct Gap: Hashable, Sendable {
  /// Why the stretch is missing.
  package enum Reason: Int64, Sendable, CaseIterable {
    /// Nobody ever listed it.
    case neverLoaded = 0
    /// Messages came while the upstream could not be heard.
    case disconnected
    /// More messages came than one listing of the newest end shows.
    case limited
    /// It was in the cache and went for space.
    case evicted

    /// The word the contract uses.
    package var text: StaticString {
      switch self {
      case .neverLoaded: "never_loaded"
      case .disconnected: "disconnected"
      case .limited: "limited"
      case .evicted: "evicted"
      }
    }
  }

  /// What is being done about it.
  package enum State: Int64, Sendable, CaseIterable {
    /// Nothing.
    case idle = 0
    /// Somebody is listing it, from a ticket.
    case filling
    /// It is not filled by itself: too much is missing (B28).
    case huge

    /// The word the contract uses.
    package var text: StaticString {
      switch self {
      case .idle: "idle"
      case .filling: "filling"
      case .huge: "huge"
      }
    }
  }

  /// Its name, never given twice in a channel. The gap keeps it while it shrinks; the newer part of a gap
  /// that is split gets another.
  package let id: Int64
  /// Why the stretch is missing.
  package let reason: Reason
  /// What is being done about it.
  package internal(set) var state: State
  /// How many messages are missing, where that was counted.
  package internal(set) var estimatedMissing: Int?

  /// The state of a gap that nobody fills.
  var resting: State {
    (estimatedMissing ?? 0) > Limits.missingMessagesFilled ? .huge : .idle
  }
}

/// What is known about the newest end.
package struct Tail: Hashable, Sendable {
  /// When a listing last reached the end, ms; nil while none did.
  package let confirmedAt: Int64?
  /// The link's generation at that moment: the link raises its own at every start and every loss.
  package let generation: Int64

  /// The tail of a channel whose end was never listed.
  package static let unconfirmed = Tail(confirmedAt: nil, generation: 0)

  /// A tail confirmed at `confirmedAt` during `generation` of the link.
  package init(confirmedAt: Int64?, generation: Int64) {
    self.confirmedAt = confirmedAt
    self.generation = generation
  }

  /// How far the tail can be trusted (B25).
  package enum State: Sendable { case live, stale, offline }

  /// The state at `now`, for a link of `generation` that polls every `interval` ms.
  package func state(generation: Int64, isOffline: Bool, now: Int64, interval: Int64) -> State {
    if isOffline { return .offline }
    guard let confirmedAt, self.generation == generation else { return .stale }
    return now - confirmedAt < 2 * interval ? .live : .stale
  }
}

/// One stretch of a channel's line, with both its ends.
package struct Segment: Hashable, Sendable {
  /// What the stretch is.
  package enum Content: Hashable, Sendable {
    /// Everything the upstream has there is in the cache. Unverified: changes may have been missed (B31).
    case covered(isUnverified: Bool)
    /// Not in the cache, or only by chance.
    case gap(Gap)
    /// The stretch from the newest covered position up to now.
    case tail(Tail)
  }

  /// Its first and its last position.
  package let range: ClosedRange<Position>
  /// What it is.
  package let content: Content

  /// The gap, if it is one.
  package var gap: Gap? {
    if case .gap(let gap) = content { gap } else { nil }
  }
  /// Whether it is covered.
  package var isCovered: Bool {
    if case .covered = content { true } else { false }
  }
}
