import Synchronization

/// A histogram of durations: for each bound, the number of durations that were no longer.
package final class TimeCounts: Sendable {
  /// The bounds, in microseconds. A longer duration is counted in `count` alone.
  package static let bounds: [Int64] = [
    100, 250, 500, 1_000, 2_500, 5_000, 10_000, 20_000, 25_000, 100_000, 1_000_000,
  ]

  /// An atomic in an object, because atomics cannot be moved into an array.
  private final class Number: Sendable { let value = Atomic<Int64>(0) }

  private let numbers = TimeCounts.bounds.map { _ in Number() }
  private let all = Number()
  private let sum = Number()
  private let most = Number()

  init() {}

  /// The number of durations that were no longer than the bound with this index.
  package func count(notLongerThan bound: Int) -> Int64 { numbers[bound].value.load(ordering: .relaxed) }
  /// The number of all durations.
  package var count: Int64 { all.value.load(ordering: .relaxed) }
  /// The sum of all durations, in microseconds.
  package var microseconds: Int64 { sum.value.load(ordering: .relaxed) }

  /// The longest duration, in microseconds.
  package var longest: Int64 { most.value.load(ordering: .relaxed) }

  /// Counts one duration.
  func note(nanoseconds: UInt64) {
    let microseconds = Int64(nanoseconds / 1000)
    for (bound, number) in zip(TimeCounts.bounds, numbers) where microseconds <= bound {
      number.value.add(1, ordering: .relaxed)
    }
    all.value.add(1, ordering: .relaxed)
    sum.value.add(microseconds, ordering: .relaxed)
    most.value.max(microseconds, ordering: .relaxed)
  }
}
