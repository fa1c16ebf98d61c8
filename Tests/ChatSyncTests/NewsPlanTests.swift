import ChatCache
import ChatModel
import Testing

@testable import ChatSync

/// When the plan lists what webhooks told of (B34), and whom it lists first (B11, B30).
@Suite struct NewsPlanTests {
  private let url = ChannelURL("c0")

  /// A plan that is online, with a prefetched channel and nothing due.
  private func settled() -> Plan {
    var plan = PlanRun(users: 0, open: 0).plan
    plan.know(url, isPrefetched: true, isUnverified: false, lastMessageAt: 0, now: 0)
    return plan
  }

  @Test("B34: a quiet channel is listed at once, and once more for all that webhooks name within 100 ms")
  func notes() {
    var plan = settled()
    plan.noteWebhook(.newest, in: url, message: 0, now: 1000)
    #expect(plan.next(now: 1000) == [.news(url)])
    plan.ended(.news(url), .done, now: 1030)
    plan.noteWebhook(.newest, in: url, message: 0, now: 1040)
    plan.noteWebhook(.newest, in: url, message: 0, now: 1050)
    #expect(plan.next(now: 1099) == [])
    #expect(plan.wakeAt(now: 1099) == 1100)
    #expect(plan.next(now: 1100) == [.news(url)])
    plan.ended(.news(url), .done, now: 1101)
    plan.noteWebhook(.message, in: url, message: 7, now: 1102)
    plan.noteWebhook(.message, in: url, message: 7, now: 1103)
    #expect(plan.next(now: 1103) == [.message(url, id: 7)])
    plan.ended(.message(url, id: 7), .done, now: 1104)
    #expect(plan.next(now: 1104) == [])
  }

  @Test("B34: listings of new messages do not put off the channel's check, and a check lists them, too")
  func newsAndChecks() {
    var plan = settled()
    plan.open(OpenView(id: "v", channel: url, isAtNewest: true), now: 0)
    for job in plan.next(now: 0) { plan.ended(job, PlanRun.usual(job), now: 0) }
    let due = plan.channels[url]?.checkAt ?? 0
    for moment in stride(from: 500, to: due, by: 500) {
      plan.noteWebhook(.newest, in: url, message: 0, now: moment)
      #expect(plan.next(now: moment) == [.news(url)])
      plan.ended(.news(url), .checked(isPrefetched: true, isInDoubt: false), now: moment)
    }
    #expect(due > 0 && plan.channels[url]?.checkAt == due)
    plan.noteWebhook(.newest, in: url, message: 0, now: due - 10)
    plan.checkNow(url, now: due - 10)
    #expect(plan.next(now: due - 10).contains(.check(url)))
    plan.ended(.check(url), .checked(isPrefetched: true, isInDoubt: false), now: due)
    #expect(!plan.next(now: due + 200).contains(.news(url)), "the check listed it")
  }

  @Test("B16, B34: new messages in a channel whose check is due come with that check, which is not put off")
  func newsInNewViews() {
    var run = PlanRun(users: 0, open: 40)
    let told = ChannelURL("c39")
    run.plan.noteWebhook(.newest, in: told, message: 0, now: 0)
    let first = run.plan.next(now: 0)
    #expect(first.first == .check(told), "before views of whose channels no webhook told: \(first)")
  }

  /// A plan of open channels `c…` that have just been checked, and other channels `p…`.
  private func checked(open: Int, others: Int = 0) -> PlanRun {
    var run = PlanRun(users: 0, open: open)
    for index in 0..<others {
      let other = ChannelURL("p\(index)")
      run.plan.know(other, isPrefetched: true, isUnverified: false, lastMessageAt: 1, now: 0)
    }
    run.go(until: 20_000) { _, _, _ in }
    return run
  }

