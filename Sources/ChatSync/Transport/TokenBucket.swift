/// Limits requests to `rate` per second, and up to `burst` at once. The caller gives the time.
package struct TokenBucket: Sendable, Equatable {
  /// Requests per second, 0 for no limit.
  package let rate: Double
  /// Requests that may come at once after a quiet time.
  package let burst: Double
  private var tokens: Double
  private var filledAt: Int64?

  /// A full bucket.
  package init(rate: Double, burst: Double) {
    self.rate = rate
    self.burst = max(1, burst)
    tokens = self.burst
  }

  /// Takes one token and returns nil. If there is none, returns the time (ms) at which there will be one.
  package mutating func take(now: Int64) -> Int64? {
    guard rate > 0 else { return nil }
    refill(now)
    guard tokens < 1 else {
      tokens -= 1
      return nil
    }
    return now + max(1, Int64(((1 - tokens) / rate * 1000).rounded(.up)))
  }

  private mutating func refill(_ now: Int64) {
    if let filledAt, now > filledAt {
      tokens = min(burst, tokens + Double(now - filledAt) / 1000 * rate)
    }
    filledAt = max(filledAt ?? now, now)
  }
}
