import ChatModel
import Platform
import TestSupport
import Testing

@testable import ChatCache
@testable import ChatSync

/// When the plan gives lanes their turns.
struct SendingPlanTests {
  private static let alice = UserID("alice")
  private static let lane = OutboxLaneName(user: alice, channel: ChannelURL("c0"))
  private static let send = SyncJob.send(lane)

  /// A plan whose user is known, at rest, with a row to send.
  private func plan(jobs: Int = Pace().jobs) -> Plan {
    var pace = Pace()
    pace.jobs = jobs
    var plan = Plan(pace: pace, seed: 1)
    _ = plan.next(now: 0)
    plan.ended(.probe, .done, now: 0)
    plan.add(Self.alice, isSynced: true, isCached: true, now: 0)
    plan.know(ChannelURL("c0"), isPrefetched: true, isUnverified: false, lastMessageAt: 0, now: 0)
    for job in plan.next(now: 0) { plan.ended(job, .acknowledged, now: 0) }
    for job in plan.next(now: 0) { plan.ended(job, .listed(next: nil, channels: []), now: 0) }
    for job in plan.next(now: 0) { plan.ended(job, .done, now: 0) }
    return plan
  }

  @Test("B58: a clear of everything while something is sent leaves its lane free")
  func cleared() {
    var plan = plan()
    plan.outboxChanged(Self.lane, now: 1)
    #expect(plan.next(now: 1).contains(Self.send))
    plan.clearedEverything(now: 2)
    plan.ended(Self.send, .drained(nextTryIn: nil), now: 3)
    #expect(plan.lanes[Self.lane]?.isBusy != true)
  }

  @Test("B58: while everything is being cleared nothing but sends begins, and then everything begins again")
  func beingCleared() {
    var plan = plan()
    plan.isClearing = true
    plan.clearedEverything(now: 1)
    plan.outboxChanged(Self.lane, now: 1)
    #expect(plan.next(now: 2) == [Self.send])
    plan.ended(Self.send, .drained(nextTryIn: nil), now: 3)
    #expect(plan.next(now: 100_000).isEmpty && plan.wakeAt(now: 100_000) ?? .max > 101_000)
    plan.isClearing = false
    plan.clearedEverything(now: 100_001)
    #expect(plan.next(now: 100_002) == [.list(Self.alice, after: nil)])
  }

