import Glibc

/// The two clocks, as a value, so that tests can set the time.
package struct Clock: Sendable {
  /// Milliseconds since 1970. May jump either way.
  package let wallMilliseconds: @Sendable () -> Int64
  /// Nanoseconds since some fixed moment. Never goes back.
  package let monotonicNanoseconds: @Sendable () -> UInt64

  /// A clock made of two functions.
  package init(
    wallMilliseconds: @escaping @Sendable () -> Int64, monotonicNanoseconds: @escaping @Sendable () -> UInt64
  ) {
    self.wallMilliseconds = wallMilliseconds
    self.monotonicNanoseconds = monotonicNanoseconds
  }

  /// The machine's clocks.
  package static let system = Clock(
    wallMilliseconds: {
      let now = read(CLOCK_REALTIME)
      return Int64(now.tv_sec) * 1000 + Int64(now.tv_nsec) / 1_000_000
    },
    monotonicNanoseconds: {
      let now = read(CLOCK_MONOTONIC)
      return UInt64(now.tv_sec) * 1_000_000_000 + UInt64(now.tv_nsec)
    })

  /// This clock with its wall clock moved: ahead, or behind where `milliseconds` are negative.
  package func moved(byMilliseconds milliseconds: Int64) -> Clock {
    let wall = wallMilliseconds
    return Clock(wallMilliseconds: { wall() + milliseconds }, monotonicNanoseconds: monotonicNanoseconds)
  }

  /// This clock with a wall clock that never steps: it begins with the present wall time and goes on with the
  /// monotonic one. For code that measures, by stamps of one run, how long something takes or is unused.
  package func steady() -> Clock {
    let (wall, monotonic) = (wallMilliseconds(), monotonicNanoseconds())
    let ticks = monotonicNanoseconds
    return Clock(
      wallMilliseconds: {
        let now = ticks()
        return wall + Int64((now > monotonic ? now - monotonic : 0) / 1_000_000)
      }, monotonicNanoseconds: ticks)
  }

  private static func read(_ id: clockid_t) -> timespec {
    var time = timespec()
    clock_gettime(id, &time)
    return time
  }
}
