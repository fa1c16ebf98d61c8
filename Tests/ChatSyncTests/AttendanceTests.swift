import ChatCache
import ChatModel
import Platform
import TestSupport
import Testing

@testable import ChatSync

/// Channels are polled while a connected user in them is active, however many members are not.
@Suite(.timeLimit(.minutes(5)))
struct AttendanceTests {
  private let upstream = FakeUpstream()
  private let time = ManualClock()
  private let store = MemoryStore()
  private let room = ChannelURL("room")

  private func worker(_ users: [UserID]) async throws -> SyncWorker {
    let worker = SyncWorker(
      upstream: upstream, store: store, pace: World.pace, clock: time.clock, seed: 1)
    try await worker.start()
    for user in users {
      upstream.join(user, room)
      await worker.seen(user)
      #expect(await World.wait { await worker.plan.users[user]?.isSynced == true })
    }
    return worker
  }

  /// Waits until the channel rests, or does not.
  private func rests(_ worker: SyncWorker, _ isResting: Bool) async -> Bool {
    await World.wait { await worker.plan.channels[self.room]?.isResting == isResting }
  }

  @Test("B4: one active user among many idle ones keeps a channel polled, wherever the user's row is")
  func oneOfMany() async throws {
    let users = (10..<60).map { UserID("u\($0)") }
    let worker = try await worker(users)
    var random = Seeded(4)
    let some = (0..<20).map { _ in users.randomElement(using: &random) }
    for active in [users[0], users[25], users[49], nil] + some {
      time.advance(31 * 60_000)
      if let active { await worker.seen(active) }
      await worker.urge()
      let isSettled = await World.wait {
        await worker.urge()
        for user in users {
          let isIdle = await worker.plan.users[user]?.state.phase == .idle
          if isIdle == (user == active) { return false }
        }
        return true
      }
      #expect(isSettled)
      #expect(await rests(worker, active == nil), "\(String(describing: active))")
    }
    await worker.stop()
  }

  @Test("B4: whoever comes while others go idle keeps the channel polled")
  func coming() async throws {
    let users = (10..<60).map { UserID("u\($0)") }
    let worker = try await worker(users)
    for round in 0..<30 {
      time.advance(31 * 60_000)
      // The first turn lets all rest. These come while their channels are looked at.
      await worker.urge()
      for _ in 0..<round % 7 { await Task.yield() }
      await worker.seen(users[round])
      await worker.hasLooked()
      #expect(await worker.plan.channels[room]?.isResting == false, "round \(round)")
    }
    await worker.stop()
  }

  @Test("B4: a look that began before somebody came does not end as if nobody had")
  func overtaken() async throws {
    let users = (100..<300).map { UserID("u\($0)") }
    let worker = try await worker(users)
    var met = 0
    for round in 0..<20 {
      time.advance(31 * 60_000)
      await worker.urge()
      await worker.hasLooked()
      #expect(await worker.plan.channels[room]?.isResting == true)
      let look = Task { await worker.sort([room]) }
      for _ in 0..<100 where await worker.looksUnderWay.isEmpty { await Task.yield() }
      for _ in 0..<round % 5 { await Task.yield() }
      if await !worker.looksUnderWay.isEmpty { met += 1 }
      await worker.seen(users[15])
      await worker.sortChannels(of: users[15])
      await worker.hasLooked()
      await look.value
      #expect(await worker.plan.channels[room]?.isResting == false, "round \(round)")
    }
    #expect(met > 0, "no look was under way when somebody came")
    await worker.stop()
  }

  @Test("B4: of thousands who go idle at once, not each has all members read", arguments: [false, true])
  func atOnce(isOneActive: Bool) async throws {
    let users = (100..<300).map { UserID("u\($0)") }
    let worker = try await worker(users)
    time.advance(31 * 60_000)
    let before = store.state.withLock { $0.pages }
    if isOneActive { await worker.seen(users[199]) }
    await worker.urge()
    for user in users.dropLast() {
      #expect(await World.wait { await worker.plan.users[user]?.state.phase == .idle })
    }
    await worker.hasLooked()
    #expect(await worker.plan.channels[room]?.isResting == !isOneActive)
    let pages = store.state.withLock { $0.pages } - before
    #expect(pages < 60, "\(pages) pages of members for 200 users who rest")
    try await worker.disconnect(users[199])
    #expect(await worker.plan.channels[room]?.isResting == true)
    await worker.stop()
  }