  @Test("B30, B34: news of open channels come first, and those of others have a turn of eight")
  func newsOfOthers() {
    var run = checked(open: 40, others: 40)
    let end = run.now + 5_000
    var told: [String: [Int64]] = [:]
    for index in 0..<40 {
      run.plan.noteWebhook(.newest, in: ChannelURL("p\(index)"), message: 0, now: run.now)
    }
    for index in 0..<40 {
      run.plan.noteWebhook(.newest, in: ChannelURL("c\(index)"), message: 0, now: run.now)
    }
    run.go(until: end) { job, _, ended in
      if case .news(let url) = job { told[String(url.text.prefix(1)), default: []].append(ended) }
    }
    let (open, others) = (told["c"] ?? [], told["p"] ?? [])
    #expect(open.count == 40 && others.count == 40)
    let lastOpen = open.max() ?? .max
    let early = others.count { $0 <= lastOpen }
    #expect((1...10).contains(early), "\(early) of other channels before the last open one")
  }

  @Test("B34: news of an open channel whose usual check is due are listed alone, and do not put it off")
  func newsWithoutCheck() {
    var plan = settled()
    plan.open(OpenView(id: "v", channel: url, isAtNewest: true), now: 0)
    #expect(plan.next(now: 0) == [.check(url)])
    plan.ended(.check(url), .checked(isPrefetched: true, isInDoubt: false), now: 0)
    let due = plan.channels[url]?.checkAt ?? 0
    plan.noteWebhook(.newest, in: url, message: 0, now: due + 1)
    #expect(plan.next(now: due + 1) == [.news(url)])
    plan.ended(.news(url), .checked(isPrefetched: true, isInDoubt: false), now: due + 2)
    #expect(plan.next(now: due + 2) == [.check(url)])
  }

  @Test("B16, B30: first checks for new views come before the usual checks, which have a turn of eight")
  func firstChecks() {
    var run = checked(open: 100)
    for index in 0..<100 { run.plan.channels[ChannelURL("c\(index)")]?.checkAt = run.now }
    for new in (0..<40).map({ "n\($0)" }) {
      run.plan.open(OpenView(id: new, channel: ChannelURL(new), isAtNewest: true), now: run.now)
    }
    var checks: [String] = []
    run.go(until: run.now + 3_000) { job, _, _ in
      if case .check(let url) = job { checks.append(String(url.text.prefix(1))) }
    }
    let (last, usual) = (checks.lastIndex(of: "n") ?? 0, checks.prefix(40).count { $0 == "c" })
    #expect(checks.count { $0 == "n" } == 40 && last < 60 && (2...12).contains(usual), "\(checks)")
  }

  @Test("B11, B30: users who make requests before they are listed are listed and polled at once")
  func awaitedListings() {
    var run = checked(open: 40)
    for index in 0..<40 {
      let user = UserID("u\(index)")
      run.plan.add(user, isSynced: false, isCached: true, now: run.now)
      run.plan.users[user]?.beginListing()
      run.plan.users[user]?.isAwaited = true
      run.plan.noteWebhook(.newest, in: ChannelURL("c\(index)"), message: 0, now: run.now)
    }
    var jobs: [String] = []
    run.outcome = Self.listing
    run.go(until: run.now + 2_000) { job, _, _ in jobs.append(job.name) }
    let first = jobs.prefix(40)
    let news = first.count { $0 == "news" }
    #expect(first.count == 40 && (18...30).contains(news), "the others go on: \(first)")
    let (lists, polls) = (first.count { $0 == "list" }, first.count { $0 == "channel_changes" })
    #expect(lists > 3 && polls > 3 && lists - polls <= 4, "each is listed and polled: \(first)")
  }

  @Test("B11, B30: users whose every poll begins their listing anew do not keep others from being listed")
  func tokensLost() {
    var run = checked(open: 0)
    let other = UserID("other")
    for name in (0..<8).map({ "u\($0)" }) + [other.text] {
      run.plan.add(UserID(name), isSynced: false, isCached: true, now: run.now)
      run.plan.users[UserID(name)]?.beginListing()
      if name != other.text { run.plan.users[UserID(name)]?.pollAt = 0 }
    }
    run.outcome = { job in
      if case .channelChanges(let user) = job, user != other { return .tokenLost }
      return Self.listing(job)
    }
    run.go(until: run.now + 10_000) { _, _, _ in }
    #expect(run.plan.users[other]?.isSynced == true)
  }

