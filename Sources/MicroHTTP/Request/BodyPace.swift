/// The pace of an upload's body: the body may come slowly, but it must not stop.
///
/// The body comes in stretches of at least `uploadPaceBytes`. Each must be complete within
/// `uploadPaceSeconds` of the end of the stretch before.
struct BodyPace: Equatable {
  /// When the present stretch began (monotonic nanoseconds).
  private(set) var since: UInt64
  private var bytes = 0

  init(since: UInt64) { self.since = since }

  /// Counts bytes that came. True if they complete a stretch: the next stretch begins `now`.
  mutating func came(_ count: Int, of stretch: Int, now: UInt64) -> Bool {
    bytes += count
    guard bytes >= stretch else { return false }
    restart(now)
    return true
  }

  /// Begins a new stretch: the last one is complete, or the server kept the client waiting.
  mutating func restart(_ now: UInt64) {
    since = now
    bytes = 0
  }
}
