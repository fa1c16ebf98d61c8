import Platform

/// A clock that stands still until the test moves it.
final class ManualClock: Sendable {
  private let milliseconds: Guarded<Int64>

  /// Begins at `start` (wall ms).
  init(_ start: Int64 = Clock.system.wallMilliseconds()) { milliseconds = Guarded(start) }

  var now: Int64 { milliseconds.withLock { $0 } }

  func advance(_ by: Int64) { milliseconds.withLock { $0 += by } }

  /// Moves the clock to `moment`, but never back.
  func move(to moment: Int64) { milliseconds.withLock { $0 = max($0, moment) } }

  var clock: Clock {
    Clock(
      wallMilliseconds: { self.now },
      monotonicNanoseconds: { UInt64(self.now) * 1_000_000 })
  }
}
