import ChatModel

/// A stretch of a channel's line that is not in the cache.
package struct Gap: Hashable, Sendable {
  /// Why the stretch is missing.
  package enum Reason: Int64, Sendable, CaseIterable {
    /// The stretch was never listed.
    case neverLoaded = 0
    /// Messages came while the upstream could not be reached.
    case disconnected
    /// More messages came than one listing of the newest end shows.
    case limited
    /// The messages were cached, and were evicted to make room.
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

  /// Whether the gap is being filled.
  package enum State: Int64, Sendable, CaseIterable {
    /// The gap is not being filled.
    case idle = 0
    /// A client asked to fill the gap, and the fill has not ended.
    case filling
    /// Too many messages are missing: the gap is filled only if a client asks for that (B28).
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

  /// The gap's id, never given twice in a channel. A gap that shrinks keeps its id; when a gap is split, the
  /// newer part gets a new one.
  package let id: Int64
  /// Why the stretch is missing.
  package let reason: Reason
  /// Whether the gap is being filled.
  package internal(set) var state: State
  /// The number of missing messages; nil: not counted.
  package internal(set) var estimatedMissing: Int?

  /// The gap's state while it is not being filled.
  var resting: State {
    (estimatedMissing ?? 0) > Limits.missingMessagesFilled ? .huge : .idle
  }
}

/// When, and on which link, the newest end was last confirmed.
package struct Tail: Hashable, Sendable {
  /// When a listing last reached the end, ms; nil while none did.
  package let confirmedAt: Int64?
  /// The link's generation at that moment. The generation rises at every start and every loss of the link.
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
  /// The three kinds of stretches.
  package enum Content: Hashable, Sendable {
    /// The cache has all messages that the upstream has there. Unverified: some may be outdated (B31).
    case covered(isUnverified: Bool)
    /// The cache may lack messages of the stretch.
    case gap(Gap)
    /// The stretch from the newest covered position up to now.
    case tail(Tail)
  }

  /// The first and the last position.
  package let range: ClosedRange<Position>
  /// The kind of the stretch.
  package let content: Content

  /// The gap, if it is one.
  package var gap: Gap? {
    if case .gap(let gap) = content { gap } else { nil }
  }
  /// Whether the stretch is covered.
  package var isCovered: Bool {
    if case .covered = content { true } else { false }
  }
}
