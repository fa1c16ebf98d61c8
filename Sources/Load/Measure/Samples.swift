/// How long something took, many times.
package struct Samples: Sendable {
  private var microseconds: [UInt32] = []

  /// No samples.
  package init() {}

  /// The number of samples.
  package var count: Int { microseconds.count }

  /// Adds a time in nanoseconds.
  package mutating func add(nanoseconds: UInt64) {
    microseconds.append(UInt32(clamping: nanoseconds / 1000))
  }

  /// Adds all samples of another.
  package mutating func add(_ other: Samples) { microseconds += other.microseconds }

  /// How many percent of the samples took at most so many ms; nil: there is no sample.
  package func percent(within milliseconds: Double) -> Double? {
    guard !microseconds.isEmpty else { return nil }
    return 100 * Double(microseconds.count { Double($0) <= milliseconds * 1000 }) / Double(count)
  }

  /// Percentiles in ms; nil: there is no sample.
  package func percentiles(_ asked: [Double]) -> [Double]? {
    guard !microseconds.isEmpty else { return nil }
    let sorted = microseconds.sorted()
    return asked.map { percent in
      let rank = (percent / 100 * Double(sorted.count)).rounded(.up)
      return Double(sorted[min(sorted.count, max(1, Int(rank))) - 1]) / 1000
    }
  }
}
