/// How fast the body of an upload comes: a slow line is not a dead one.
///
/// Stretches of at least `uploadPaceBytes` follow each other. Each has `uploadPaceSeconds` from the end of
/// the one before.
struct BodyPace: Equatable {
  /// When the present stretch began (monotonic nanoseconds).
  private(set) var since: UInt64
  private var bytes = 0

  init(since: UInt64) { self.since = since }

  /// More bytes came. True where a stretch is complete: the next one begins `now`.
  mutating func came(_ count: Int, of stretch: Int, now: UInt64) -> Bool {
    bytes += count
    guard bytes >= stretch else { return false }
    restart(now)
    return true
  }

  /// The client was kept waiting: its stretch begins anew.
  mutating func restart(_ now: UInt64) {
    since = now
    bytes = 0
  }
}
