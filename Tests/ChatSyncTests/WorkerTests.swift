import ChatCache
import ChatModel
import Platform
import TestSupport
import Testing

@testable import ChatSync

/// A worker between a fake server and a store in memory, with a pace a test can wait for.
struct World {
  let upstream = FakeUpstream()
  let store = MemoryStore()
  let worker: SyncWorker
  let alice = UserID("alice")

  static var pace: Pace {
    var pace = Pace()
    pace.openPoll = 10
    pace.userPoll = 20
    pace.sweep = 200
    pace.verify = 50
    pace.requestsPerSecond = 0
    pace.prefetchRate = 0
    pace.webhookNoteDelay = 5
    pace.maximumBackoff = 20
    return pace
  }

  init() { worker = World.worker(upstream, store, 1) }

  static func worker(_ upstream: FakeUpstream, _ store: MemoryStore, _ seed: UInt64) -> SyncWorker {
    SyncWorker(upstream: upstream, store: store, pace: World.pace, seed: seed)
  }

  /// Waits until `holds` returns true, for at least `seconds` and at least as many checks as an idle machine
  /// makes in that time: among many tests, the awaited work gets no more processor time than these checks.
  static func wait(seconds: Double = 10, _ holds: () async -> Bool) async -> Bool {
    let end = Clock.system.monotonicNanoseconds() + UInt64(seconds * patience * 1e9)
    var looks = Int(seconds * 250)
    while looks > 0 || Clock.system.monotonicNanoseconds() < end {
      if await holds() { return true }
      looks -= 1
      do { try await Task.sleep(for: .milliseconds(2)) } catch { return false }
    }
    return await holds()
  }

  /// The first difference between cache and upstream in the newest `count` messages of the channel; nil:
  /// none.
  static func difference(
    _ upstream: FakeUpstream, _ store: MemoryStore, _ url: ChannelURL, newest count: Int
  ) -> String? {
    let truth = upstream.state.withLock { $0.channels[url]?.messages ?? [] }.sorted {
      $0.position < $1.position
    }
    guard let channel = store.state.withLock({ $0.channels[url] }) else { return "\(url) is unknown" }
    let wanted = truth.suffix(count)
    let from = wanted.count < truth.count ? wanted.first?.position ?? .end : .start
    for segment in channel.coverage.segments where segment.range.upperBound >= from {
      if segment.gap != nil { return "\(url) has a gap at \(segment.range)" }
      if segment.content == .covered(isUnverified: true) { return "\(url) is unverified" }
    }
    let cached = channel.rows.values.filter { $0.position >= from }.sorted { $0.position < $1.position }
    if cached.map(\.messageID) != wanted.map(\.id) {
      let (have, want) = (Set(cached.map(\.messageID)), Set(wanted.map(\.id)))
      return "\(url): missing \(want.subtracting(have).sorted()), too many \(have.subtracting(want).sorted())"
    }
    let texts = cached.map { String(decoding: $0.body, as: UTF8.self) }
    // With `WireServer` the body is the API's message, without it the text alone.
    let isEqual = zip(texts, wanted).allSatisfy { $0 == $1.text || $0.contains("\"message\":\"\($1.text)\"") }
    return isEqual ? nil : "\(url): texts differ"
  }
}

extension SyncWorker {
  /// Connects and waits for the upstream's decision, for at most `waitMilliseconds`.
  func connect(_ user: UserID, waitMilliseconds: Int) async -> UserSyncStatus? {
    connect(user)
    await withTaskGroup(of: Void.self) { group in
      group.addTask { await self.decided(user) }
      await group.next()
    }
    return status(of: user)
  }
}

@Suite(.timeLimit(.minutes(5)))
struct WorkerTests {
  private func world(_ messages: [Int]) -> World {
    let world = World()
    for (index, count) in messages.enumerated() {
      let url = ChannelURL("c\(index)")
      world.upstream.join(world.alice, url)
      for number in 0..<count { world.upstream.send(url, "m\(number)") }
    }
    return world
  }

  @Test("B2, B11, B33: connecting lists all channels and prefetches each to 200 messages or its beginning")
  func firstSync() async throws {
    let world = world([0, 5, 150, 1000] + Array(repeating: 3, count: 130))
    try await world.worker.start()
    let status = await world.worker.connect(world.alice, waitMilliseconds: 5_000)
    #expect(status?.phase == .connected && status?.word.description == "online")
    let isDone = await World.wait {
      (0..<134).allSatisfy {
        World.difference(world.upstream, world.store, ChannelURL("c\($0)"), newest: 200) == nil
      }
    }
    #expect(isDone)
    let deep = try #require(try world.store.line(of: ChannelURL("c3")))
    #expect((200...300).contains(deep.rows), "no more than wanted and a page")
    #expect(await world.worker.status(of: world.alice)?.isSynced == true)
    await world.worker.stop()
  }