  @Test("B16, B30: a first check that fails stays one, a usual poll that fails becomes none")
  func failedChecks() {
    var plan = settled()
    plan.open(OpenView(id: "v", channel: url, isAtNewest: true), now: 0)
    #expect(plan.next(now: 0) == [.check(url)])
    plan.ended(.check(url), .storeFailed, now: 0)
    #expect(plan.channels[url]?.isFirstCheck == true)
    var now: Int64 = 2_000
    #expect(plan.next(now: now) == [.check(url)])
    plan.ended(.check(url), .checked(isPrefetched: true, isInDoubt: false), now: now)
    now = (plan.channels[url]?.checkAt ?? 0) + 1
    #expect(plan.next(now: now) == [.check(url)])
    plan.ended(.check(url), .storeFailed, now: now)
    #expect(plan.channels[url]?.isFirstCheck == false)
  }

  @Test("B34, B35: a check that is held back does not come with news; one that worked holds back no news")
  func held() {
    var plan = settled()
    let unreadable = Outcome.failed(.unreadable(reason: ""))
    plan.open(OpenView(id: "v", channel: url, isAtNewest: true), now: 0)
    #expect(plan.next(now: 0) == [.check(url)])
    plan.ended(.check(url), unreadable, now: 0)
    plan.noteWebhook(.newest, in: url, message: 0, now: 1)
    #expect(plan.next(now: 1) == [.news(url)])
    plan.ended(.news(url), unreadable, now: 1)
    plan.checkNow(url, now: 2)
    #expect(plan.next(now: 2).contains(.check(url)))
    plan.ended(.check(url), .checked(isPrefetched: true, isInDoubt: false), now: 3)
    plan.noteWebhook(.newest, in: url, message: 0, now: 200)
    #expect(plan.next(now: 200) == [.news(url)])
  }

  @Test("B34, B58: news that were being listed while the channel was cleared are listed again")
  func cleared() {
    var plan = settled()
    plan.noteWebhook(.newest, in: url, message: 0, now: 1)
    #expect(plan.next(now: 1) == [.news(url)])
    plan.clearedEverything(now: 2)
    plan.ended(.news(url), .failed(.unreadable(reason: "")), now: 3)
    #expect(plan.next(now: 3).contains(.news(url)))
  }

  @Test("B34: a listing of new messages that fails is due again")
  func newsAgain() {
    var plan = settled()
    let failures: [(Outcome, at: Int64)] = [(.failed(.unreadable(reason: "")), 1_000), (.storeFailed, 9_000)]
    for (failure, now) in failures {
      plan.noteWebhook(.newest, in: url, message: 0, now: now)
      #expect(plan.next(now: now) == [.news(url)])
      plan.ended(.news(url), failure, now: now)
      #expect(!plan.next(now: now).contains(.news(url)))
      #expect(plan.next(now: now + 2_000).contains(.news(url)))
      plan.ended(.news(url), .checked(isPrefetched: true, isInDoubt: false), now: now + 2_000)
    }
  }

  private static func listing(_ job: SyncJob) -> Outcome {
    if case .list = job { return .listed(next: nil, channels: []) }
    return PlanRun.usual(job)
  }

  @Test("B11: a user whose last page is stored is listed whole before other users' first pages")
  func wholeUsers() {
    var run = PlanRun(users: 0, open: 0)
    let users = (0..<200).map { UserID("u\($0)") }
    for user in users { run.plan.add(user, isSynced: false, isCached: false, now: 0) }
    run.outcome = Self.listing
    var begun: [SyncJob: Int64] = [:]
    run.go(until: 30_000) { job, began, _ in begun[job] = min(began, begun[job] ?? .max) }
    for user in users {
      let (listed, ended) = (begun[.list(user, after: nil)], begun[.endSweep(user)])
      #expect(listed != nil && (ended ?? .max) - (listed ?? 0) <= 1_000, "\(user)")
    }
  }

