/// How often is asked, in ms and requests, with the relations between them.
package struct Pace: Sendable, Equatable {
  /// Between two looks at an open channel, at the least (B34).
  package var openPoll: Int64 = 2_000
  /// Between two looks at an open channel while webhooks prove alive.
  package var openPollWithWebhooks: Int64 = 30_000
  /// Between two looks for a user with nothing open.
  package var userPoll: Int64 = 30_000
  /// Between two full sweeps where there is no channel changelog (B11).
  package var sweep: Int64 = 600_000
  /// Between two listings of an open window where there is no message changelog (B32).
  package var verify: Int64 = 30_000
  /// Until a call that was refused while others succeed is tried again.
  package var refusedRetry: Int64 = 1_000
  /// Requests per second that are the upstream's limit as far as is known; polling takes at most half.
  package var requestsPerSecond = 10.0
  /// Requests per second for prefetching, 0 for no limit.
  package var prefetchRate = 5.0
  /// Newest messages of each channel that are prefetched.
  package var prefetchMessages = 200
  /// How long a webhook proves that webhooks work.
  package var webhookMemory: Int64 = 300_000
  /// A listing for a webhook note waits so long for others of its channel (B34).
  package var webhookNoteDelay: Int64 = 100
  /// The largest wait after failures.
  package var maximumBackoff: Int64 = 60_000
  /// Jobs at once, clients' own reads not counted.
  package var jobs = 4

  /// The usual pace.
  package init() {}

  /// Between two looks at one of `count` open channels, each costing `requests`.
  package func openInterval(count: Int, requests: Int, hasWebhooks: Bool) -> Int64 {
    if hasWebhooks { return max(openPoll, openPollWithWebhooks) }
    guard requestsPerSecond > 0 else { return openPoll }
    return max(openPoll, Int64(Double(count * requests) / (requestsPerSecond / 2) * 1000))
  }
}