  @Test("B58: while everything is being cleared users connect, the longest wait first, a failed one again")
  func connectingMeanwhile() throws {
    var plan = plan(jobs: 2)
    plan.isClearing = true
    plan.clearedEverything(now: 1)
    let users = (0..<40).map { UserID("new\($0)") }
    for (number, user) in users.enumerated() { plan.connect(user, now: 2 + Int64(number)) }
    var asked: [UserID] = []
    var now: Int64 = 100
    while case let jobs = plan.next(now: now), !jobs.isEmpty {
      for job in jobs {
        #expect(job == .connect(try #require(job.user)))
        asked.append(try #require(job.user))
        plan.ended(job, asked.count == 1 ? .storeFailed : .acknowledged, now: now)
      }
      now += 1
    }
    #expect(asked == users)
    let again = try #require(plan.wakeAt(now: now))
    #expect(plan.next(now: again) == [.connect(users[0])])
  }

  @Test("B67: at a start nothing is sent before the upstream has told what became of its user")
  func firstTheUser() {
    var plan = Plan(pace: Pace(), seed: 1)
    _ = plan.next(now: 0)
    plan.ended(.probe, .done, now: 0)
    plan.add(Self.alice, isSynced: true, isCached: true, now: 0)
    plan.know(ChannelURL("c0"), isPrefetched: true, isUnverified: false, lastMessageAt: 0, now: 0)
    plan.outboxChanged(Self.lane, now: 0)
    let changes = SyncJob.channelChanges(Self.alice)
    #expect(plan.next(now: 0) == [.connect(Self.alice)])
    plan.ended(.connect(Self.alice), .acknowledged, now: 1)
    #expect(plan.next(now: 1) == [changes])
    plan.ended(changes, .changed([], hasMore: false), now: 2)
    #expect(plan.next(now: 2).contains(Self.send))
  }

  @Test("B43: what is accepted while the lane's turn ends is sent at once")
  func acceptedAtTheEnd() {
    var plan = plan()
    plan.outboxChanged(Self.lane, now: 1)
    #expect(plan.next(now: 1).contains(Self.send))
    plan.outboxChanged(Self.lane, now: 2)
    plan.ended(Self.send, .drained(nextTryIn: 30_000), now: 3)
    #expect(plan.lanes[Self.lane]?.dueAt == 3)
  }

  @Test("B30: twelve sends share a slot. At a limited rate none joins another before other work")
  func sharedSlots() {
    var plan = plan()
    plan.met(.rateLimited(milliseconds: 1), now: 0)
    let lanes = (1...80).map { OutboxLaneName(user: Self.alice, channel: ChannelURL("lane\($0)")) }
    for lane in lanes { plan.outboxChanged(lane, now: 1) }
    let first = plan.next(now: 1).filter(\.isSend)
    #expect(first.count == 12 * plan.pace.jobs)
    let url = ChannelURL("c0")
    plan.open(OpenView(id: "v", channel: url, isAtNewest: true), now: 2)
    for number in 0..<11 {
      plan.ended(first[number], .drained(nextTryIn: nil), now: 2)
      #expect(plan.next(now: 2).isEmpty, "a part of a slot is free, and the view waits for the rest")
    }
    plan.ended(first[11], .drained(nextTryIn: nil), now: 3)
    #expect(plan.next(now: 3) == [.check(url)])
    plan.ended(first[12], .drained(nextTryIn: nil), now: 4)
    #expect(plan.next(now: 4).map(\.isSend) == [true], "nothing else is due")
  }

  @Test("B30: sends join others in their first slot although other work is due, but not at a limited rate")
  func joinedSlot() {
    for isLimited in [false, true] {
      var plan = plan()
      if isLimited { plan.met(.rateLimited(milliseconds: 1), now: 0) }
      for number in 1...3 { plan.open(view("v\(number)"), now: 1) }
      #expect(plan.next(now: 1).count == 3)
      let lanes = (1...20).map { OutboxLaneName(user: Self.alice, channel: ChannelURL("lane\($0)")) }
      plan.outboxChanged(lanes[0], now: 2)
      #expect(plan.next(now: 2) == [.send(lanes[0])])
      plan.open(view("v4"), now: 3)
      for lane in lanes.dropFirst() { plan.outboxChanged(lane, now: 3) }
      let joined = plan.next(now: 3)
      #expect(joined.allSatisfy(\.isSend) && joined.count == (isLimited ? 0 : 11), "\(joined)")
    }
  }

  @Test(
    "B30, B35: listings leave one of several slots free, for sends and for new users", arguments: [1, 2, 4])
  func besideListings(jobs: Int) {
    var plan = plan(jobs: jobs)
    for number in 0..<9 { plan.add(UserID("new\(number)"), isSynced: false, isCached: true, now: 1) }
    var listings: [SyncJob] = []
    for now in 1..<40 as Range<Int64> {
      for job in plan.next(now: now) {
        if case .list = job { listings.append(job) } else { plan.ended(job, .acknowledged, now: now) }
      }
    }
    #expect(listings.count == max(1, jobs - 1))
    #expect(plan.wakeAt(now: 40) ?? .max > 41, "listings that may not begin keep nobody awake")
    plan.outboxChanged(Self.lane, now: 41)
    let sends = plan.next(now: 41)
    #expect(sends == (jobs > 1 ? [Self.send] : []))
    for job in sends { plan.ended(job, .drained(nextTryIn: nil), now: 42) }
    plan.add(UserID("late"), isSynced: false, isCached: false, now: 43)
    #expect(plan.next(now: 43) == (jobs > 1 ? [.connect(UserID("late"))] : []))
  }

  @Test("B30: lanes that are due all the time leave other work its turns", arguments: [1, 4])
  func dueAllTheTime(jobs: Int) {
    var plan = plan(jobs: jobs)
    let lanes = (1...80).map { OutboxLaneName(user: Self.alice, channel: ChannelURL("lane\($0)")) }
    for lane in lanes { plan.outboxChanged(lane, now: 1) }
    var running = plan.next(now: 1)
    plan.open(view("v"), now: 2)
    plan.noteWebhook(.newest, in: ChannelURL("c0"), message: 0, now: 2)
    var begun: Set<SyncJob> = []
    for now in 3..<400 as Range<Int64> {
      let job = running.removeFirst()
      plan.ended(job, job.isSend ? .drained(nextTryIn: 0) : PlanRun.usual(job), now: now)
      for lane in lanes { plan.outboxChanged(lane, now: now) }
      let next = plan.next(now: now)
      begun.formUnion(next)
      running += next
    }
    #expect(begun.isSuperset(of: [.check(ChannelURL("v")), .news(ChannelURL("c0"))]), "\(begun.count)")
    #expect(begun.contains { $0.isSend })
  }

  private func view(_ name: String) -> OpenView {
    OpenView(id: name, channel: ChannelURL(name), isAtNewest: true)
  }

  @Test("B43: what is unsent waits for the first look at its user's channels, and for no later one")
  func besidePolls() {
    var plan = plan()
    let changes = SyncJob.channelChanges(Self.alice)
    #expect(plan.next(now: 600_000).contains(changes))
    plan.ended(changes, .changed([], hasMore: false), now: 600_001)
    plan.outboxChanged(Self.lane, now: 1_200_000)
    let jobs = plan.next(now: 1_200_000)
    #expect(jobs.contains(Self.send) && jobs.contains(changes), "\(jobs)")
  }

  @Test("B43: what is unsent waits for a look at its open channel after a loss, and for no later one")
  func openChannelLater() {
    var plan = plan()
    let url = ChannelURL("c0")
    plan.open(OpenView(id: "v", channel: url, isAtNewest: true), now: 1)
    plan.outboxChanged(Self.lane, now: 1)
    let jobs = plan.next(now: 1)
    #expect(jobs.contains(.check(url)) && jobs.contains(Self.send), "\(jobs)")
  }

  @Test("B42: after a loss, a look at an open channel that fails holds no send; the plan sleeps meanwhile")
  func openChannel() throws {
    var plan = plan()
    let url = ChannelURL("c0")
    plan.open(OpenView(id: "v", channel: url, isAtNewest: true), now: 0)
    for job in plan.next(now: 0) { plan.ended(job, .checked(isPrefetched: true, isInDoubt: false), now: 0) }
    for _ in 0..<9 { plan.met(.unreachable(reason: "", mayHaveArrived: false), now: 1) }
    #expect(!plan.link.isOnline)
    plan.outboxChanged(Self.lane, now: 1)
    plan.met(nil, now: 1)
    var jobs = plan.next(now: 1)
    if let changes = jobs.first(where: { $0.user == Self.alice }) {
      #expect(!jobs.contains(Self.send))
      plan.ended(changes, .changed([], hasMore: false), now: 1)
      jobs += plan.next(now: 1)
    }
    #expect(jobs.contains(.check(url)) && !jobs.contains(Self.send))
    let wake = try #require(plan.wakeAt(now: 1))
    #expect(wake > 100, "a lane that may not go is no reason to wake: \(wake)")
    plan.ended(.check(url), .failed(.rejection(code: 400108, message: "")), now: 2)
    let retry = try #require(plan.channels[url]?.retryAt)
    #expect(retry > 2)
    jobs = plan.next(now: 2)
    #expect(jobs == [Self.send])
  }

  @Test("B43 B60: how a job ended is handed in again where the commit that was to take it in failed")
  func failedCommit() async throws {
    let world = World()
    world.upstream.join(world.alice, ChannelURL("c0"))
    let lane = OutboxLaneName(user: world.alice, channel: ChannelURL("c0"))
    let turns = Guarded(0)
    let handed = Guarded<[OutboxLane.Outcome?]>([])
    let job = OutboxJob(
      row: 1, job: .send, kind: .message, requestID: try #require(RequestID("r1")), target: nil,
      targetKind: .user, aspect: "", params: Array(#"{"message":"hello"}"#.utf8))
    world.store.advances.withLock {
      $0 = { ended in
        handed.withLock { $0.append(ended?.outcome) }
        switch turns.withLock({ turn in
          turn += 1
          return turn
        }) {
        case 1: return LaneProgress(begun: job)
        case 2: throw CacheError.unreadable("the disk is full")
        default: return LaneProgress()
        }
      }
    }
    try await world.worker.start()
    await world.worker.connect(world.alice)
    await world.worker.accepted(in: [lane])
    #expect(await World.wait { handed.withLock { $0.count } >= 3 })
    let outcomes = handed.withLock { $0 }
    #expect(outcomes.count == 3 && outcomes[0] == nil && outcomes[1] != nil && outcomes[2] == outcomes[1])
    await world.worker.stop()
  }
}
