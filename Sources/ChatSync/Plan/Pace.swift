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
  /// The upstream's limit in requests per second, as far as it is known. Polls of users and checks of open
  /// channels together take at most half.
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

  /// The users and channels that Perch polls, and how it polls them.
  package struct Polled: Sendable, Equatable {
    /// The number of active users.
    package var users = 0
    /// The number of open channels.
    package var channels = 0
    /// The requests that a check of an open channel makes.
    package var requests = 1
    /// Whether webhooks work.
    package var hasWebhooks = false

    /// Nothing is polled, unless it is told.
    package init(users: Int = 0, channels: Int = 0, requests: Int = 1, hasWebhooks: Bool = false) {
      (self.users, self.channels, self.requests) = (users, channels, requests)
      self.hasWebhooks = hasWebhooks
    }
  }

  /// The interval between two polls of a user. With more users than their share of a known limit lets Perch
  /// ask for, it grows for all of them alike.
  package func userInterval(_ polled: Polled) -> Int64 {
    guard isRateKnown, requestsPerSecond > 0 else { return userPoll }
    return stretch(userPoll, asked(by: polled).users, beside: asked(by: polled).channels)
  }

  /// The interval between two checks of an open channel. It grows in the same way. If the limit is not known,
  /// it grows only while no webhooks come, as if open channels alone had half of `requestsPerSecond`.
  package func openInterval(_ polled: Polled) -> Int64 {
    guard requestsPerSecond > 0, isRateKnown || !polled.hasWebhooks else { return usualOpen(polled) }
    return stretch(
      usualOpen(polled), asked(by: polled).channels, beside: isRateKnown ? asked(by: polled).users : 0)
  }

  private func usualOpen(_ polled: Polled) -> Int64 {
    polled.hasWebhooks ? max(openPoll, openPollWithWebhooks) : openPoll
  }

  /// The requests per second that polls at the usual intervals would make.
  private func asked(by polled: Polled) -> (users: Double, channels: Double) {
    (
      Double(polled.users) * 1000 / Double(max(1, userPoll)),
      Double(polled.channels * polled.requests) * 1000 / Double(max(1, usualOpen(polled)))
    )
  }

  /// The interval that keeps polls to their share. Users and open channels share half of the limit: each may
  /// use half of that, and what the other one leaves.
  private func stretch(_ interval: Int64, _ asked: Double, beside other: Double) -> Int64 {
    let polls = requestsPerSecond / 2
    let share = max(polls / 2, polls - other)
    return asked > share ? Int64((Double(interval) * asked / share).rounded(.up)) : interval
  }
}