  @Test("B30: turns that users' polls leave go to listings of users, also where channels always have work")
  func leftTurns() {
    var run = PlanRun(users: 0, open: 100)
    for index in 0..<300 {
      run.plan.add(UserID("u\(index)"), isSynced: false, isCached: false, now: 0)
    }
    run.outcome = { job in
      if case .list = job { return .listed(next: "more", channels: []) }
      return PlanRun.usual(job)
    }
    var jobs: [String: Int] = [:]
    for second in 0..<60 {
      for index in 0..<100 {
        run.plan.noteWebhook(.newest, in: ChannelURL("c\(index)"), message: 0, now: run.now)
      }
      run.go(until: Int64(second + 1) * 1_000) { job, _, _ in
        if second >= 20 { jobs[job.name, default: 0] += 1 }
      }
    }
    // One job of five is news in the slot that they alone have.
    let all = jobs.values.reduce(0, +) * 4 / 5
    #expect(((jobs["list"] ?? 0) + (jobs["connect"] ?? 0)) * 20 >= all * 6, "\(jobs)")
  }

  @Test("B30: news of an open channel wait for no slot, except where the upstream limits the rate")
  func newsBesides() throws {
    var run = checked(open: 3)
    for index in 0..<100 {
      run.plan.add(UserID("u\(index)"), isSynced: false, isCached: false, now: run.now)
    }
    let taken = run.plan.next(now: run.now)
    #expect(taken.count == run.plan.pace.jobs)
    for index in 0..<3 {
      run.plan.noteWebhook(.newest, in: ChannelURL("c\(index)"), message: 0, now: run.now)
    }
    let first = run.plan.next(now: run.now)
    #expect(first.count == 1 && first.allSatisfy(\.isNews), "one slot for news: \(first)")
    for job in first { run.plan.ended(job, PlanRun.usual(job), now: run.now) }
    for job in run.plan.next(now: run.now) { run.plan.ended(job, PlanRun.usual(job), now: run.now) }
    for job in run.plan.next(now: run.now) { run.plan.ended(job, PlanRun.usual(job), now: run.now) }
    // News that wait for more of their channel wake the worker, though all slots are taken.
    let later = run.now + 50
    run.plan.noteWebhook(.newest, in: ChannelURL("c0"), message: 0, now: later)
    #expect(run.plan.next(now: later).isEmpty)
    let due = try #require(run.plan.wakeAt(now: later))
    #expect(due <= run.now + run.plan.pace.webhookNoteDelay && run.plan.next(now: due).allSatisfy(\.isNews))
    run.now = due
    for index in 1..<3 {
      run.plan.noteWebhook(.newest, in: ChannelURL("c\(index)"), message: 0, now: run.now + 200)
    }
    run.now += 200
    run.plan.met(.rateLimited(milliseconds: 1), now: run.now)
    #expect(run.plan.next(now: run.now).isEmpty, "no slot of its own")
    for job in taken.prefix(2) { run.plan.ended(job, PlanRun.usual(job), now: run.now) }
    #expect(run.plan.next(now: run.now).count == 2, "the slots are used in turns")
  }

  @Test("B1, B11: a client that names a channel has the first page of its user's channels listed at once")
  func firstPage() {
    var run = checked(open: 1)
    let (user, job) = (UserID("new"), SyncJob.list(UserID("new"), after: nil))
    #expect(run.plan.beginFirstPage(of: user, now: run.now) == nil, "unknown")
    for index in 0..<8 {
      run.plan.add(UserID("u\(index)"), isSynced: false, isCached: false, now: run.now)
    }
    let taken = run.plan.next(now: run.now)
    #expect(taken.count == run.plan.pace.jobs)
    run.plan.add(user, isSynced: false, isCached: true, now: run.now)
    #expect(run.plan.beginFirstPage(of: user, now: run.now) == nil, "not acknowledged")
    run.plan.endedForUser(user, .connect(user), .acknowledged, now: run.now)
    #expect(run.plan.beginFirstPage(of: user, now: run.now) == job && run.plan.withoutSlot == [job])
    #expect(run.plan.beginFirstPage(of: user, now: run.now) == nil, "it runs")
    run.plan.ended(taken[0], PlanRun.usual(taken[0]), now: run.now)
    #expect(run.plan.next(now: run.now).count == 1, "it takes no slot")
    run.plan.ended(job, .listed(next: "more", channels: []), now: run.now)
    #expect(run.plan.withoutSlot.isEmpty)
    #expect(run.plan.beginFirstPage(of: user, now: run.now) == nil, "it is stored")
  }
}
