import ChatCache
import ChatModel
import Platform
import TestSupport
import Testing

@testable import ChatSync

/// Whose rights the worker holds: those of users whose changes are not known (B1).
@Suite struct UnknownChangesTests {
  private let world = World()
  private let url = ChannelURL("c0")

  /// A webhook that says that alice and a stranger left.
  private static let leaving = Array(
    """
    {"category":"group_channel:leave","channel":{"channel_url":"c0"},
     "users":[{"user_id":"alice"},{"user_id":"stranger"}]}
    """.utf8)

  init() async throws {
    world.upstream.join(world.alice, url)
    try await world.worker.start()
    _ = await world.worker.connect(world.alice, waitMilliseconds: 5_000)
    #expect(await isHeld(false))
    #expect(await World.wait { await self.isKnown })
  }

  private var isKnown: Bool {
    get async { await world.worker.plan.users[world.alice]?.isCatchingUp == false }
  }

  private var heldUntil: Int64? { world.store.state.withLock { $0.heldUntil[world.alice] } }

  private func isHeld(_ isExpected: Bool) async -> Bool {
    await World.wait { (heldUntil != nil) == isExpected }
  }

  private func awaitChanges(milliseconds: Int) async {
    await withCheckedContinuation { continuation in
      WorkerRequests(world.worker).awaitChanges(of: world.alice, within: milliseconds) {
        continuation.resume()
      }
    }
  }

  @Test("B1: after a start until the changes are stored")
  func start() async throws {
    await world.worker.stop()
    world.upstream.state.withLock { $0.fault = { _ in .slow } }
    let worker = World.worker(world.upstream, world.store, 2)
    try await worker.start()
    #expect(heldUntil == world.store.mark())
    #expect(await isHeld(false))
    #expect(await worker.plan.users[world.alice]?.isCatchingUp == false)
    await worker.stop()
  }

  @Test("B1, B4: of a disconnected user until the next connect")
  func stopped() async throws {
    try await world.worker.disconnect(world.alice)
    let mark = world.store.mark()
    #expect(heldUntil.map { $0 <= mark } ?? false)
    await awaitChanges(milliseconds: 20)
    #expect(heldUntil == mark, "the wait ends without them")
    await world.worker.connect(world.alice)
    #expect(await isHeld(false))
    await world.worker.stop()
  }

  @Test("B1, B4: who disconnects and connects again without a link is shown nothing more for that")
  func stoppedOffline() async throws {
    world.upstream.state.withLock { $0.fault = { _ in .refuse } }
    #expect(await World.wait { await !world.worker.plan.link.isOnline })
    #expect(await isHeld(true))
    let mark = heldUntil
    try await world.worker.disconnect(world.alice)
    world.store.state.withLock { $0.sequence += 1 }
    await world.worker.connect(world.alice)
    #expect(await !world.worker.plan.link.isOnline && heldUntil == mark)
    world.upstream.state.withLock { $0.fault = { _ in .none } }
    await world.worker.urge()
    await awaitChanges(milliseconds: 5_000)
    #expect(heldUntil == nil)
    await world.worker.stop()
  }

  @Test("B1, B34: of a user who left, as a webhook says, until a poll that began after that")
  func left() async throws {
    world.upstream.state.withLock { $0.fault = { _ in .slow } }
    let mark = world.store.mark()
    #expect(try await world.worker.takeWebhook(Self.leaving).get() == 1)
    #expect(heldUntil == mark)
    #expect(await isHeld(false))
    await world.worker.stop()
  }

  @Test("B1: of a user whose polls fail alone")
  func failing() async throws {
    world.upstream.state.withLock { $0.failing = [world.alice] }
    #expect(await isHeld(true))
    #expect(await world.worker.plan.link.isOnline)
    world.upstream.state.withLock { $0.failing = [] }
    #expect(await isHeld(false))
    await world.worker.stop()
  }

  @Test("B1: of a user who came first while the link was down, when the polls fail later")
  func newWhileOffline() async throws {
    let bob = UserID("bob")
    world.upstream.join(bob, url)
    world.upstream.state.withLock { $0.fault = { _ in .refuse } }
    #expect(await World.wait { await !world.worker.plan.link.isOnline })
    await world.worker.connect(bob)
    world.upstream.state.withLock { $0.fault = { _ in .none } }
    await world.worker.urge()
    #expect(await World.wait { await world.worker.plan.users[bob]?.isSynced == true })
    world.upstream.state.withLock { $0.failing = [bob] }
    #expect(await World.wait { await world.worker.plan.users[bob]?.isUnknown == true })
    #expect(await World.wait { world.store.state.withLock { $0.heldUntil[bob] } != nil })
    await world.worker.stop()
  }

