import ChatCache

/// The one connection to the upstream that all users share (B3), as a value: each call reports what happened
/// and returns what to do.
///
/// ```
///              two transport failures in a row, one failed probe,
///              or the key refused
///   online ───────────────────────────────────────────────────► offline
///     ▲                                                            │ a probe at a time, after a full-jitter
///     └──────────────── any success ───────────────────────────────┘ wait; at once after `urge`
/// ```
///
/// A 5xx without `Retry-After`, or an answer that cannot be decoded, is no failure of the link: it may
/// concern one item or user (B35).
/// After two of them without a good answer between, a probe tells whether the upstream is still there.
///
/// The link starts unknown, which behaves as offline with a probe due at once. The generation rises when the
/// link is lost, because no coverage is live then (B25).
package struct Link: Sendable, Equatable {
  /// The state that all users are told.
  package typealias State = LinkState
  /// Why the link is offline.
  package typealias Reason = LinkLoss

  /// What the owner of the link does next.
  package enum Action: Sendable, Equatable {
    /// Make a cheap request, and report its end with `probeSucceeded` or `probeFailed`.
    case probe
    /// Tell all users the state, with one event.
    case announce(State)
  }

  /// The state of the link, as all users are told it.
  package private(set) var state: State
  /// Rises at every loss; coverage confirmed under another generation is not live.
  package private(set) var generation: Int64
  /// Whether a probe is under way.
  package private(set) var isProbing = false
  /// When the next probe is due (monotonic ms), nil while online or probing.
  package private(set) var nextProbeAt: Int64?
  private var failures = 0
  private var backoff: Backoff
  private var urgedAt: Int64?
  private var badAnswers = 0
  private var verifiedAt: Int64?

  /// The least time between two probes that bad answers cause (ms).
  static let verifyInterval: Int64 = 5_000

  /// An untried link. Without an upstream, a link that stays offline.
  package init(hasUpstream: Bool = true, generation: Int64 = 1, maximumBackoff: Int64 = 60_000) {
    self.generation = generation
    state = hasUpstream ? .unknown : .offline(.none)
    nextProbeAt = hasUpstream ? 0 : nil
    backoff = Backoff(maximum: maximumBackoff)
  }

  /// Whether requests are sent to the upstream.
  package var isOnline: Bool { state == .online }

  /// A request was answered; a rejection is an answer, too.
  package mutating func succeeded() -> [Action] {
    failures = 0
    badAnswers = 0
    backoff.reset()
    nextProbeAt = nil
    return change(to: .online)
  }

  /// A request failed in transport, or the server asks all to come back later.
  package mutating func failed(
    _ reason: Reason = .unreachable, now: Int64, retryAfter: Int64? = nil,
    using generator: inout some RandomNumberGenerator
  ) -> [Action] {
    failures += 1
    guard state != .offline(.none), failures >= 2 || !isOnline else { return [] }
    if isOnline || nextProbeAt == nil && !isProbing {
      nextProbeAt = now + backoff.next(retryAfter: retryAfter, using: &generator)
    }
    return change(to: .offline(reason))
  }

  /// The server or a proxy answered that it failed (5xx), or the answer to a request could not be decoded.
  package mutating func metBadAnswer(now: Int64) -> [Action] {
    badAnswers += 1
    guard isOnline, !isProbing, badAnswers >= 2,
      verifiedAt.map({ now - $0 >= Link.verifyInterval }) ?? true
    else { return [] }
    verifiedAt = now
    return startProbe()
  }

  /// The upstream refused Perch's own key.
  package mutating func refused(now: Int64, using generator: inout some RandomNumberGenerator) -> [Action] {
    failures = 0
    if !isProbing && nextProbeAt == nil { nextProbeAt = now + backoff.next(using: &generator) }
    return change(to: .offline(.auth))
  }

  /// A probe got no usable answer, or the key was refused.
  package mutating func probeFailed(
    _ reason: Reason, now: Int64, retryAfter: Int64? = nil, using generator: inout some RandomNumberGenerator
  ) -> [Action] {
    isProbing = false
    nextProbeAt = now + backoff.next(retryAfter: retryAfter, using: &generator)
    return change(to: .offline(reason))
  }

  /// A probe was answered.
  package mutating func probeSucceeded() -> [Action] {
    isProbing = false
    return succeeded()
  }

  /// A client connects or sends: try now, at most once a second.
  package mutating func urge(now: Int64) -> [Action] {
    guard !isOnline, state != .offline(.none), !isProbing else { return [] }
    if let urgedAt, now - urgedAt < 1_000 {
      nextProbeAt = min(nextProbeAt ?? .max, urgedAt + 1_000)
      return []
    }
    urgedAt = now
    return startProbe()
  }

  /// Time went by.
  package mutating func tick(now: Int64) -> [Action] {
    guard !isProbing, let nextProbeAt, nextProbeAt <= now else { return [] }
    return startProbe()
  }

  private mutating func startProbe() -> [Action] {
    isProbing = true
    nextProbeAt = nil
    return [.probe]
  }

  private mutating func change(to new: State) -> [Action] {
    guard new != state else { return [] }
    if state == .online { generation += 1 }
    state = new
    return [.announce(new)]
  }
}