  @Test("B4: a view that a disconnected user opens does not make a channel of idle users polled")
  func stopped() async throws {
    let (alice, bob) = (UserID("alice"), UserID("bob"))
    let worker = try await worker([alice, bob])
    try await worker.disconnect(bob)
    time.advance(31 * 60_000)
    await worker.urge()
    #expect(await rests(worker, true))
    await worker.open(OpenView(id: "his", channel: room, isAtNewest: true), isNew: true)
    await worker.hasLooked()
    #expect(await worker.plan.channels[room]?.isResting == true)
    await worker.stop()
  }

  @Test("B4: who is added again, when all others are idle, goes on with the old view")
  func addedAgain() async throws {
    let (alice, bob) = (UserID("alice"), UserID("bob"))
    let worker = try await worker([alice, bob])
    await worker.open(OpenView(id: "his", channel: room, isAtNewest: true), isNew: true)
    try await worker.endMembership(of: bob, in: room, .channelRefresh)
    time.advance(31 * 60_000)
    await worker.seen(bob)
    await worker.urge()
    #expect(await rests(worker, true), "his membership is over")
    #expect(
      await World.wait {
        time.advance(World.pace.userPoll)
        await worker.seen(bob)
        await worker.urge()
        return await worker.plan.channels[room]?.isResting == false
      }, "his poll tells that he is in it")
    await worker.stop()
  }

  @Test("B4: a channel in which all were idle is polled when an active user joins it and opens a view")
  func joining() async throws {
    let (alice, bob) = (UserID("alice"), UserID("bob"))
    let worker = try await worker([alice])
    time.advance(31 * 60_000)
    await worker.urge()
    #expect(await rests(worker, true))
    upstream.join(bob, room)
    await worker.seen(bob)
    #expect(await World.wait { await worker.plan.users[bob]?.isSynced == true })
    await worker.open(OpenView(id: "his", channel: room, isAtNewest: true), isNew: true)
    func listings() -> Int { upstream.state.withLock { $0.listings[room] ?? 0 } }
    #expect(await World.wait { listings() > 0 })
    let before = listings()
    #expect(
      await World.wait {
        time.advance(World.pace.openPoll)
        await worker.seen(bob)
        await worker.urge()
        return listings() > before + 3
      }, "the view is polled")
    await worker.stop()
  }
}

extension SyncWorker {
  /// Returns when all looks at channels that began before this call have ended.
  fileprivate func hasLooked() async {
    await withCheckedContinuation { continuation in afterOthers { continuation.resume() } }
  }
}

/// The order in which the members of a channel are read.
@Suite struct MemberRoundTests {
  @Test("B4: a round reads everyone who is there all the while, whoever comes or goes", arguments: 1...200)
  func everyone(seed: UInt64) {
    var random = Seeded(seed)
    func key() -> Int64 { Int64.random(in: 1...90, using: &random) }
    var members = Set((0..<Int.random(in: 0...35, using: &random)).map { _ in key() })
    let first = [nil, 0, 1, 90, 95, key()].randomElement(using: &random)!
    var round = MemberRound(from: first.map { UserKey($0) })
    var (stayed, read, pages) = (members, Set<Int64>(), 0)
    while true {
      let page = members.sorted().filter { $0 > round.after.rawValue }.prefix(MemberRound.pageRows)
      read.formUnion(page)
      pages += 1
      guard round.goOn(after: page.map { UserKey($0) }) else { break }
      if Bool.random(using: &random) { members.insert(key()) }
      if Bool.random(using: &random), let gone = members.randomElement(using: &random) {
        members.remove(gone)
        stayed.remove(gone)
      }
    }
    #expect(stayed.isSubset(of: read), "from \(String(describing: first))")
    #expect(pages <= 9, "\(pages) pages")
  }
}
