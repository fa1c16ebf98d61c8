import ChatCache
import ChatModel
import Testing

@testable import ChatSync

struct PlanTests {
  private let alice = UserID("alice")

  private func online(_ pace: Pace = Pace()) -> Plan {
    var plan = Plan(pace: pace, seed: 1)
    _ = plan.next(now: 0)
    plan.ended(.probe, .done, now: 0)
    return plan
  }

  /// A plan whose user is known and whose channels are all listed and prefetched.
  private func settled(_ count: Int, pace: Pace = Pace()) -> Plan {
    var plan = online(pace)
    plan.add(alice, isSynced: true, isCached: true, now: 0)
    for index in 0..<count {
      plan.know(
        ChannelURL("c\(index)"), isPrefetched: true, isUnverified: false, lastMessageAt: Int64(index), now: 0)
    }
    for job in plan.next(now: 0) { plan.ended(job, .acknowledged, now: 0) }
    return plan
  }

  /// Runs the plan with every job ending at once, counting requests.
  private func run(
    _ plan: inout Plan, from start: Int64 = 0, until end: Int64, requests: (SyncJob) -> Int,
    outcome: (SyncJob, Int64) -> Outcome
  ) -> Int {
    var now = start
    var count = 0
    while now < end {
      for job in plan.next(now: now) {
        count += requests(job)
        plan.ended(job, outcome(job, now), now: now)
      }
      guard let wake = plan.wakeAt(now: now) else { break }
      now = max(wake, now + 1)
    }
    return count
  }

  private func usual(_ job: SyncJob, _ now: Int64) -> Outcome {
    switch job {
    case .connect: .acknowledged
    case .list: .listed(next: nil, channels: [])
    case .channelChanges, .topChannels: .changed([], hasMore: false)
    case .prefetch: .prefetched(isComplete: true)
    case .verify, .fill: .progressed(isComplete: true)
    default: .done
    }
  }

  @Test("B33: without room in the cache nothing is prefetched and nothing wakes for it; with room it goes on")
  func room() {
    var plan = online()
    let url = ChannelURL("c0")
    plan.know(url, isPrefetched: false, isUnverified: false, lastMessageAt: 0, now: 0)
    plan.hasRoom = false
    #expect(plan.next(now: 1).isEmpty)
    #expect(plan.wakeAt(now: 1) ?? .max > 1_000)
    // A gap that a client asked to fill is filled.
    plan.fill(gap: 3, in: url)
    #expect(plan.next(now: 2) == [.fill(url, gap: 3)])
    plan.ended(.fill(url, gap: 3), .progressed(isComplete: true), now: 2)
    #expect(plan.next(now: 3).isEmpty)
    plan.hasRoom = true
    #expect(plan.next(now: 4) == [.prefetch(url)])
  }

  @Test("B27 B35: a settle job that waits keeps nothing waiting, and longer after each failure")
  func settling() throws {
    var plan = online()
    let url = ChannelURL("c0")
    plan.know(url, isPrefetched: true, isUnverified: false, lastMessageAt: 0, now: 0)
    plan.settle(url, now: 0)
    var (now, waits): (Int64, [Int64]) = (0, [])
    for _ in 0..<6 {
      #expect(plan.next(now: now) == [.settle(url)])
      plan.ended(.settle(url), .waits(milliseconds: 2_000), now: now)
      plan.noteWebhook(.message, in: url, message: 7, now: now)
      #expect(plan.next(now: now) == [.message(url, id: 7)], "the channel's other jobs go on")
      plan.ended(.message(url, id: 7), .done, now: now)
      #expect(plan.next(now: now + 1_999).isEmpty)
      now += 2_000
      #expect(plan.next(now: now) == [.settle(url)])
      plan.ended(.settle(url), .failed(.unreadable(reason: "html")), now: now)
      let next = try #require(plan.wakeAt(now: now))
      waits.append(next - now)
      now = next
    }
    #expect(waits[5] > 8 * waits[0], "\(waits)")
  }

  @Test("B34: one connected user with 100 channels and nothing open costs at most 300 requests an hour")
  func quietHour() {
    var plan = settled(100)
    plan.users[alice]?.hasUnsent = true
    let requests = run(&plan, until: 3_600_000, requests: { _ in 1 }, outcome: usual)
    check((100...300).contains(requests), "\(requests)")
  }

  @Test("B4: after 30 minutes without a request a user costs nothing, and the next request wakes it")
  func idle() {
    var plan = settled(10)
    let half = run(&plan, until: 30 * 60_000, requests: { _ in 1 }, outcome: usual)
    let rest = run(&plan, until: 3_600_000, requests: { _ in 1 }, outcome: usual)
    #expect((50...65).contains(half))
    #expect(rest == 0)
    plan.seen(alice, now: 3_600_000)
    check(plan.next(now: 3_600_000) == [.connect(alice)])
  }

