import MicroHTTP

/// Allows `requests` in `seconds`, over all clients. Windows follow each other; the first request after a
/// window's end begins the next.
struct RateLimit: Sendable {
  let path: String
  /// Nil: all methods.
  let method: String?
  let requests: Int64
  let seconds: Int64
  private var endsAt: Int64 = 0
  private var used: Int64 = 0

  init(_ value: Value) throws {
    path = value["path"]?.string ?? "*"
    method = value["method"]?.string
    guard let requests = value["requests"]?.integer else { throw Refusal.missing("requests") }
    self.requests = requests
    seconds = value["seconds"]?.integer ?? 1
    guard (0...1_000_000).contains(requests), (1...86_400).contains(seconds) else {
      throw Refusal.range("requests or seconds")
    }
  }

  /// Counts a request at `now` (ms).
  mutating func take(at now: Int64) -> RateReading {
    if now >= endsAt {
      endsAt = now + seconds * 1000
      used = 0
    }
    let isOver = used >= requests
    if !isOver { used += 1 }
    return RateReading(
      limit: "\(requests);w=\(seconds)", remaining: requests - used, resetAt: (endsAt + 999) / 1000,
      retryAfter: isOver ? max(1, (endsAt - now + 999) / 1000) : 0, isOver: isOver)
  }
}

/// What the headers of an answer say about a rate limit.
struct RateReading: Sendable {
  let limit: String
  let remaining: Int64
  /// Seconds since 1970.
  let resetAt: Int64
  let retryAfter: Int64
  let isOver: Bool

  func write(to response: inout Response) {
    response.add("X-RateLimit-Limit", limit)
    response.add("X-RateLimit-Remaining", "\(remaining)")
    response.add("X-RateLimit-Reset", "\(resetAt)")
    response.add("X-RateLimit-RetryAfter", "\(retryAfter)")
    if isOver { response.add("Retry-After", "\(retryAfter)") }
  }
}
