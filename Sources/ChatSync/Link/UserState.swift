/// The state of one user's sync (B2–B5), as a value. It decides whether Perch works for the user. All users
/// share the link, which decides whether the user is online.
package struct UserState: Sendable, Equatable {
  /// How far a user is synced, and whether work for the user goes on.
  package enum Phase: Sendable, Equatable {
    /// The upstream has not acknowledged the user yet since the work began.
    case connecting
    /// Acknowledged; kept in step while the link is up.
    case connected
    /// The user made no request for 30 min and has nothing unsent: no polling until the next request (B4).
    case idle
    /// The client disconnected the user; only `PUT /v1/connection` ends this phase (B4).
    case stopped
    /// The upstream said that the user is gone: twice, or once if nothing about the user is cached (B5).
    case closed
  }

  /// The consequence of the upstream's refusal of a user.
  package enum Verdict: Sendable, Equatable {
    /// The refusal does not count yet: it is the first, came too soon after the first, or no other call has
    /// succeeded since then. The upstream is asked again at that moment (ms).
    case doubtful(askAgainAt: Int64)
    /// The second refusal came long enough after the first, and the key works for other calls: the user is
    /// closed.
    case closed
    /// Nothing about the user is cached, so there is no data to protect and the first refusal counts.
    case unknown
  }

  /// Milliseconds between the two refusals that close a user.
  package static let refusalDistance: Int64 = 60_000
  /// Milliseconds until the upstream is asked again while no successful call has proved Perch's key.
  package static let proofDistance: Int64 = 10_000
  /// Milliseconds without a request after which a user is idle.
  package static let idleAfter: Int64 = 30 * 60_000

  /// How far the user is synced.
  package private(set) var phase: Phase
  /// When a request of the user last came (ms).
  package private(set) var seenAt: Int64
  /// When the upstream first said that the user is gone (ms); nil after it acknowledged the user.
  package private(set) var refusedAt: Int64?
  /// When the upstream last refused the user while nothing about the user was cached (ms).
  private var closedAt: Int64?
  /// Whether a call with the same key succeeded since the first refusal.
  package private(set) var hasKeyWorkedSince = false
  /// Whether the user was closed and the upstream has not acknowledged the user since: no request of the user
  /// is answered from the cache (B5).
  package private(set) var isBarred: Bool

  /// A user seen at `now`, whom the upstream refused at `refusedAt`, maybe in an earlier run.
  package init(_ phase: Phase = .connecting, now: Int64, refusedAt: Int64? = nil) {
    self.phase = phase
    seenAt = now
    self.refusedAt = refusedAt
    isBarred = phase == .closed
  }

  /// A request of the user came: an idle user connects again. True if work begins.
  package mutating func seen(now: Int64) -> Bool {
    seenAt = max(seenAt, now)
    guard phase == .idle else { return false }
    phase = .connecting
    return true
  }

  /// A request came from a user whom the upstream did not know and of whom nothing is cached. The upstream
  /// may know the user by now, so it is asked again, at most once a minute. True if work begins.
  package mutating func seenUnknown(now: Int64) -> Bool {
    guard phase == .closed, now - (closedAt ?? now) >= UserState.refusalDistance else { return false }
    phase = .connecting
    return true
  }

  /// `PUT /v1/connection`: connects stopped and closed users, too. True if the upstream must be asked.
  package mutating func connect(now: Int64) -> Bool {
    seenAt = max(seenAt, now)
    guard phase != .connected else { return false }
    phase = .connecting
    return true
  }

  /// `DELETE /v1/connection`. A closed user stays closed.
  package mutating func stop() { phase = isBarred ? .closed : .stopped }

  /// The upstream knows the user.
  package mutating func acknowledged() {
    refusedAt = nil
    isBarred = false
    if phase == .connecting || phase == .closed { phase = .connected }
  }

  /// Another call succeeded with the same key, so a refusal of the user is not the key's fault.
  package mutating func keyWorked() { if refusedAt != nil { hasKeyWorkedSince = true } }

  /// The upstream positively says that the user is gone, deactivated or revoked.
  package mutating func refused(now: Int64, isCached: Bool) -> Verdict {
    guard isCached else {
      phase = .closed
      closedAt = now
      return .unknown
    }
    if isBarred {
      phase = .closed
      return .closed
    }
    guard let first = refusedAt else {
      refusedAt = now
      hasKeyWorkedSince = false
      return .doubtful(askAgainAt: now + UserState.refusalDistance)
    }
    guard now - first >= UserState.refusalDistance, hasKeyWorkedSince else {
      return .doubtful(askAgainAt: max(first + UserState.refusalDistance, now + UserState.proofDistance))
    }
    phase = .closed
    isBarred = true
    return .closed
  }

  /// Time went by. True if the user just became idle.
  package mutating func tick(now: Int64, hasUnsent: Bool) -> Bool {
    guard phase == .connected || phase == .connecting, !hasUnsent, now - seenAt >= UserState.idleAfter else {
      return false
    }
    phase = .idle
    return true
  }

  /// Whether the sync worker asks and sends for the user.
  package var isActive: Bool { phase == .connecting || phase == .connected }
}
