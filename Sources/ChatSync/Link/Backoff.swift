/// Waits that grow: full jitter over a bound that starts at 1 s and doubles up to `maximum` (B3).
package struct Backoff: Sendable, Equatable {
  /// The first bound, in ms.
  package static let first: Int64 = 1_000
  /// The largest bound, in ms.
  package let maximum: Int64
  /// How many waits were given since the last success.
  package private(set) var attempts = 0

  /// A backoff that has not failed yet.
  package init(maximum: Int64 = 60_000) { self.maximum = max(1, maximum) }

  /// The bound of the next wait, in ms.
  package var bound: Int64 { min(maximum, Backoff.first << Int64(min(attempts, 20))) }

  /// The next wait in ms, anywhere from 1 to the bound; the upstream's `retryAfter` wins.
  package mutating func next(
    retryAfter: Int64? = nil, using generator: inout some RandomNumberGenerator
  ) -> Int64 {
    defer { attempts += 1 }
    if let retryAfter { return max(0, retryAfter) }
    return Int64.random(in: 1...bound, using: &generator)
  }

  /// After a success, the next failure waits briefly again.
  package mutating func reset() { attempts = 0 }
}
