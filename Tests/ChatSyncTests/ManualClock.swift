import Platform

/// Time that a test owns: it stands still until it is moved.
final class ManualClock: Sendable {
  private let milliseconds: Guarded<Int64>

  /// Begins at that moment (wall ms).
  init(_ start: Int64 = Clock.system.wallMilliseconds()) { milliseconds = Guarded(start) }

  var now: Int64 { milliseconds.withLock { $0 } }

  func advance(_ by: Int64) { milliseconds.withLock { $0 += by } }

  /// Never back.
  func move(to moment: Int64) { milliseconds.withLock { $0 = max($0, moment) } }

  var clock: Clock {
    Clock(
      wallMilliseconds: { self.now },
      monotonicNanoseconds: { UInt64(self.now) * 1_000_000 })
  }
}
