import ChatCache
import ChatModel
import Platform
import Testing

@testable import ChatSync

/// Fair shares (B30), and features that the upstream may lack (B32), on the plan with a clock of its own.
@Suite struct SharesTests {
  @Test("B30: a flood of one class leaves each other class its turns")
  func floors() {
    var run = PlanRun(users: 200, open: 200)
    for index in 0..<50 {
      run.plan.know(
        ChannelURL("p\(index)"), isPrefetched: false, isUnverified: false, lastMessageAt: 5, now: 0)
    }
    run.plan.add(UserID("new"), isSynced: false, isCached: true, now: 0)
    var seen: Set<String> = []
    for _ in 0..<60 {
      for index in 0..<200 {
        run.plan.noteWebhook(
          .message, in: ChannelURL("c\(index)"), message: run.now + Int64(index), now: run.now)
      }
      run.go(until: run.now + 1_000) { job, _, _ in seen.insert(job.name) }
    }
    #expect(
      seen.isSuperset(of: ["message", "check", "connect", "channel_changes", "list", "prefetch"]), "\(seen)")
  }

  @Test("B15 B30: what a client waits for goes before all that is due")
  func awaited() {
    var run = PlanRun(users: 2000, open: 300)
    run.go(until: 60_000) { _, _, _ in }
    for index in 0..<300 {
      run.plan.noteWebhook(
        .message, in: ChannelURL("c\(index)"), message: run.now + Int64(index), now: run.now)
    }
    let now = run.now
    let (channel, user) = (ChannelURL("c299"), UserID("u299"))
    run.plan.checkNow(channel, now: now)
    let isPolled = run.plan.pollNow(user, now: now)
    #expect(isPolled)
    var began: [SyncJob: Int64] = [:]
    run.go(until: now + 20_000) { job, start, _ in
      if start >= now { began[job] = min(began[job] ?? .max, start) }
    }
    #expect(began.count > 200, "all the time something else is due: \(began.count)")
    #expect(began[.check(channel)] == began.values.min(), "\(began)")
    #expect((began[.channelChanges(user)] ?? .max) - now < 500, "\(began)")
  }

  @Test("B30: clients that wait for checks and polls all the time leave every other job its turns")
  func awaitedAllTheTime() {
    var run = PlanRun(users: 60, open: 60)
    let (behind, filled) = (ChannelURL("behind"), ChannelURL("filled"))
    run.plan.know(behind, isPrefetched: false, isUnverified: false, lastMessageAt: 5, now: 0)
    run.plan.fill(gap: 1, in: filled)
    run.plan.add(UserID("new"), isSynced: false, isCached: true, now: 0)
    run.go(until: 5_000) { _, _, _ in }
    var jobs: [String: Int] = [:]
    var polls: [UserID: Int] = [:]
    let start = run.now
    while run.now < start + 60_000 {
      run.plan.isForegroundWaiting = true
      for number in 0..<8 {
        run.plan.checkNow(ChannelURL("c\(number)"), now: run.now)
        _ = run.plan.pollNow(UserID("u\(number)"), now: run.now)
      }
      run.plan.outboxChanged(OutboxLaneName(user: UserID("u9"), channel: ChannelURL("c9")), now: run.now)
      run.plan.know(behind, isPrefetched: false, isUnverified: false, lastMessageAt: 5, now: run.now)
      run.plan.fill(gap: 1, in: filled)
      run.go(until: run.now + 50) { job, _, _ in
        let isOfWaiting = job.channel.map { $0.text.hasPrefix("c") && $0.text.count == 2 } ?? false
        jobs[job.name == "check" && !isOfWaiting ? "open check" : job.name, default: 0] += 1
        if case .channelChanges(let user) = job { polls[user, default: 0] += 1 }
      }
    }
    #expect(jobs["check"] ?? 0 > 500, "what clients wait for goes first: \(jobs)")
    #expect(jobs["open check"] ?? 0 > 50 && jobs["send"] ?? 0 > 100 && jobs["list"] ?? 0 > 0, "\(jobs)")
    #expect(jobs["prefetch"] ?? 0 > 5 && jobs["fill"] ?? 0 > 5, "one a second at most: \(jobs)")
    for number in 10..<60 { #expect(polls[UserID("u\(number)")] ?? 0 > 0, "u\(number): \(polls)") }
  }

  @Test("B15: a poll that a client asks for while the user's poll runs begins when that one has ended")
  func askedMeanwhile() {
    var run = PlanRun(users: 1, open: 0)
    run.go(until: 5_000) { _, _, _ in }
    let user = UserID("u0")
    var isAsked = run.plan.pollNow(user, now: run.now)
    let poll = SyncJob.channelChanges(user)
    #expect(run.plan.next(now: run.now).contains(poll))
    isAsked = run.plan.pollNow(user, now: run.now) && isAsked
    #expect(isAsked)
    run.plan.ended(poll, .changed([], hasMore: false), now: run.now + 1)
    #expect(run.plan.next(now: run.now + 1) == [poll])
    run.plan.ended(poll, .changed([], hasMore: false), now: run.now + 2)
    #expect(run.plan.next(now: run.now + 2).isEmpty)
  }

  @Test("B30: of users of whom nothing is cached, the one who waits longest is asked about first")
  func newUsers() {
    var run = PlanRun(users: 0, open: 0)
    for index in 0..<50 {
      run.plan.add(UserID("u\(index)"), isSynced: false, isCached: false, now: Int64(index) - 50)
    }
    run.outcome = { if case .connect = $0 { .storeFailed } else { PlanRun.usual($0) } }
    var first: [UserID: Int64] = [:]
    run.go(until: 3_000) { job, began, _ in
      if case .connect(let user) = job { first[user] = min(first[user] ?? .max, began) }
    }
    let begun = (0..<50).map { first[UserID("u\($0)")] ?? .max }
    #expect(begun == begun.sorted() && begun.last != .max, "\(begun)")
  }

  @Test("B11: a sweep that is due between two polls begins with the next poll, and wakes nothing until then")
  func sweepBetweenPolls() {
    var pace = Pace()
    pace.userPoll = 27_000  // so that the sweep is due 23 s before a poll
    var run = PlanRun(users: 0, open: 0, pace: pace)
    run.plan.learn(.channelChangelog, isOffered: false, now: 0)
    run.plan.add(UserID("u"), isSynced: true, isCached: true, now: 0)
    run.outcome = { job in
      switch job {
      case .topChannels: .changed([], hasMore: false)
      case .list: .listed(next: nil, channels: [])
      default: PlanRun.usual(job)
      }
    }
    var listings: [Int64] = []
    var restless = 0
    for end in stride(from: Int64(500), through: 1_300_000, by: 500) {
      run.go(until: end) { job, began, _ in if case .list = job { listings.append(began) } }
      if run.plan.wakeAt(now: run.now) == run.now + 1 { restless += 1 }
    }
    #expect(restless < 20, "it wakes each millisecond: \(restless)")
    #expect(listings.count == 3, "at the start and every ten minutes: \(listings)")
  }

  @Test("B30: of channels and messages that webhooks named, the one that was named first goes first")
  func namedFirst() {
    for isChannelFirst in [true, false] {
      var run = PlanRun(users: 1, open: 0)
      run.go(until: 1_000) { _, _, _ in }
      let (channel, message) = isChannelFirst ? (run.now, run.now + 5) : (run.now + 5, run.now)
      run.plan.noteWebhook(.channel, in: ChannelURL("c0"), message: 0, now: channel)
      run.plan.noteWebhook(.message, in: ChannelURL("c1"), message: 7, now: message)
      let named = run.plan.next(now: run.now + 5).map(\.name).filter { ["refresh", "message"].contains($0) }
      #expect(named == (isChannelFirst ? ["refresh", "message"] : ["message", "refresh"]))
    }
  }

  @Test("B30: the only job that is due begins, whichever class has the turn", arguments: 0..<80)
  func onlyJob(turns: Int) {
    let (url, user) = (ChannelURL("c"), UserID("u"))
    let kinds: [(String, (inout Plan) -> Void)] = [
      ("settle", { $0.settle(url, now: 0) }),
      ("refresh", { $0.noteWebhook(.channel, in: url, message: 0, now: 0) }),
      ("message", { $0.noteWebhook(.message, in: url, message: 7, now: 0) }),
      ("check", { $0.open(OpenView(id: "v", channel: url, isAtNewest: true), now: 0) }),
      ("fill", { $0.fill(gap: 1, in: url) }),
      ("verify", { $0.know(url, isPrefetched: true, isUnverified: true, lastMessageAt: 1, now: 0) }),
      ("prefetch", { $0.know(url, isPrefetched: false, isUnverified: false, lastMessageAt: 1, now: 0) }),
      ("connect", { $0.add(user, isSynced: true, isCached: true, now: 0) }),
      (
        "send",
        {
          $0.add(user, isSynced: true, isCached: true, now: 0)
          for job in $0.next(now: 0) { $0.ended(job, .acknowledged, now: 0) }
          for job in $0.next(now: 0) { $0.ended(job, .changed([], hasMore: false), now: 50_000) }
          $0.outboxChanged(OutboxLaneName(user: user, channel: url), now: 0)
        }
      ),
    ]
    for (name, make) in kinds {
      var plan = PlanRun(users: 0, open: 0).plan
      plan.know(url, isPrefetched: true, isUnverified: false, lastMessageAt: 1, now: 0)
      make(&plan)
      plan.turns = turns
      #expect(plan.next(now: 20_000).map(\.name) == [name])
    }
  }

  @Test("B35: in the transport's queue a flood of clients' reads does not hold background work for ever")
  func queue() {
    var queue = RequestQueue<Int>(limit: 1, bucket: TokenBucket(rate: 0, burst: 1))
    queue.add(-1, .background)
    for number in 0..<50 { queue.add(number, .foreground) }
    var started: [Int] = []
    for _ in 0..<20 {
      guard case .start(let entry) = queue.next(now: 0) else { break }
      started.append(entry)
      queue.finished(entry < 0 ? .background : .foreground)
    }
    #expect(started.contains(-1) && started.first == 0)
  }

  @Test("B30, B35: where each class of requests waits without end, each has its turns of the rate")
  func rateByImportance() {
    var queue = RequestQueue<Importance>(limit: 4, bucket: TokenBucket(rate: 10, burst: 10))
    var started: [Importance: Int] = [:]
    for importance in Importance.allCases {
      for _ in 0..<1_000 { queue.add(importance, importance) }
    }
    var now: Int64 = 0
    while now < 60_000 {
      switch queue.next(now: now) {
      case .start(let importance):
        started[importance, default: 0] += 1
        queue.finished(importance)
      case .wait(let moment): now = moment
      default: now = 60_000
      }
    }
    #expect((600...611).contains(started.values.reduce(0, +)), "ten a second: \(started)")
    let views = started[.open] ?? 0
    #expect(abs(views - (started[.send] ?? 0)) <= 1, "sends and open views take turns: \(started)")
    #expect(min(started[.upload] ?? 0, started[.background] ?? 0) >= 50, "\(started)")
    #expect(2 * views >= 50, "\(started)")
    let own = (started[.foreground] ?? 0) + (started[.listing] ?? 0)
    #expect(own >= 420 && started[.listing] ?? 0 >= 50, "clients' own go first: \(started)")
  }

  @Test("B35: listings that clients wait for and background requests leave one slot to clients' own requests")
  func slowListings() {
    var queue = RequestQueue<Importance>(limit: 4, bucket: TokenBucket(rate: 0, burst: 1))
    for _ in 0..<8 {
      queue.add(.listing, .listing)
      queue.add(.background, .background)
    }
    func started() -> [Importance] {
      var all: [Importance] = []
      while case .start(let importance) = queue.next(now: 0) { all.append(importance) }
      return all
    }
    #expect(started() == [.listing, .listing, .listing])
    queue.add(.foreground, .foreground)
    #expect(started() == [.foreground])
    for importance in [Importance.listing, .foreground] { queue.finished(importance) }
    #expect(started() == [.listing], "one is left again")
  }

  @Test("B35: however many sends wait, a request for an open view waits for one of them, and a send for one")
  func sendsAndViews() {
    var queue = RequestQueue<Importance>(limit: 1, bucket: TokenBucket(rate: 0, burst: 1))
    var started: [Importance] = []
    func start() {
      guard case .start(let importance) = queue.next(now: 0) else { return }
      started.append(importance)
      queue.finished(importance)
    }
    for _ in 0..<48 { queue.add(.send, .send) }
    for _ in 0..<4 { start() }
    for _ in 0..<3 { queue.add(.open, .open) }
    queue.add(.foreground, .foreground)
    for _ in 0..<8 { start() }
    let turns: [Importance] = [.foreground, .open, .send, .open, .send, .open, .send, .send]
    #expect(started == Array(repeating: .send, count: 4) + turns)
  }

  @Test("B30: a limited rate is split by the same shares: each class of jobs keeps its floor of the requests")
  func rateByShare() {
    var run = PlanRun(users: 600, open: 40, rate: 10)
    for index in 0..<200 {
      run.plan.know(
        ChannelURL("p\(index)"), isPrefetched: index >= 100, isUnverified: false, lastMessageAt: 5, now: 0)
    }
    run.plan.add(UserID("listing"), isSynced: false, isCached: false, now: 0)
    run.plan.met(.rateLimited(milliseconds: 1), now: 0)
    run.outcome = { job in
      switch job {
      case .list: .listed(next: "more", channels: [])
      case .prefetch: .prefetched(isComplete: false)
      default: PlanRun.usual(job)
      }
    }
    var jobs: [String: Int] = [:]
    var checks = 0
    for second in 0..<200 {
      let now = run.now
      for index in 0..<8 { run.plan.noteWebhook(.newest, in: ChannelURL("c\(index)"), message: 0, now: now) }
      for slot in 0..<3 {
        let behind = ChannelURL("p\(100 + (3 * second + slot) % 100)")
        run.plan.met(ChannelActivity(url: behind, lastMessageAt: now + 1, isBehind: true), now: now)
        let lane = OutboxLaneName(user: UserID("u\(second)"), channel: ChannelURL("p\(slot)"))
        run.plan.outboxChanged(lane, now: now)
      }
      run.go(until: Int64(second + 1) * 1_000) { job, _, _ in
        if case .check(let url) = job, !url.text.hasPrefix("c") {
          jobs["behind", default: 0] += 1
        } else if job.name == "check" || job.name == "news" {
          jobs["views", default: 0] += 1
          if job.name == "check" { checks += 1 }
        } else {
          jobs[job.user?.text.hasPrefix("u") == true ? "users" : job.name, default: 0] += 1
        }
      }
    }
    // A check makes two requests.
    let requests = jobs.values.reduce(0, +) + checks + (jobs["behind"] ?? 0)
    #expect((1_900...2_020).contains(requests), "ten a second: \(jobs)")
    // Each class must have its turns of twenty, less a tenth.
    let floors = ["views": 6, "users": 6, "send": 5, "list": 1, "behind": 1, "prefetch": 1]
    let all = jobs.values.reduce(0, +)
    for (name, turns) in floors {
      #expect((jobs[name] ?? 0) * 20 * 10 >= turns * all * 9, "\(name), \(turns) of twenty turns: \(jobs)")
    }
  }

  @Test("B35: a pause that the upstream asks for is that kind of call's alone")
  func pauses() {
    var queue = RequestQueue<Int>(limit: 2, bucket: TokenBucket(rate: 0, burst: 1))
    queue.add(1, .foreground, endpoint: "send")
    queue.add(2, .background, endpoint: "list")
    queue.pause("send", until: 500)
    guard case .start(2) = queue.next(now: 100) else {
      Issue.record("another kind waits, too")
      return
    }
    guard case .wait(until: 500) = queue.next(now: 100) else {
      Issue.record("it did not wait")
      return
    }
    guard case .start(1) = queue.next(now: 500) else {
      Issue.record("it waits for ever")
      return
    }
  }

  @Test("B35: in a pause the service's own requests fail at once, also where all slots are taken")
  func refusedInPause() {
    var queue = RequestQueue<Int>(limit: 1, bucket: TokenBucket(rate: 0, burst: 1))
    queue.add(1, .open, endpoint: "other")
    guard case .start(1) = queue.next(now: 0) else {
      Issue.record("it does not start")
      return
    }
    queue.add(2, .open, endpoint: "list")
    queue.add(3, .background, endpoint: "list")
    queue.add(4, .foreground, endpoint: "list")
    queue.pause("list", until: 500)
    var refused: [Int] = []
    while case .refuse(let entry, until: 500) = queue.next(now: 100) { refused.append(entry) }
    #expect(refused == [2, 3])
    queue.finished(.open)
    guard case .wait(until: 500) = queue.next(now: 100), case .start(4) = queue.next(now: 500) else {
      Issue.record("a client's own request does not wait for the end")
      return
    }
  }

  @Test("B35: kinds of call are told apart, whom they concern is not; a limit that is used up is a pause")
  func kinds() {
    let path = "/v3/group_channels/c%2F1/messages"
    #expect(Endpoint.kind(.get, path) == "GET/v3/group_channels/*/messages")
    #expect(Endpoint.kind(.post, path) == "POST/v3/group_channels/*/messages")
    #expect(Endpoint.kind(.get, path + "/12") == "GET/v3/group_channels/*/messages/*")
    #expect(Endpoint.kind(.get, path + "/changelogs") == "GET/v3/group_channels/*/messages/changelogs")
    #expect(Endpoint.kind(.get, "/v3/users/bob/my_group_channels") == "GET/v3/users/*/my_group_channels")
    var headers = HTTPResponse.Headers()
    headers.rateRemaining = "0"
    headers.rateReset = "1700000003"
    #expect(Envelope.spent(headers, now: 1_700_000_000_000) == 3_000)
    headers.rateRemaining = "1"
    #expect(Envelope.spent(headers, now: 1_700_000_000_000) == nil)
  }

  @Test("B32: three refusals while others succeed count as not offered, and a day later it is tried again")
  func capabilities() {
    var offers = Capabilities()
    let first = (0..<3).map { _ in offers.refuse(.channelChangelog) }
    #expect(first == [false, false, true])
    offers.learn(.channelChangelog, isOffered: false, now: 1_000)
    offers.forgetOld(now: 86_400_999)
    #expect(offers.known[.channelChangelog] == false)
    offers.forgetOld(now: 86_401_000)
    #expect(offers.known[.channelChangelog] == nil)
    let again = offers.refuse(.channelChangelog)
    #expect(again, "then one refusal is enough")
    offers.learn(.channelChangelog, isOffered: true, now: 0)
    let later = offers.refuse(.channelChangelog)
    #expect(!later)
  }

  @Test("B2: one whom the upstream did not know is asked for again by a request, once a minute")
  func unknownUser() {
    let alice = UserID("alice")
    let refusal = Outcome.failed(.rejection(code: 400_201, message: ""))
    var plan = Plan(seed: 1)
    _ = plan.next(now: 0)
    plan.ended(.probe, .done, now: 0)
    plan.add(alice, isSynced: false, isCached: false, now: 0)
    check(plan.next(now: 0) == [.connect(alice)])
    plan.ended(.connect(alice), refusal, now: 0)
    #expect(plan.status(of: alice)?.phase == .closed)
    plan.seen(alice, now: 59_999)
    check(plan.next(now: 59_999).isEmpty)
    plan.seen(alice, now: 60_000)
    check(plan.next(now: 60_000) == [.connect(alice)])
    plan.ended(.connect(alice), .acknowledged, now: 60_000)
    #expect(plan.status(of: alice)?.phase == .connected)
  }
}
