/// So many things a second, evenly spaced.
struct Pace {
  private let perSecond: Double
  private let start: UInt64
  private(set) var count = 0

  init(_ perSecond: Double, from start: UInt64) {
    self.perSecond = perSecond
    self.start = start
  }

  /// When the next one is due.
  var next: UInt64 {
    guard perSecond > 0 else { return .max }
    let nanoseconds = Double(count) / perSecond * 1_000_000_000
    return nanoseconds < Pace.never ? start + UInt64(nanoseconds) : .max
  }

  /// Later than any load ends, in ns.
  private static let never = 1e18

  /// Takes the next one if it is due. Returns when it was due.
  mutating func take(now: UInt64) -> UInt64? {
    guard next <= now else { return nil }
    defer { count += 1 }
    return next
  }
}