  @Test("B34: an open channel is looked at every 2 s, every 30 s while webhooks prove alive")
  func openPoll() {
    var plan = settled(1)
    plan.open(OpenView(id: "v", channel: ChannelURL("c0"), isAtNewest: true), now: 0)
    var checks: [Int64] = []
    _ = run(&plan, until: 10_000, requests: { _ in 1 }) { job, now in
      if case .check = job { checks.append(now) }
      return usual(job, now)
    }
    #expect(checks == [0, 2000, 4000, 6000, 8000])
    plan.heardWebhook(now: 10_000)
    check(plan.openInterval(now: 10_000) == 30_000)
  }

  @Test("B30: open channels first, then the channel changelog, then what fell behind, then prefetch")
  func order() {
    var pace = Pace()
    pace.jobs = 1
    var plan = settled(3, pace: pace)
    plan.know(ChannelURL("new"), isPrefetched: false, isUnverified: false, lastMessageAt: 9, now: 0)
    plan.open(OpenView(id: "v", channel: ChannelURL("c0"), isAtNewest: true), now: 0)
    var jobs: [SyncJob] = []
    for _ in 0..<4 {
      for job in plan.next(now: 100) {
        jobs.append(job)
        let behind = ChannelActivity(url: ChannelURL("c1"), lastMessageAt: 5000, isBehind: true)
        if case .channelChanges = job {
          plan.ended(job, .changed([behind], hasMore: false), now: 100)
        } else {
          plan.ended(job, usual(job, 100), now: 100)
        }
      }
    }
    // The order of the first two depends on the turns.
    #expect(Set(jobs.prefix(2)) == [.check(ChannelURL("c0")), .channelChanges(alice)])
    #expect(jobs.dropFirst(2) == [.check(ChannelURL("c1")), .prefetch(ChannelURL("new"))])
  }

  @Test("B30: one channel's failure stops no other, and comes again with backoff")
  func isolation() {
    var plan = settled(2)
    let (bad, good) = (ChannelURL("c0"), ChannelURL("c1"))
    for url in [bad, good] { plan.open(OpenView(id: "v", channel: url, isAtNewest: true), now: 0) }
    var checks: [ChannelURL: Int] = [:]
    _ = run(&plan, until: 60_000, requests: { _ in 1 }) { job, now in
      guard case .check(let url) = job else { return usual(job, now) }
      checks[url, default: 0] += 1
      return url == bad ? .failed(.rejection(code: 500_000, message: "")) : .done
    }
    #expect(checks[good] ?? 0 >= 28)
    #expect(checks[bad] ?? 0 >= 3)
  }

  @Test("B35: a message that cannot be read comes again with its own wait, and the channel's news meanwhile")
  func heldBack() {
    var plan = settled(1)
    let url = ChannelURL("c0")
    plan.open(OpenView(id: "v", channel: url, isAtNewest: true), now: 0)
    var tries: [Int64] = []
    var checks = 0
    var isGood = false
    plan.noteWebhook(.message, in: url, message: 7, now: 0)
    let step: (SyncJob, Int64) -> Outcome = { job, now in
      switch job {
      case .message:
        tries.append(now)
        return isGood ? .done : .failed(.unreadable(reason: "cut"))
      case .check: checks += 1
      default: break
      }
      return usual(job, now)
    }
    _ = run(&plan, until: 120_000, requests: { _ in 1 }, outcome: step)
    check(checks >= 50, "\(checks) looks at the newest end in two minutes, one each two seconds")
    check((5...30).contains(tries.count), "\(tries)")
    check(plan.link.isOnline)
    isGood = true
    let before = tries.count
    _ = run(&plan, from: 120_000, until: 200_000, requests: { _ in 1 }, outcome: step)
    check(tries.count == before + 1, "asked once more, within the longest wait, and not again")
  }

  @Test("B3, B35: answers that cannot be decoded ask for a probe, which alone says whether the link is down")
  func unreadableAnswers() {
    var plan = settled(2)
    let url = ChannelURL("c0")
    _ = plan.takeAnnouncements()
    let bad = UpstreamError.unreadable(reason: "<html>")
    var probes = 0
    _ = run(&plan, until: 60_000, requests: { _ in 1 }) { job, now in
      if job == .probe { probes += 1 }
      if case .channelChanges = job { return .failed(bad) }
      return usual(job, now)
    }
    check(plan.link.isOnline && plan.takeAnnouncements().isEmpty)
    check(probes <= 12, "\(probes) probes in a minute")
    plan.open(OpenView(id: "v", channel: url, isAtNewest: true), now: 60_000)
    _ = run(&plan, from: 60_000, until: 75_000, requests: { _ in 1 }) { _, _ in .failed(bad) }
    check(plan.link.state == .offline(.unreachable))
  }