  @Test("B2: a user the upstream does not know is denied, and an unreachable upstream says so")
  func outcomes() async throws {
    let world = World()
    try await world.worker.start()
    let unknown = await world.worker.connect(UserID("nobody"), waitMilliseconds: 5_000)
    #expect(unknown?.phase == .closed && unknown?.denial?.deniesUser == true)
    await world.worker.stop()
    let dark = World()
    dark.upstream.state.withLock { $0.fault = { _ in .refuse } }
    try await dark.worker.start()
    let status = await dark.worker.connect(dark.alice, waitMilliseconds: 100)
    #expect(status?.link == .offline(.unreachable) && status?.phase == .connecting)
    await dark.worker.stop()
  }

  @Test(
    "B28: 299 and 300 messages missed in an open channel are filled, 301 are a huge gap",
    arguments: [299, 300, 301], [120, 0])
  func missed(count: Int, before: Int) async throws {
    let world = world([before])
    let url = ChannelURL("c0")
    try await world.worker.start()
    _ = await world.worker.connect(world.alice, waitMilliseconds: 5_000)
    await world.worker.open(OpenView(id: "v", channel: url, isAtNewest: true), isNew: true)
    #expect(await World.wait { World.difference(world.upstream, world.store, url, newest: 200) == nil })
    #expect(await World.wait { world.store.state.withLock { $0.answered["v"] == 1 } }, "B16: one answer")
    world.upstream.state.withLock { $0.fault = { _ in .refuse } }
    for number in 0..<count { world.upstream.send(url, "late \(number)", sameMillisecond: number % 3 > 0) }
    #expect(
      await World.wait { if case .offline = await world.worker.plan.link.state { true } else { false } })
    world.upstream.state.withLock { $0.fault = { _ in .none } }
    await world.worker.urge()
    // The newest page does not cover the millisecond in which it was cut.
    #expect(await World.wait { World.difference(world.upstream, world.store, url, newest: 97) == nil })
    func isWhole(_ rows: Int) async -> Bool {
      await World.wait { World.difference(world.upstream, world.store, url, newest: rows) == nil }
    }
    if count <= 300 {
      #expect(await isWhole(before + 300))
      #expect(world.store.state.withLock { $0.channels[url]?.hugeCount } == 0)
    } else {
      #expect(world.store.state.withLock { $0.channels[url]?.hugeCount } == 1)
      #expect(world.store.state.withLock { $0.channels[url]?.coverage.gaps.isEmpty } == false)
      let gap = try #require(try world.store.line(of: url)?.gaps.keys.max())
      await world.worker.fill(gap: gap, in: url, isWanted: true)
      #expect(await isWhole(before + 301))
    }
    await world.worker.stop()
  }

  @Test(
    "B16: a view opened while the upstream is dark is told so once, and gets its one answer after the comeback"
  )
  func openedOffline() async throws {
    let world = world([30])
    let url = ChannelURL("c0")
    try await world.worker.start()
    _ = await world.worker.connect(world.alice, waitMilliseconds: 5_000)
    #expect(await World.wait { World.difference(world.upstream, world.store, url, newest: 30) == nil })
    world.upstream.state.withLock { $0.fault = { _ in .refuse } }
    #expect(
      await World.wait { if case .offline = await world.worker.plan.link.state { true } else { false } })
    await world.worker.open(OpenView(id: "v", channel: url, isAtNewest: true), isNew: true)
    #expect(await World.wait { world.store.state.withLock { $0.refused["v"] == 1 } })
    guard
      case .failed(.unreachable(.unreachable, _)) = await world.worker.fetch(MessageSyncRequest(url, .newest))
    else {
      Issue.record("an offline link answers at once")
      return
    }
    world.upstream.state.withLock { $0.fault = { _ in .none } }
    await world.worker.urge()
    #expect(await World.wait { world.store.state.withLock { $0.answered["v"] == 1 } })
    #expect(world.store.state.withLock { $0.refused["v"] } == 1)
    await world.worker.stop()
    #expect(
      world.store.state.withLock { $0.links } == [.online, .offline(.unreachable), .online],
      "B3: told in order")
  }

  @Test("B4: all channels of a user who stops rest, however many they are, and go on when the user is back")
  func manyChannels() async throws {
    let world = world(Array(repeating: 1, count: 120))
    try await world.worker.start()
    _ = await world.worker.connect(world.alice, waitMilliseconds: 5_000)
    #expect(await World.wait { await world.worker.plan.channels.urls.count == 120 })
    for number in 0..<120 {
      let url = ChannelURL("c\(number)")
      await world.worker.open(OpenView(id: "v\(number)", channel: url, isAtNewest: true), isNew: true)
    }
    #expect(await world.worker.plan.channels.polled == 120)
    try await world.worker.disconnect(world.alice)
    #expect(await world.worker.plan.channels.polled == 0)
    _ = await world.worker.connect(world.alice, waitMilliseconds: 5_000)
    #expect(await World.wait { await world.worker.plan.channels.polled == 120 })
    await world.worker.stop()
  }

  /// A world whose channel has 500 messages, of which the newest are prefetched, and the oldest of these.
  private func prefetched(_ url: ChannelURL) async throws -> (world: World, oldest: Position) {
    let world = world([500])
    try await world.worker.start()
    _ = await world.worker.connect(world.alice, waitMilliseconds: 5_000)
    #expect(await World.wait { (try? world.store.line(of: url))??.isPrefetched(200) ?? false })
    return (world, try #require(try world.store.line(of: url)?.oldest))
  }

  @Test("B15: identical reads are one fetch, and a read beyond what is covered brings it")
  func reads() async throws {
    let url = ChannelURL("c0")
    let (world, oldest) = try await prefetched(url)
    world.upstream.state.withLock { $0.fault = { _ in .slow } }
    let wanted = MessageSyncRequest(url, .older(than: oldest, rows: 100))
    let before = world.upstream.state.withLock { $0.calls }
    await withTaskGroup(of: Void.self) { group in
      for _ in 0..<20 {
        group.addTask {
          #expect(await world.worker.fetch(wanted) == .stored)
        }
      }
    }
    #expect(world.upstream.state.withLock { $0.calls } - before <= 10, "polling may add a few")
    #expect(try world.store.line(of: url)?.rows ?? 0 >= 300)
    await world.worker.stop()
  }

  @Test("B1, B4, B5: a read fetches nothing for a user whose channels are not known since the last connect")
  func readsOfUsers() async throws {
    let url = ChannelURL("c0")
    let (world, oldest) = try await prefetched(url)
    let wanted = MessageSyncRequest(url, .older(than: oldest, rows: 100))
    try await world.worker.disconnect(world.alice)
    let before = world.upstream.state.withLock { $0.calls }
    #expect(await world.worker.fetch(wanted, for: world.alice) == .failed(.notSynced(retryAfter: 60_000)))
    #expect(await world.worker.fetchMembers(of: [url], for: world.alice) != .stored)
    #expect(world.upstream.state.withLock { $0.calls } == before)
    // The read of a user who connects again waits for the changes: by then the user has left.
    world.upstream.state.withLock { $0.fault = { _ in .slow } }
    world.upstream.join(world.alice, url, leaves: true)
    await world.worker.connect(world.alice)
    _ = await world.worker.fetch(wanted, for: world.alice)
    #expect(try world.store.connectedMembers(of: url, atMost: 1).isEmpty)
    await world.worker.stop()
  }

  @Test("B1: at a start the changes of a user whose read waits come before those of others")
  func readsFirst() async throws {
    let world = world([300])
    let url = ChannelURL("c0")
    let users = (0..<100).map { UserID("u\($0)") }
    for user in users { world.upstream.join(user, url) }
    try await world.worker.start()
    for user in users { await world.worker.connect(user) }
    #expect(
      await World.wait {
        let plan = await world.worker.plan
        return users.allSatisfy { plan.users[$0]?.isCatchingUp == false }
      })
    let oldest = try #require(try world.store.line(of: url)?.oldest)
    await world.worker.stop()
    world.upstream.state.withLock { $0.fault = { _ in .slow } }
    let worker = World.worker(world.upstream, world.store, 2)
    try await worker.start()
    let wanted = MessageSyncRequest(url, .older(than: oldest, rows: 10))
    #expect(await worker.fetch(wanted, for: users[99]) == .stored)
    let plan = await worker.plan
    #expect(users.count { plan.users[$0]?.isCatchingUp == true } >= 98)
    await worker.stop()
  }

  @Test("B34: where a channel was quiet nothing pauses between a webhook and its listing")
  func listedAtOnce() async throws {
    let url = ChannelURL("c0")
    let (upstream, store, alice) = (FakeUpstream(), MemoryStore(), UserID("alice"))
    upstream.join(alice, url)
    for number in 0..<5 { upstream.send(url, "m\(number)") }
    // All delays and polls take ten minutes.
    var pace = World.pace
    pace.webhookNoteDelay = 600_000
    pace.openPoll = 600_000
    pace.userPoll = 600_000
    let worker = SyncWorker(upstream: upstream, store: store, pace: pace, seed: 1)
    try await worker.start()
    _ = await worker.connect(alice, waitMilliseconds: 5_000)
    #expect(await World.wait { World.difference(upstream, store, url, newest: 200) == nil })
    #expect(await World.wait { await worker.tasks.isEmpty })
    let webhook = Array(
      #"{"category":"group_channel:message_send","channel":{"channel_url":"c0"}}"#.utf8)
    upstream.send(url, "news")
    #expect(await worker.takeWebhook(webhook) == .success(1))
    #expect(await World.wait { World.difference(upstream, store, url, newest: 200) == nil })
    #expect(await World.wait { await worker.tasks.isEmpty })
    // A webhook that comes soon after waits for further ones.
    upstream.send(url, "more news")
    #expect(await worker.takeWebhook(webhook) == .success(1))
    #expect(await worker.tasks.isEmpty)
    #expect(World.difference(upstream, store, url, newest: 200) != nil)
    await worker.stop()
  }

  @Test("B34: a webhook brings an edit of a channel nobody looks at; B5, B69: leaving removes the channel")
  func webhook() async throws {
    let world = world([50, 10])
    try await world.worker.start()
    _ = await world.worker.connect(world.alice, waitMilliseconds: 5_000)
    let url = ChannelURL("c0")
    #expect(await World.wait { World.difference(world.upstream, world.store, url, newest: 50) == nil })
    world.upstream.edit(url, 3, "edited")
    let id = world.upstream.state.withLock { $0.channels[url]!.messages[3].id }
    let webhook = """
      {"category":"group_channel:message_update","channel":{"channel_url":"c0"},"payload":{"message_id":\(id)}}
      """
    #expect(await world.worker.takeWebhook(Array(webhook.utf8)) == .success(1))
    #expect(await World.wait { World.difference(world.upstream, world.store, url, newest: 50) == nil })
    #expect(await World.wait { world.store.state.withLock { $0.notes.isEmpty } })
    world.upstream.join(world.alice, ChannelURL("c1"), leaves: true)
    #expect(
      await World.wait {
        world.store.state.withLock { $0.users[world.alice]?.channels[ChannelURL("c1")] } == nil
      })
    await world.worker.stop()
  }

  @Test(
    "B11, B32: without changelogs joins, leaves, sends, edits and deletes of an open channel are found all the same"
  )
  func withoutChangelogs() async throws {
    let world = world([80, 10])
    world.upstream.state.withLock { $0.lacks = [.channelChangelog, .messageChangelog] }
    try await world.worker.start()
    _ = await world.worker.connect(world.alice, waitMilliseconds: 5_000)
    let url = ChannelURL("c0")
    await world.worker.open(OpenView(id: "v", channel: url, isAtNewest: true), isNew: true)
    #expect(await World.wait { World.difference(world.upstream, world.store, url, newest: 80) == nil })
    world.upstream.edit(url, 70, "edited")
    world.upstream.delete(url, 60)
    world.upstream.send(url, "new")
    world.upstream.join(world.alice, ChannelURL("c1"), leaves: true)
    world.upstream.join(world.alice, ChannelURL("c9"))
    #expect(await World.wait { World.difference(world.upstream, world.store, url, newest: 80) == nil })
    #expect(
      await World.wait {
        world.store.state.withLock { $0.users[world.alice]?.channels.keys.map(\.text).sorted() } == [
          "c0", "c9",
        ]
      })
    #expect(
      world.store.state.withLock { $0.capabilities } == [
        .channelChangelog: false, .messageChangelog: false, .uploads: true,
      ])
    await world.worker.stop()
  }

  @Test("B11, B31: changelogs that bring nothing new write nothing")
  func quietChangelogs() async throws {
    let world = world([5])
    let url = ChannelURL("c0")
    try await world.worker.start()
    _ = await world.worker.connect(world.alice, waitMilliseconds: 5_000)
    #expect(
      await World.wait { World.difference(world.upstream, world.store, url, newest: 5) == nil })
    #expect(await World.wait { world.store.state.withLock { $0.users[world.alice]?.token != nil } })
    // The user's polls go on, each with one request.
    func calls() -> Int { world.upstream.state.withLock { $0.calls } }
    var (asked, written) = (0, Int64(0))
    #expect(
      await World.wait {
        if calls() < asked + 5, world.store.mark() == written { return false }
        if calls() >= asked + 5, world.store.mark() == written { return true }
        (asked, written) = (calls(), world.store.mark())
        return false
      })
    // An edit is still told, with the token that follows it.
    world.upstream.edit(url, 2, "edited")
    await world.worker.open(OpenView(id: "v", channel: url, isAtNewest: true), isNew: true)
    #expect(await World.wait { World.difference(world.upstream, world.store, url, newest: 5) == nil })
    await world.worker.stop()
  }
}
