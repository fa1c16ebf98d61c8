import ChatCache
import ChatModel
import TestSupport
import Testing

@testable import ChatSync

/// Members' polls leave out the members and read positions of crowded channels.
@Suite(.timeLimit(.minutes(5)))
struct PositionsTests {
  private static let room = ChannelURL("room")
  private static let small = ChannelURL("small")

  /// Alice is in a crowded channel with so many read positions, and in a small one.
  private func world(positions: Int = 101, isCrowded: Bool = true) async throws -> World {
    let world = World()
    world.upstream.join(world.alice, Self.room)
    world.upstream.join(world.alice, Self.small)
    world.upstream.state.withLock { $0.positions = [Self.room: positions, Self.small: 2] }
    if isCrowded { world.store.state.withLock { $0.crowded = [Self.room] } }
    try await world.worker.start()
    _ = await world.worker.connect(world.alice, waitMilliseconds: 5_000)
    try await polled(world)
    return world
  }

  /// Whether each poll asked for read positions, from the first one after that many.
  private func polls(_ world: World, after count: Int) -> ArraySlice<Bool> {
    world.upstream.state.withLock { ($0.polls[world.alice] ?? []).dropFirst(count) }
  }

  private func count(_ world: World) -> Int { polls(world, after: 0).count }

  /// Waits until a poll has told all changes until now. Returns whether each poll asked for read positions.
  @discardableResult
  private func polled(_ world: World) async throws -> [Bool] {
    let before = count(world)
    let end = world.upstream.state.withLock { $0.token($0.log.count) }
    let isDone = await World.wait {
      world.store.state.withLock { $0.users[world.alice]?.token } == end && count(world) >= before + 3
    }
    try #require(isDone)
    return Array(polls(world, after: before))
  }

  @Test("B10, B34: after a poll that told of a crowded channel alone, polls leave out read positions")
  func leftOut() async throws {
    let world = try await world()
    world.upstream.send(Self.room, "one")
    #expect(try await polled(world).contains(false), "a poll has told of the room alone")
    #expect(polls(world, after: count(world) - 1) == [false])
    world.upstream.send(Self.room, "two")
    #expect(try await polled(world).allSatisfy { !$0 })
    await world.worker.stop()
  }

  @Test("B10: if another channel changed, the poll is repeated with read positions")
  func repeated() async throws {
    let world = try await world()
    world.upstream.send(Self.room, "one")
    try await polled(world)
    let before = count(world)
    world.upstream.send(Self.small, "one")
    world.upstream.send(Self.room, "two")
    try await polled(world)
    let asked = polls(world, after: before)
    let repeated = asked.drop { !$0 }
    #expect(asked.first == false && !repeated.isEmpty && repeated.allSatisfy { $0 }, "\(asked)")
    world.upstream.send(Self.room, "three")
    try await polled(world)
    #expect(polls(world, after: count(world) - 1) == [false], "the room is alone again")
    await world.worker.stop()
  }

  @Test("B34: what polls leave out is fetched once for all members, over failures")
  func refreshed() async throws {
    let world = try await world()
    world.upstream.send(Self.room, "one")
    try await polled(world)
    #expect(world.store.state.withLock { $0.notes }.isEmpty, "the poll had the positions")
    let before = world.upstream.state.withLock { state in
      state.isChannelBroken = true
      return state.channelCalls
    }
    for number in 0..<20 {
      world.upstream.send(Self.room, "m\(number)")
      try await polled(world)
    }
    let tokens = world.store.state.withLock { $0.notesAtTokens.suffix(20) }
    let note = Webhook.Note(kind: .channel, channel: Self.room, source: .read)
    for notes in tokens { #expect(notes.map(\.channel) == [note.channel] && notes[0].source == .read) }
    world.upstream.state.withLock { $0.isChannelBroken = false }
    #expect(await World.wait { world.store.state.withLock { $0.notes.isEmpty } })
    #expect(world.upstream.state.withLock { $0.channelCalls } > before)
    await world.worker.stop()
  }

  @Test("B34: a refresh whose note was settled meanwhile asks as one member, however many there are")
  func settledMeanwhile() async throws {
    let world = try await world()
    for name in ["bob", "carol", "dave"] {
      world.upstream.join(UserID(name), Self.room)
      _ = await world.worker.connect(UserID(name), waitMilliseconds: 5_000)
    }
    #expect(await World.wait { (try? world.store.connectedMembers(of: Self.room).count) == 4 })
    let before = world.upstream.state.withLock { $0.channelCalls }
    await world.worker.hearLate(Self.room)
    #expect(await World.wait { await world.worker.isRefreshOver(Self.room) })
    #expect(world.upstream.state.withLock { $0.channelCalls } == before + 1)
    await world.worker.stop()
  }

  @Test("B35: a server that refuses to leave them out is asked for all, without another listing")
  func refusedThen() async throws {
    let world = try await world()
    world.upstream.state.withLock { $0.refusesPollsWithout = true }
    world.upstream.send(Self.room, "one")
    try await polled(world)
    let lists = world.upstream.state.withLock { $0.lists[world.alice]?.count }
    for text in ["two", "three"] {
      world.upstream.send(Self.room, text)
      try await polled(world)
    }
    #expect(polls(world, after: 0).filter { !$0 }.count == 1, "refused once, and not tried again")
    #expect(world.upstream.state.withLock { $0.lists[world.alice]?.count } == lists)
    await world.worker.stop()
  }

  @Test(
    "B10: a server that gives all nevertheless is not asked for the channel",
    arguments: [[], [.members], [.positions], [.members, .positions]] as [Set<FakeUpstream.Part>])
  func given(without: Set<FakeUpstream.Part>) async throws {
    let world = try await world()
    world.upstream.send(Self.room, "one")
    try await polled(world)
    let before = world.upstream.state.withLock { state in
      state.leavesOut = without
      return state.channelCalls
    }
    world.upstream.send(Self.room, "two")
    #expect(try await polled(world).allSatisfy { !$0 })
    #expect(await World.wait { world.store.state.withLock { $0.notes.isEmpty } })
    #expect((world.upstream.state.withLock { $0.channelCalls } == before) == without.isEmpty)
    await world.worker.stop()
  }

  @Test("B10: such a poll asks the chat server for neither, others for both", arguments: [true, false])
  func wire(hasMembers: Bool) {
    let endpoint = Endpoint.channelChanges(of: UserID("alice"), since: .time(0), hasMembers: hasMembers)
    for name in ["show_member", "show_read_receipt"] {
      #expect(endpoint.query.filter { $0.name == name }.map(\.value) == ["\(hasMembers)"])
    }
  }

  @Test("B10: few read positions, and those of channels that few are in here, come with each poll")
  func few() async throws {
    for world in [try await world(positions: 100), try await world(isCrowded: false)] {
      for text in ["one", "two"] {
        world.upstream.send(Self.room, text)
        #expect(try await polled(world).allSatisfy { $0 })
      }
      await world.worker.stop()
    }
  }
}

extension SyncWorker {
  /// The plan hears of a note that a refresh has already settled.
  fileprivate func hearLate(_ url: ChannelURL) {
    plan.noteWebhook(.channel, in: url, message: 0, now: now)
    turn()
  }

  fileprivate func isRefreshOver(_ url: ChannelURL) -> Bool {
    plan.channels[url].map { !$0.isRefreshDue && !$0.isBusy } ?? false
  }
}