  @Test("B11: the first listing goes page by page and ends in a sweep; a failed page comes again")
  func listing() {
    var plan = online()
    plan.add(alice, isSynced: false, isCached: false, now: 0)
    var jobs: [SyncJob] = []
    var hasFailed = false
    var pace = plan.pace
    pace.userPoll = 1
    _ = run(&plan, until: 20_000, requests: { _ in 1 }) { job, now in
      jobs.append(job)
      switch job {
      case .list(_, nil): return .listed(next: "p2", channels: [])
      case .list(_, "p2") where !hasFailed:
        hasFailed = true
        return .failed(.unusable(reason: "status 502"))
      default: return usual(job, now)
      }
    }
    #expect(
      jobs.prefix(6) == [
        .connect(alice), .list(alice, after: nil), .list(alice, after: "p2"), .list(alice, after: "p2"),
        .endSweep(alice), .channelChanges(alice),
      ])
    check(plan.status(of: alice)?.isSynced == true)
  }

  @Test("B11: who is listed whole by one answer needs no poll at once, if a changelog is known")
  func listedAtOnce() throws {
    var plan = online()
    func listed(_ user: UserID, isOnePage: Bool) throws -> UserWork {
      plan.add(user, isSynced: false, isCached: false, now: 0)
      for outcome in [.acknowledged, .allListed([], isOnePage: isOnePage)] as [Outcome] {
        for job in plan.next(now: 0) where job.user == user {
          // A client that asks meanwhile waits for the listing alone.
          plan.users[user]?.isAwaited = true
          plan.ended(job, outcome, now: 0)
        }
      }
      return try #require(plan.users[user])
    }
    let first = try listed(alice, isOnePage: true)
    #expect(first.isSynced && first.isCatchingUp && first.pollAt == 0, "is there a changelog?")
    plan.learn(.channelChangelog, isOffered: true)
    let whole = try listed(UserID("bob"), isOnePage: true)
    #expect(whole.isSynced && whole.phase == .steady && !whole.isCatchingUp && !whole.isJustListed)
    #expect(whole.pollAt > 0 && whole.pollAt <= plan.userInterval(now: 0))
    let paged = try listed(UserID("carol"), isOnePage: false)
    #expect(paged.isSynced && paged.isCatchingUp && paged.isJustListed && paged.pollAt == 0)
  }

  @Test("B11: without a channel changelog page one is asked every 30 s and everything every 10 min")
  func withoutChangelog() {
    var plan = settled(0)
    var tops = 0
    var sweeps = 0
    _ = run(&plan, until: 25 * 60_000, requests: { _ in 1 }) { job, now in
      switch job {
      case .channelChanges: return .lacks(.channelChangelog)
      case .topChannels: tops += 1
      case .endSweep: sweeps += 1
      default: break
      }
      return usual(job, now)
    }
    #expect((46...51).contains(tops))
    #expect(sweeps == 3, "one at once, because the changes since the last poll are unknown")
  }

  @Test(
    "B33: prefetch goes most recently active first, five requests a second, and one a second while clients wait"
  )
  func prefetch() {
    var plan = settled(0)
    for index in 0..<20 {
      plan.know(
        ChannelURL("p\(index)"), isPrefetched: false, isUnverified: false, lastMessageAt: Int64(index), now: 0
      )
    }
    plan.isForegroundWaiting = true
    let early = run(&plan, until: 3500, requests: { if case .prefetch = $0 { 1 } else { 0 } }, outcome: usual)
    #expect(early == 4)
    plan.isForegroundWaiting = false
    var urls: [String] = []
    var now: Int64 = 3500
    while now < 5500 {
      for job in plan.next(now: now) {
        if case .prefetch(let url) = job { urls.append(url.text) }
        plan.ended(job, usual(job, now), now: now)
      }
      now += 10
    }
    #expect(urls.prefix(3) == ["p15", "p14", "p13"])
    #expect((13...16).contains(urls.count), "a burst of 5, then 5 a second")
  }

  @Test("B33: channels that somebody has opened in the last month are prefetched before all others")
  func prefetchByNeed() {
    var plan = settled(0)
    for index in 0..<1_000 {
      plan.know(
        ChannelURL("p\(index)"), isPrefetched: false, isUnverified: false, lastMessageAt: Int64(index),
        isUsed: index % 300 == 7, now: 0)
    }
    let urls = (Int64(1)...5).flatMap { now in
      plan.next(now: now * 1_000).compactMap { job -> String? in
        plan.ended(job, usual(job, now * 1_000), now: now * 1_000)
        if case .prefetch(let url) = job { return url.text }
        return nil
      }
    }
    #expect(urls.prefix(5) == ["p907", "p607", "p307", "p7", "p999"])
  }

  @Test("B3: offline, nothing but probes goes out, and the comeback looks at everything open at once")
  func comeback() {
    var plan = settled(1)
    let url = ChannelURL("c0")
    plan.open(OpenView(id: "v", channel: url, isAtNewest: true), now: 0)
    let dark = UpstreamError.unreachable(reason: "", mayHaveArrived: true)
    var offline: [SyncJob] = []
    _ = run(&plan, until: 120_000, requests: { _ in 1 }) { job, now in
      if now > 5_000 { offline.append(job) }
      return now > 2_000 ? .failed(dark) : usual(job, now)
    }
    #expect(!offline.isEmpty && offline.allSatisfy { $0 == .probe })
    check(plan.link.state == .offline(.unreachable))
    plan.urge(now: 120_000)
    check(plan.next(now: 120_000) == [.probe])
    plan.ended(.probe, .done, now: 120_000)
    check(Set(plan.next(now: 120_000)) == [.channelChanges(alice), .check(url)])
  }

  @Test("B3: a server that says when to come back is asked then and not before")
  func comeBackLater() {
    let busy = UpstreamError.unusable(reason: "status 503", retryAfter: 90_000)
    var plan = settled(1)
    let url = ChannelURL("c0")
    plan.open(OpenView(id: "v", channel: url, isAtNewest: true), now: 0)
    check(plan.next(now: 0).contains(.check(url)))
    plan.ended(.check(url), .failed(busy), now: 0)
    check(plan.link.isOnline, "one failure is forgiven")
    check(!plan.next(now: 89_000).contains(.check(url)))
    check(plan.next(now: 90_000).contains(.check(url)))
    plan.ended(.check(url), .failed(busy), now: 90_000)
    for job in plan.running { plan.ended(job, .failed(busy), now: 90_000) }
    check(plan.link.state == .offline(.unreachable))
    check(plan.link.nextProbeAt == 180_000)
    check(plan.next(now: 180_000) == [.probe])
    plan.ended(.probe, .failed(busy), now: 180_000)
    check(plan.link.nextProbeAt == 270_000)
  }

  @Test("B58: after a clear a job that began before it means nothing, and all is asked for again")
  func cleared() {
    var plan = online()
    plan.add(alice, isSynced: true, isCached: true, now: 0)
    _ = plan.next(now: 0)
    plan.ended(.connect(alice), .acknowledged, now: 0)
    plan.know(ChannelURL("a"), isPrefetched: false, isUnverified: false, lastMessageAt: 1, now: 0)
    plan.know(ChannelURL("b"), isPrefetched: true, isUnverified: false, lastMessageAt: 1, now: 0)
    #expect(plan.next(now: 0) == [.channelChanges(alice), .prefetch(ChannelURL("a"))])
    plan.cleared(ChannelURL("a"), now: 0)
    plan.ended(.prefetch(ChannelURL("a")), .prefetched(isComplete: true), now: 0)
    #expect(plan.next(now: 0) == [.prefetch(ChannelURL("a"))])
    plan.clearedEverything(now: 0)
    #expect(plan.next(now: 0).isEmpty, "nothing overtakes itself")
    plan.ended(.channelChanges(alice), .changed([], hasMore: false), now: 0)
    #expect(plan.status(of: alice)?.isSynced == false)
    #expect(plan.next(now: 0) == [.list(alice, after: nil)])
    plan.ended(.prefetch(ChannelURL("a")), .channelGone, now: 0)
    #expect(plan.channels[ChannelURL("b")] == nil)
  }

  @Test("a channel that is gone is left alone, and polled again for its open views once somebody is in it")
  func goneWithView() {
    var plan = online()
    let url = ChannelURL("a")
    plan.open(OpenView(id: "v", channel: url, isAtNewest: true), now: 0)
    #expect(plan.next(now: 0) == [.check(url)])
    plan.ended(.check(url), .channelGone, now: 0)
    #expect(plan.next(now: 1_000_000).isEmpty && plan.channels.watched.isEmpty)
    var other = plan
    plan.know(url, isPrefetched: true, isUnverified: false, lastMessageAt: 1, now: 0)
    plan.attend(url, now: 0)
    #expect(plan.next(now: 0) == [.check(url)] && plan.channels.watched == [url])
    other.noteWebhook(.channel, in: url, message: 0, now: 0)
    #expect(other.next(now: 0).contains(.refresh(url)), "a webhook says that somebody came")
    plan.ended(.check(url), .channelGone, now: 0)
    plan.close(view: "v", in: url)
    #expect(!plan.isOpen(url))
  }

  @Test("B34: reads that webhooks tell are fetched once a second for a channel, other changes at once")
  func gatheredReads() {
    var run = PlanRun(users: 1, open: 0)
    run.go(until: 1_000) { _, _, _ in }
    let url = ChannelURL("c0")
    run.plan.know(url, isPrefetched: true, isUnverified: false, lastMessageAt: 1, now: run.now)
    run.plan.attend(url, isOfNobody: false, isResting: false, now: run.now)
    var refreshes: [Int64] = []
    func go(until end: Int64) {
      run.go(until: end) { job, began, _ in if job == .refresh(url) { refreshes.append(began) } }
    }
    let start = run.now
    for moment in stride(from: start, to: start + 5_000, by: 50) {
      run.plan.noteWebhook(.channel, in: url, message: 0, isRead: true, now: run.now)
      go(until: moment + 50)
    }
    #expect(refreshes.first == start && (5...6).contains(refreshes.count), "\(refreshes)")
    #expect(zip(refreshes, refreshes.dropFirst()).allSatisfy { $1 - $0 >= 1_000 }, "\(refreshes)")
    refreshes = []
    let renamed = run.now
    run.plan.noteWebhook(.channel, in: url, message: 0, isRead: true, now: renamed)
    run.plan.noteWebhook(.channel, in: url, message: 0, now: renamed)
    go(until: renamed + 300)
    #expect(refreshes.count == 1 && refreshes[0] - renamed < 200, "a name does not wait: \(refreshes)")
  }

  @Test(
    "B11: with a channel changelog no sweep is due after ten minutes, and nothing wakes the worker for one")
  func noSweepIsDue() throws {
    var plan = online()
    plan.add(alice, isSynced: false, isCached: true, now: 0)
    for outcome in [.acknowledged, .listed(next: nil, channels: []), .done] as [Outcome] {
      for job in plan.next(now: 0) { plan.ended(job, outcome, now: 0) }
    }
    let later = plan.pace.sweep + 1
    for job in plan.next(now: later) {
      #expect(job == .channelChanges(alice))
      plan.ended(job, .changed([], hasMore: false), now: later)
    }
    #expect(plan.next(now: later).isEmpty)
    let poll = try #require(plan.wakeAt(now: later))
    #expect((later...later + plan.pace.userPoll).contains(poll))
    #expect(plan.next(now: poll) == [.channelChanges(alice)], "it wakes for a poll")
  }

  @Test("B34: users who connected together are not polled together")
  func polledApart() {
    var plan = online()
    let users = 600
    for index in 0..<users { plan.add(UserID("u\(index)"), isSynced: true, isCached: true, now: 0) }
    var polls: [Int64: Int] = [:]
    _ = run(&plan, until: 3 * plan.pace.userPoll, requests: { _ in 1 }) { job, now in
      polls[now / 3_000, default: 0] += 1
      return PlanRun.usual(job)
    }
    #expect(polls.removeValue(forKey: 0)! >= 2 * users, "each user's first poll comes with the connect")
    // An interval of 30 s has ten parts of 3 s.
    #expect(polls.values.allSatisfy { $0 < users / 10 * 2 }, "\(polls)")
    #expect(polls.values.reduce(0, +) >= 2 * users)
  }

  @Test("B5: a lone user is closed by the second refusal only after another call proved the key good")
  func loneUser() {
    let refusal = Outcome.failed(.rejection(code: 400301, message: "gone"))
    for isKeyGood in [true, false] {
      var plan = online()
      plan.add(alice, isSynced: true, isCached: true, now: 0)
      #expect(plan.next(now: 0) == [.connect(alice)])
      plan.ended(.connect(alice), refusal, now: 0)
      #expect(plan.next(now: 0) == [.probe], "nobody else asks anything")
      plan.ended(.probe, isKeyGood ? .done : refusal, now: 0)
      #expect(plan.link.isOnline && plan.next(now: 59_999).isEmpty)
      #expect(plan.next(now: 60_000) == [.connect(alice)])
      plan.ended(.connect(alice), refusal, now: 60_000)
      #expect((plan.status(of: alice)?.phase == .closed) == isKeyGood)
    }
  }
}
