import ChatCache
import ChatModel
import Platform
import TestSupport
import Testing

@testable import ChatSync

/// 2 000 connected users at 100 ms an answer and four requests in flight (B30, B34): with the worker's plan
/// and request queue, and the test's clock.
@Suite(.serialized, .timeLimit(.minutes(10))) struct CrowdTests {
  private static let users = 2_000
  private static let open = 8

  /// The measurements while the crowd was served.
  private struct Seen {
    /// When each message that no check has brought yet was sent, for each open channel.
    var waiting: [ChannelURL: [Int64]] = [:]
    /// How long each message took to reach an open view.
    var arrivals: [Int64] = []
    /// When each user was last polled, and the longest time between two polls.
    var polled: [UserID: Int64] = [:]
    var longestPoll: Int64 = 0
    /// When a job of each kind last ended, and the longest time between two.
    var ended: [String: Int64] = [:]
    var longest: [String: Int64] = [:]

    /// When each waiting send and webhook note was requested, and the longest wait.
    var asked: [SyncJob: Int64] = [:]
    var longestWait: Int64 = 0

    mutating func ask(_ job: SyncJob, now: Int64) { asked[job] = asked[job] ?? now }

    mutating func note(_ job: SyncJob, began: Int64, ended now: Int64) {
      if let since = asked[job], since <= began {
        asked[job] = nil
        longestWait = max(longestWait, now - since)
      }
      if let user = job.user, user.text.hasPrefix("u") {
        longestPoll = max(longestPoll, now - (polled[user] ?? 0))
        polled[user] = now
      }
      if let url = job.listed, let sent = waiting[url] {
        // A listing that began before the message was sent may not have brought it.
        arrivals += sent.filter { $0 <= began }.map { now - $0 }
        waiting[url] = sent.filter { $0 > began }
      }
      longest[job.name] = max(longest[job.name] ?? 0, now - (ended[job.name] ?? 0))
      ended[job.name] = now
    }

    /// Counts the waits that have not ended, up to now.
    mutating func close(now: Int64) {
      for since in asked.values { longestWait = max(longestWait, now - since) }
      for (name, last) in ended { longest[name] = max(longest[name] ?? 0, now - last) }
      for index in 0..<CrowdTests.users {
        longestPoll = max(longestPoll, now - (polled[UserID("u\(index)")] ?? 0))
      }
    }

    func percentile(_ share: Double) -> Int64 {
      let sorted = arrivals.sorted()
      return sorted.isEmpty ? .max : sorted[min(sorted.count - 1, Int(Double(sorted.count) * share))]
    }
  }

  /// The crowd with endless work of every class: a first listing, a prefetch, channels that fell behind,
  /// verification, gaps, doubts.
  private static func crowd() -> PlanRun {
    var run = PlanRun(users: users, open: open)
    run.plan.add(UserID("listing"), isSynced: false, isCached: false, now: 0)
    for index in 0..<200 {
      let url = ChannelURL("p\(index)")
      run.plan.know(url, isPrefetched: index >= 100, isUnverified: index % 50 == 0, lastMessageAt: 5, now: 0)
      if index % 50 == 1 { run.plan.fill(gap: 1, in: url) }
      if index % 50 == 2 { run.plan.settle(url, now: 0) }
    }
    run.outcome = { job in
      switch job {
      case .list: .listed(next: "more", channels: [])
      case .prefetch: .prefetched(isComplete: false)
      case .verify, .fill, .settle: .progressed(isComplete: false)
      default: PlanRun.usual(job)
      }
    }
    return run
  }

  /// Runs for `seconds`. Each second brings a message to some open channels, clients' reads, sends, and news
  /// of other channels, by webhook or not.
  private static func serve(_ run: inout PlanRun, seconds: Int, webhooks: Bool) -> Seen {
    var random = SeededRandom(seed: 7)
    var seen = Seen()
    let begin = run.now
    for second in 0..<seconds {
      for slice in 0..<2 {
        let open = ChannelURL("c\(Int.random(in: 0..<CrowdTests.open, using: &random))")
        seen.waiting[open, default: []].append(run.now)
        if webhooks { run.plan.noteWebhook(.newest, in: open, message: 0, now: run.now) }
        let other = ChannelURL("p\(100 + Int.random(in: 0..<100, using: &random))")
        tell(&run, &seen, second % 2 * 2 + slice, other, webhooks)
        let sender = UserID("u\(Int.random(in: 0..<users, using: &random))")
        let lane = OutboxLaneName(user: sender, channel: ChannelURL("p199"))
        run.plan.outboxChanged(lane, now: run.now)
        seen.ask(.send(lane), now: run.now)
        run.read()
        let end = begin + Int64(second) * 1_000 + Int64(slice + 1) * 500
        run.go(until: end - Int64.random(in: 0..<100, using: &random)) { seen.note($0, began: $1, ended: $2) }
      }
    }
    seen.close(now: run.now)
    return seen
  }

  /// The crowd's measurements. They take long to compute, so they have a thread of their own: other tests
  /// share few threads and have deadlines.
  private static func served(seconds: Int, webhooks: Bool) async -> Seen {
    await withCheckedContinuation { continuation in
      _ = Thread("crowd") {
        var run = crowd()
        continuation.resume(returning: serve(&run, seconds: seconds, webhooks: webhooks))
      }
    }
  }

  /// News of a channel without an open view.
  private static func tell(
    _ run: inout PlanRun, _ seen: inout Seen, _ slice: Int, _ url: ChannelURL, _ webhooks: Bool
  ) {
    switch (slice, webhooks) {
    case (0, true): run.plan.noteWebhook(.newest, in: url, message: 0, now: run.now)
    case (1, true):
      let id = run.now
      run.plan.noteWebhook(.message, in: url, message: id, now: run.now)
      seen.ask(.message(url, id: id), now: run.now)
    case (2, true):
      run.plan.noteWebhook(.channel, in: url, message: 0, now: run.now)
      seen.ask(.refresh(url), now: run.now)
    case (3, _):
      run.plan.met(ChannelActivity(url: url, lastMessageAt: run.now, isBehind: true), now: run.now)
    default: break
    }
  }

  @Test("B30 B34: a message to an open view comes within 1 s by webhook (p99), every user is polled in 3 min")
  func byWebhook() async {
    let seen = await Self.served(seconds: 200, webhooks: true)
    #expect(seen.arrivals.count > 330, "\(seen.arrivals.count) messages came")
    #expect(seen.percentile(0.99) <= 1_000, "p99 \(seen.percentile(0.99)) ms, p50 \(seen.percentile(0.5)) ms")
    #expect(seen.percentile(1) <= 2_000, "the longest: \(seen.percentile(1)) ms")
    #expect(seen.longestPoll <= 180_000, "a user is polled every \(seen.longestPoll) ms at the longest")
    expectAll(
      seen,
      [
        "check", "message", "refresh", "channel_changes", "list", "prefetch", "verify", "fill", "settle",
        "send",
      ])
  }

  @Test("B30 B34: a message to an open view comes within 5 s by polling, every user is polled in 3 min")
  func byPolling() async {
    let seen = await Self.served(seconds: 200, webhooks: false)
    #expect(seen.arrivals.count > 330, "\(seen.arrivals.count) messages came")
    #expect(seen.percentile(1) <= 5_000, "the longest: \(seen.percentile(1)) ms")
    #expect(seen.longestPoll <= 180_000, "a user is polled every \(seen.longestPoll) ms at the longest")
    expectAll(
      seen, ["check", "channel_changes", "list", "prefetch", "verify", "fill", "settle", "send"])
  }

  /// Expects that no class waits without end: that jobs of each of these kinds end again and again.
  private func expectAll(_ seen: Seen, _ names: [String]) {
    for name in names {
      let longest = seen.longest[name] ?? .max
      #expect(longest <= 30_000, "\(name): up to \(longest) ms without one")
    }
    #expect(seen.longestWait <= 30_000, "a send or a note waited \(seen.longestWait) ms")
  }
}

extension SyncJob {
  /// The channel whose newest messages the job lists.
  fileprivate var listed: ChannelURL? {
    switch self {
    case .check(let url), .news(let url): url
    default: nil
    }
  }
}