  @Test("B1, B11: of a user whose first listing met a lost link, until it has ended and a poll followed")
  func lostInFirstListing() async throws {
    let bob = UserID("bob")
    world.upstream.join(bob, url)
    world.upstream.state.withLock { $0.failing = [bob] }
    _ = await world.worker.connect(bob, waitMilliseconds: 5_000)
    world.upstream.state.withLock { $0.fault = { _ in .refuse } }
    #expect(await World.wait { await world.worker.heldRights[bob] == .unanswered })
    world.upstream.state.withLock { $0.fault = { _ in .none } }
    await world.worker.urge()
    #expect(await isHeld(false), "alice's changes are stored")
    #expect(await world.worker.heldRights[bob] == .unanswered)
    world.upstream.state.withLock { $0.failing = [] }
    #expect(await World.wait { await world.worker.heldRights[bob] == nil })
    #expect(await world.worker.plan.users[bob]?.isCatchingUp == false)
    await world.worker.stop()
  }

  @Test("B1, B5: of a user whom the upstream refused")
  func refused() async throws {
    world.upstream.state.withLock { _ = $0.users.remove(world.alice) }
    #expect(await isHeld(true))
    world.upstream.state.withLock { _ = $0.users.insert(world.alice) }
    await world.worker.stop()
  }

  @Test("B1: after a lost link until the changes are stored, and a wait for them ends then")
  func lostLink() async throws {
    world.upstream.state.withLock { $0.fault = { _ in .refuse } }
    #expect(await isHeld(true))
    let until = heldUntil
    world.upstream.state.withLock { $0.fault = { _ in .none } }
    await world.worker.urge()
    #expect(await isHeld(false))
    await awaitChanges(milliseconds: 5_000)
    #expect(until != nil && heldUntil == nil)
    await world.worker.stop()
  }

  @Test("B1: after a lost link of all users, whosever request found it lost")
  func lostByAnother() async throws {
    await world.worker.stop()
    var pace = World.pace
    pace.userPoll = 600_000
    let worker = SyncWorker(upstream: world.upstream, store: world.store, pace: pace, seed: 1)
    try await worker.start()
    #expect(await isHeld(false))
    await worker.open(OpenView(id: "v", channel: url, isAtNewest: true), isNew: true)
    world.upstream.state.withLock { $0.fault = { _ in .refuse } }
    #expect(await isHeld(true))
    await worker.stop()
  }

  @Test(
    "B1, B4: of a user who rests; who comes back without a link sees what is stored by then, unless a leaver",
    arguments: [false, true])
  func idle(hasLeft: Bool) async throws {
    await world.worker.stop()
    let (time, bob) = (ManualClock(), UserID("bob"))
    let (upstream, store, alice) = (world.upstream, world.store, world.alice)
    upstream.join(bob, ChannelURL("his"))
    let worker = SyncWorker(upstream: upstream, store: store, pace: World.pace, clock: time.clock, seed: 1)
    try await worker.start()
    for user in [alice, bob] { await worker.seen(user) }
    #expect(await isHeld(false))
    /// Moves time on until `holds` returns true, while bob makes requests.
    func pass(_ holds: () async -> Bool) async -> Bool {
      await World.wait {
        time.advance(World.pace.openPoll)
        await worker.seen(bob)
        return await holds()
      }
    }
    time.advance(31 * 60_000)
    #expect(await pass { heldUntil != nil })
    #expect(await worker.plan.users[alice]?.state.phase == .idle)
    let rested = heldUntil
    if hasLeft { #expect(try await worker.takeWebhook(Self.leaving).get() == 1) }
    upstream.send(ChannelURL("his"), "while she rests")
    #expect(await pass { store.mark() > rested ?? .max })
    #expect(heldUntil == rested)
    upstream.state.withLock { $0.fault = { _ in .refuse } }
    #expect(await pass { await !worker.plan.link.isOnline })
    await worker.seen(alice)
    #expect(heldUntil == (hasLeft ? rested : store.mark()))
    await worker.stop()
  }
}
