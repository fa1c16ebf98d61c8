import ChatCache
import ChatModel
import Platform
import Testing

@testable import ChatSync

/// `WorkerRequests` as the routes use it, over a worker between a fake server and a store in memory.
@Suite(.timeLimit(.minutes(5)))
struct WorkerRequestsTests {
  private struct Desk {
    let world = World()
    let syncRequests: WorkerRequests

    init(channels: [Int] = [], _ before: (World) -> Void = { _ in }) async throws {
      for (index, count) in channels.enumerated() {
        world.upstream.join(world.alice, ChannelURL("c\(index)"))
        for number in 0..<count { world.upstream.send(ChannelURL("c\(index)"), "m\(number)") }
      }
      before(world)
      syncRequests = WorkerRequests(world.worker)
      try await world.worker.start()
    }

    func admit(_ user: UserID, within: Int = 30_000) async -> Result<UserConnection, SyncError> {
      await withCheckedContinuation { done in
        syncRequests.admit(user, within: within) { done.resume(returning: $0) }
      }
    }

    func connect(_ user: UserID, within: Int = 30_000) async -> Result<UserConnection, SyncError> {
      await withCheckedContinuation { done in
        syncRequests.connect(user, within: within) { done.resume(returning: $0) }
      }
    }

    func fetch(_ wanted: MessageSyncRequest, within: Int = 30_000) async -> SyncOutcome {
      await withCheckedContinuation { done in
        syncRequests.fetch(wanted, for: world.alice, within: within) { done.resume(returning: $0) }
      }
    }

    func find(_ url: String, within: Int = 30_000) async -> Result<Bool, SyncError> {
      await withCheckedContinuation { done in
        syncRequests.find(ChannelURL(url), as: world.alice, within: within) { done.resume(returning: $0) }
      }
    }

    func forget(_ user: UserID, isForced: Bool) async -> Result<Int64, SyncError> {
      await withCheckedContinuation { done in
        syncRequests.forget(user, isForced: isForced) { done.resume(returning: $0) }
      }
    }

    func steady() async -> Bool {
      await World.wait { syncRequests.connection(of: world.alice).progress.phase == .steady }
    }
  }

  @Test("B2: a first request waits for the upstream's word, later ones do not; progress ends steady")
  func admitted() async throws {
    let desk = try await Desk(channels: [5, 250])
    #expect(desk.syncRequests.seen(desk.world.alice) == .undecided)
    let connection = try await desk.admit(desk.world.alice).get()
    #expect(connection.state == .online && connection.error == nil)
    #expect(desk.syncRequests.seen(desk.world.alice) == .admitted)
    #expect(await desk.steady())
    let end = desk.syncRequests.connection(of: desk.world.alice)
    #expect(end.isSynced && end.progress.channelsDone == 2 && end.progress.channelsTotal == 2)
    await desk.world.worker.stop()
  }

  @Test("B2: nobody of that name is 403, an upstream that cannot be had is 503 with a time to come again")
  func refused() async throws {
    let desk = try await Desk(channels: [1])
    let nobody = UserID("nobody")
    #expect(await desk.admit(nobody) == .failure(.userUnknown))
    #expect(desk.syncRequests.seen(nobody) == .refused(.userUnknown))
    await desk.world.worker.stop()

    let dark = try await Desk(channels: [1]) { $0.upstream.state.withLock { $0.fault = { _ in .refuse } } }
    guard case .failure(.unreachable(.unreachable, let wait)) = await dark.connect(dark.world.alice) else {
      Issue.record("nothing is cached and nobody answers")
      return
    }
    #expect(wait >= 1_000)
    await dark.world.worker.stop()
  }

