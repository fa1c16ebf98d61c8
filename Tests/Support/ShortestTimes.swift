/// The shortest time of one step in each of several worlds, which grow from the first to the last.
///
/// Other work on the machine makes a step longer and never shorter. So a test measures the worlds in turns,
/// and goes on while the worlds are too far apart, up to a bound.
public struct ShortestTimes: CustomStringConvertible {
  private var nanoseconds: [UInt64]

  public init(of worlds: Int) {
    nanoseconds = [UInt64](repeating: .max, count: worlds)
  }

  public mutating func add(_ taken: UInt64, to world: Int) {
    nanoseconds[world] = min(nanoseconds[world], taken)
  }

  /// Whether a step of the last world takes at most that many times as long as one of the first.
  public func isWithin(_ ratio: Double) -> Bool {
    guard let first = nanoseconds.first, let last = nanoseconds.last else { return true }
    return Double(last) <= Double(first) * ratio
  }

  public var description: String { "\(nanoseconds)" }
}
