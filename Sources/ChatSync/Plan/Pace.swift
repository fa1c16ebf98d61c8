/// How often the plan asks the upstream, in ms and requests.
package struct Pace: Sendable, Equatable {
  /// The shortest interval between two checks of an open channel (B34).
  package var openPoll: Int64 = 2_000
  /// The interval between two checks of an open channel while webhooks work.
  package var openPollWithWebhooks: Int64 = 30_000
  /// The interval between two polls of a user's channels without an open view.
  package var userPoll: Int64 = 30_000
  /// The interval between two full sweeps, if the upstream has no channel changelog (B11).
  package var sweep: Int64 = 600_000
  /// The interval between two listings of an open window, if the upstream has no message changelog (B32).
  package var verify: Int64 = 30_000
  /// How long a call waits for its next try after it was refused while others succeeded.
  package var refusedRetry: Int64 = 1_000
  /// The upstream's limit in requests per second, as far as it is known. Polling takes at most half.
  package var requestsPerSecond = 10.0
  /// Whether the operator gave `requestsPerSecond`. Otherwise users are polled as fast as answers come.
  package var isRateKnown = false
  /// Requests per second for prefetching, 0 for no limit.
  package var prefetchRate = 5.0
  /// The interval between two prefetches or fills while clients' own reads wait.
  package var prefetchPause: Int64 = 1_000
  /// The number of newest messages that are prefetched in each channel.
  package var prefetchMessages = 200
  /// How long a webhook proves that webhooks work.
  package var webhookMemory: Int64 = 300_000
  /// How long a listing for a webhook note waits for further notes of its channel (B34).
  package var webhookNoteDelay: Int64 = 100
  /// The shortest interval between two refreshes of a channel because members have read on.
  package var readInterval: Int64 = 1_000
  /// How many read positions each poll of a member may bring. If a crowded channel has more, its members'
  /// polls leave them out, and its members, too. A refresh brings both for all.
  package var mostPositions = 100
  /// The largest wait after failures.
  package var maximumBackoff: Int64 = 60_000
  /// The most jobs at once; clients' own reads are not counted.
  package var jobs = 4

  /// The usual pace.
  package init() {}

  /// The interval between two polls of one of `count` users. With more users than half of a known limit can
  /// poll that often, it grows for all of them alike.
  package func userInterval(count: Int) -> Int64 {
    guard isRateKnown, requestsPerSecond > 0 else { return userPoll }
    return max(userPoll, Int64(Double(count) / (requestsPerSecond / 2) * 1000))
  }

  /// The interval between two checks of one of `count` open channels, if a check makes `requests` requests.
  package func openInterval(count: Int, requests: Int, hasWebhooks: Bool) -> Int64 {
    if hasWebhooks { return max(openPoll, openPollWithWebhooks) }
    guard requestsPerSecond > 0 else { return openPoll }
    return max(openPoll, Int64(Double(count * requests) / (requestsPerSecond / 2) * 1000))
  }
}