  @Test("B2, B4: offline a cached user is served with an error; stopped stays stopped until connected again")
  func offlineAndStopped() async throws {
    let desk = try await Desk(channels: [5])
    let alice = desk.world.alice
    _ = try await desk.connect(alice).get()
    desk.world.upstream.state.withLock { $0.fault = { _ in .refuse } }
    #expect(await World.wait { desk.syncRequests.connection(of: alice).state == .offline })
    #expect(desk.syncRequests.seen(alice) == .admitted)
    let offline = try await desk.connect(alice).get()
    guard case .unreachable(.unreachable, _)? = offline.error else {
      Issue.record("a user and an error")
      return
    }
    #expect(desk.syncRequests.link.isOffline)
    desk.world.upstream.state.withLock { $0.fault = { _ in .none } }
    await desk.world.worker.urge()
    #expect(await World.wait { desk.syncRequests.connection(of: alice).state == .online })
    await withCheckedContinuation { done in
      desk.syncRequests.disconnect(alice) { _ in done.resume() }
    }
    #expect(
      desk.syncRequests.seen(alice) == .admitted && desk.syncRequests.connection(of: alice).state == .stopped)
    #expect(desk.world.store.state.withLock { $0.users[alice]?.isStopped } == true)
    #expect(try await desk.connect(alice).get().state == .online)
    await desk.world.worker.stop()
  }

  @Test("B4: forgetting a user with unsent messages changes nothing but counts them; forced, nothing is left")
  func forgotten() async throws {
    let desk = try await Desk(channels: [5])
    let alice = desk.world.alice
    _ = try await desk.connect(alice).get()
    #expect(await desk.steady())
    desk.world.store.state.withLock { $0.users[alice]?.unsent = 2 }
    #expect(await desk.forget(alice, isForced: false) == .success(2))
    #expect(
      desk.syncRequests.connection(of: alice).state == .online && desk.syncRequests.seen(alice) == .admitted)
    let calls = desk.world.upstream.state.withLock { $0.calls }
    #expect(await World.wait { desk.world.upstream.state.withLock { $0.calls } > calls }, "syncing goes on")
    #expect(await desk.forget(alice, isForced: true) == .success(0))
    #expect(desk.syncRequests.seen(alice) != .admitted)
    #expect(try desk.world.store.knownUsers().isEmpty)
    #expect(try await desk.connect(alice).get().state == .online)
    #expect(await desk.steady())
    await desk.world.worker.stop()
  }

  @Test("B4, B60: a disconnect that cannot be stored is refused, and the user's sync goes on")
  func refusedDisconnect() async throws {
    let desk = try await Desk(channels: [5])
    let alice = desk.world.alice
    _ = try await desk.connect(alice).get()
    #expect(await desk.steady())
    desk.world.store.state.withLock { $0.refusesStop = true }
    let result = await withCheckedContinuation { done in
      desk.syncRequests.disconnect(alice) { done.resume(returning: $0) }
    }
    #expect(throws: SyncError.self) { try result.get() }
    #expect(await World.wait { desk.syncRequests.connection(of: alice).state == .online })
    let calls = desk.world.upstream.state.withLock { $0.calls }
    #expect(await World.wait { desk.world.upstream.state.withLock { $0.calls } > calls }, "syncing goes on")
    await desk.world.worker.stop()
  }

  @Test("B4: an answer about the user that comes after the disconnect does not connect the user again")
  func disconnectedMeanwhile() async throws {
    let desk = try await Desk(channels: [5])
    let alice = desk.world.alice
    desk.world.upstream.state.withLock { $0.userDelay = 50 }
    for isForgotten in [false, true] {
      let calls = desk.world.upstream.state.withLock { $0.userCalls }
      desk.syncRequests.connect(alice, within: 0) { _ in }
      #expect(await World.wait { desk.world.upstream.state.withLock { $0.userCalls } > calls })
      if isForgotten {
        #expect(await desk.forget(alice, isForced: true) == .success(0))
      } else {
        await withCheckedContinuation { done in desk.syncRequests.disconnect(alice) { _ in done.resume() } }
      }
      #expect(await World.wait { desk.world.upstream.state.withLock { $0.usersAnswered } > calls })
      let known = try desk.world.store.knownUsers()
      #expect(known.allSatisfy { $0.isStopped } && (!isForgotten || known.isEmpty))
      #expect(desk.syncRequests.connection(of: alice).state != .online)
    }
    await desk.world.worker.stop()
  }

  @Test(
    "B15: a request below what is covered is fetched; one that takes too long is late and comes all the same")
  func pages() async throws {
    let desk = try await Desk(channels: [600])
    let url = ChannelURL("c0")
    _ = try await desk.connect(desk.world.alice).get()
    #expect(await desk.steady())
    let store = desk.world.store
    let gap = try #require(store.state.withLock { $0.channels[url]?.coverage.gaps.last })
    #expect(
      await desk.fetch(MessageSyncRequest(url, .older(than: gap.range.upperBound.next, rows: 100))) == .stored
    )
    #expect(try store.line(of: url)?.rows ?? 0 >= 299)
    #expect(
      await desk.fetch(MessageSyncRequest(url, .around(1_700_000_000_005, older: 5, newer: 5))) == .stored)
    #expect(store.state.withLock { $0.channels[url]?.coverage.gaps.count } == 2, "a stretch of its own")
    desk.world.upstream.state.withLock { $0.fault = { _ in .slow } }
    let oldest = try #require(try store.line(of: url)?.oldest)
    #expect(await desk.fetch(MessageSyncRequest(url, .older(than: oldest, rows: 100)), within: 0) == .late)
    #expect(await World.wait { (try? store.line(of: url))??.rows ?? 0 >= 399 })
    await desk.world.worker.stop()
  }

  @Test("B12, B24: a millisecond with more messages than a page holds is paged through")
  func crowdedMillisecond() async throws {
    let url = ChannelURL("c0")
    let desk = try await Desk(channels: [5]) { world in
      for number in 0..<500 { world.upstream.send(url, "x\(number)", sameMillisecond: true) }
      for number in 0..<250 { world.upstream.send(url, "y\(number)") }
    }
    _ = try await desk.connect(desk.world.alice).get()
    #expect(await desk.steady())
    let store = desk.world.store
    var pages = 0
    while let gap = store.state.withLock({ $0.channels[url]?.coverage.gaps.last }), pages < 12 {
      pages += 1
      #expect(
        await desk.fetch(MessageSyncRequest(url, .older(than: gap.range.upperBound.next, rows: 100)))
          == .stored)
    }
    #expect(pages < 12, "each page goes on")
    #expect(World.difference(desk.world.upstream, store, url, newest: 755) == nil)
    await desk.world.worker.stop()
  }

  @Test("B28: a page asked for at the newest end of an open view does not hide what is counted as missing")
  func newestUnderView() async throws {
    let desk = try await Desk(channels: [50])
    let url = ChannelURL("c0")
    _ = try await desk.connect(desk.world.alice).get()
    #expect(await desk.steady())
    let view = OpenView(id: "v", channel: url, isAtNewest: true)
    desk.syncRequests.opened(view, isOwedAnswer: true)
    #expect(await World.wait { desk.world.store.state.withLock { $0.answered["v"] == 1 } })
    for number in 0..<250 { desk.world.upstream.send(url, "n\(number)") }
    #expect(await desk.fetch(MessageSyncRequest(url, .newest)) == .stored)
    #expect(World.difference(desk.world.upstream, desk.world.store, url, newest: 300) == nil)
    #expect(desk.syncRequests.pollInterval(of: url) == World.pace.openPoll)
    desk.syncRequests.closed(view: "v", in: url)
    #expect(await World.wait { desk.syncRequests.pollInterval(of: url) == World.pace.userPoll })
    await desk.world.worker.stop()
  }

  @Test("B1: an unknown channel is asked for while the first sync runs, and after it nobody is asked")
  func unknownChannels() async throws {
    let desk = try await Desk(channels: [3]) { world in
      // The listing cannot end: the channels' pages fail, single channels do not.
      world.upstream.state.withLock { $0.isListingBroken = true }
    }
    world(desk).join(UserID("bob"), ChannelURL("secret"))
    _ = try await desk.connect(desk.world.alice).get()
    #expect(await desk.find("c0") == .success(true))
    #expect(await desk.find("secret") == .success(false))
    #expect(await desk.find("nowhere") == .success(false))
    world(desk).state.withLock { $0.fault = { _ in .refuse } }
    #expect(await World.wait { desk.syncRequests.link.isOffline })
    for url in ["secret", "nowhere"] {
      guard case .failure(.notSynced) = await desk.find(url) else {
        Issue.record("\(url) is alike")
        continue
      }
    }
    world(desk).state.withLock {
      $0.fault = { _ in .none }
      $0.isListingBroken = false
    }
    await desk.world.worker.urge()
    #expect(await desk.steady())
    let calls = world(desk).state.withLock { $0.channelCalls }
    #expect(await desk.find("nowhere") == .success(false))
    #expect(world(desk).state.withLock { $0.channelCalls } == calls)
    await desk.world.worker.stop()
  }

  /// A worker with one slot and 40 users of three channels each, who wait for each other's listings; the last
  /// one is not listed yet.
  private func crowd() async throws -> (FakeUpstream, SyncWorker, last: UserID) {
    let (upstream, users) = (FakeUpstream(), (0..<40).map { UserID("u\($0)") })
    for user in users {
      for number in 0..<3 { upstream.join(user, ChannelURL("\(user.text)-\(number)")) }
    }
    var pace = World.pace
    pace.jobs = 1
    let worker = SyncWorker(upstream: upstream, store: MemoryStore(), pace: pace, seed: 1)
    let requests = WorkerRequests(worker)
    try await worker.start()
    await worker.connect(users[0])
    #expect(await World.wait { requests.connection(of: users[0]).isSynced })
    upstream.state.withLock { $0.fault = { _ in .slow } }
    for user in users.dropFirst() { await worker.connect(user) }
    #expect(await World.wait { await worker.plan.users[users[39]]?.isCached == true })
    return (upstream, worker, users[39])
  }

  @Test("B1, B11: who names channels before the listing is listed at once, and no channel is asked for alone")
  func firstPage() async throws {
    let (upstream, worker, last) = try await crowd()
    let found = await withTaskGroup(of: Result<Bool, SyncError>.self) { group in
      for number in 0..<3 {
        group.addTask { await worker.find(ChannelURL("\(last.text)-\(number)"), as: last) }
      }
      return await group.reduce(into: []) { $0.append($1) }
    }
    #expect(found == Array(repeating: .success(true), count: 3))
    let calls = upstream.state.withLock { $0.channelCalls }
    #expect(calls == 0, "one list instead of three channels")
    #expect(await worker.find(ChannelURL("u0-0"), as: last) == .success(false), "another's channel")
    await worker.stop()
  }

  @Test("B1, B15: where the list of channels is slow, a channel that a client names is asked for alone")
  func slowList() async throws {
    let (upstream, worker, last) = try await crowd()
    upstream.state.withLock { $0.listDelay = 60_000 }
    let began = Clock.system.monotonicNanoseconds()
    #expect(await worker.find(ChannelURL("\(last.text)-0"), as: last) == .success(true))
    #expect(Clock.system.monotonicNanoseconds() - began < 30_000_000_000)
    #expect(await worker.plan.withoutSlot.contains(.list(last, after: nil)), "the list goes on")
    await worker.stop()
  }

  @Test("B1, B30: who asks for the channels before the listing causes one request, which leaves a slot free")
  func listedOnce() async throws {
    let (upstream, worker, last) = try await crowd()
    #expect(await worker.fetchChannels(of: last) == .stored)
    #expect(await worker.plan.users[last]?.isSynced == true)
    #expect(upstream.state.withLock { $0.lists[last] } == [.listing])
    await worker.stop()
  }

  @Test("B1, B30: the most recent channels, for which a client waits, leave a slot free, too")
  func mostRecentChannels() async throws {
    let (upstream, worker, last) = try await crowd()
    upstream.state.withLock { $0.isListingBroken = true }
    guard case .failed = await worker.fetchChannels(of: last) else {
      Issue.record("a broken list is no answer")
      return
    }
    let asked = upstream.state.withLock { $0.lists[last] }
    #expect(asked?.filter { $0 != .background } == [.listing, .listing])
    await worker.stop()
  }

  @Test("B1 B58: a cleared channel is asked for before the worker hears of the clearing")
  func clearedChannel() async throws {
    let desk = try await Desk(channels: [3])
    _ = try await desk.connect(desk.world.alice).get()
    #expect(await desk.steady())
    // The store as the commit of a clearing leaves it; the worker is told right after.
    desk.world.store.state.withLock {
      $0.users[desk.world.alice]?.isSynced = false
      $0.users[desk.world.alice]?.channels = [:]
    }
    #expect(await desk.find("c0") == .success(true))
    await desk.world.worker.stop()
  }

  @Test("B4: what an idle user left open is not polled, and is looked at with the next request")
  func idleViews() async throws {
    let (upstream, time, bob) = (FakeUpstream(), ManualClock(), UserID("bob"))
    let (hers, his) = (ChannelURL("hers"), ChannelURL("his"))
    upstream.join(World().alice, hers)
    upstream.join(bob, his)
    for url in [hers, his] { upstream.send(url, "one") }
    let worker = SyncWorker(
      upstream: upstream, store: MemoryStore(), pace: World.pace, clock: time.clock, seed: 1)
    let syncRequests = WorkerRequests(worker)
    try await worker.start()
    for user in [World().alice, bob] {
      _ = syncRequests.seen(user)
      #expect(await World.wait { syncRequests.connection(of: user).progress.phase == .steady })
    }
    func listings(_ url: ChannelURL) -> Int { upstream.state.withLock { $0.listings[url] ?? 0 } }
    /// Moves time until the worker has listed his channel `looks` more times.
    func pass(_ looks: Int) async -> Bool {
      let wanted = listings(his) + looks
      return await World.wait {
        time.advance(World.pace.openPoll)
        _ = syncRequests.seen(bob)
        await worker.urge()
        return listings(his) >= wanted
      }
    }
    for url in [hers, his] {
      syncRequests.opened(OpenView(id: url.text, channel: url, isAtNewest: true), isOwedAnswer: true)
    }
    let before = listings(hers)
    #expect(await pass(10))
    #expect(listings(hers) > before + 3, "both are polled")
    time.advance(31 * 60_000)
    #expect(await pass(3))
    #expect(syncRequests.connection(of: World().alice).state == .idle)
    let left = listings(hers)
    #expect(await pass(20))
    #expect(listings(hers) <= left + 1, "at most what was under way")
    let rested = listings(hers)
    _ = syncRequests.seen(World().alice)
    #expect(await World.wait { listings(hers) > rested }, "she is back")
    let back = listings(hers)
    #expect(await pass(10))
    #expect(listings(hers) > back + 3)
    await worker.stop()
  }

  private func world(_ desk: Desk) -> FakeUpstream { desk.world.upstream }

  @Test("B34: a webhook that cannot be read says so, one of no interest or of nobody's channel names nothing")
  func webhooks() async throws {
    let desk = try await Desk(channels: [2])
    _ = try await desk.connect(desk.world.alice).get()
    #expect(await desk.steady())
    func deliver(_ text: String) async -> Result<Int, SyncError> {
      await withCheckedContinuation { done in
        desk.syncRequests.takeWebhook(Array(text.utf8)) { done.resume(returning: $0) }
      }
    }
    #expect(await deliver("<html>") == .failure(.unreadable(field: nil)))
    #expect(await deliver("[]") == .failure(.unreadable(field: nil)))
    #expect(await deliver("{}") == .failure(.unreadable(field: "category")))
    #expect(await deliver(#"{"category":"open_channel:enter","channel":{"channel_url":"x"}}"#) == .success(0))
    #expect(
      await deliver(#"{"category":"group_channel:message_send","channel":{"channel_url":"x"}}"#)
        == .success(0))
    #expect(
      await deliver(#"{"category":"group_channel:message_send","channel":{"channel_url":"c0"}}"#)
        == .success(1))
    #expect(await World.wait { desk.world.store.state.withLock { $0.notes.isEmpty } })
    await desk.world.worker.stop()
  }
}
