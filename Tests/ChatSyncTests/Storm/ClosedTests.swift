import ChatModel
import Platform
import TestSupport
import Testing

@testable import ChatCache
@testable import ChatSync

/// A user whom the upstream does not know any more, over a real cache file, real sockets and the stand-in, in
/// a time that the test owns.
@Suite(.timeLimit(.minutes(5)), .serialized)
struct ClosedTests {
  private let alice = UserID("alice")
  private static let day: Int64 = 86_400_000

  private struct Desk {
    let time = ManualClock()
    let there: OriginSide
    let here: PerchSide

    init() async throws {
      there = try OriginSide(hasWebhooks: false, clock: time.clock)
      try there.makeChannel("c0", ["alice", "bob"])
      there.send("c0", "first")
      here = try PerchSide(there.url, pace: Pace(), clock: time.clock)
      try await here.worker.start()
      _ = here.syncRequests.seen(UserID("alice"))
      #expect(await reaches { here.syncRequests.connection(of: UserID("alice")).progress.phase == .steady })
    }

    /// Moves time in small steps until `holds` returns true, at most an hour.
    func reaches(_ holds: () throws -> Bool) async -> Bool {
      for _ in 0..<3_600 {
        if await World.wait(seconds: 0.01, { (try? holds()) ?? false }) { return true }
        time.advance(1_000)
        await here.worker.turn()
      }
      return await World.wait { (try? holds()) ?? false }
    }

    func known() throws -> KnownUser? {
      try here.cache.read { try $0.knownUsers() }.first { $0.id == UserID("alice") }
    }

    func move(days: Int64) async {
      time.advance(days * ClosedTests.day)
      await here.worker.turn()
    }

    func end() async {
      await here.stop()
      here.remove()
      there.stop()
    }
  }

  @Test("B5: the first refusal is remembered over a restart, and a second one 60 s later closes")
  func overRestart() async throws {
    let desk = try await Desk()
    try desk.there.forget("alice")
    #expect(await desk.reaches { try desk.known()?.refusedFor != nil })
    #expect(try desk.known()?.isClosed == false)
    desk.time.advance(UserState.refusalDistance)
    try await desk.here.restart()
    // The clock stands still, so only the refusal before the restart counts.
    #expect(await World.wait { (try? desk.known()?.isClosed) == true })
    #expect(desk.here.syncRequests.seen(alice) == .refused(.userUnknown))
    await desk.end()
  }

  @Test("B5: a closed user's data and access go after 30 days, not before, and not after a good connect")
  func thirtyDays() async throws {
    let desk = try await Desk()
    try desk.there.forget("alice")
    #expect(await desk.reaches { try desk.known()?.isClosed == true })
    await desk.move(days: 29)
    try desk.there.remember("alice")
    desk.here.syncRequests.connect(alice, within: 0) { _ in }
    #expect(await desk.reaches { try desk.known()?.isClosed == false })
    #expect(try desk.known()?.refusedFor == nil)
    await desk.move(days: 31)
    #expect(await desk.reaches { desk.here.syncRequests.connection(of: alice).state != .connecting })
    #expect(try desk.known() != nil, "it was reopened")

    desk.here.syncRequests.connect(alice, within: 0) { _ in }
    try desk.there.forget("alice")
    #expect(await desk.reaches { try desk.known()?.isClosed == true })
    await desk.move(days: 29)
    try await desk.here.restart()
    #expect(try desk.known()?.isClosed == true)
    #expect(desk.here.syncRequests.seen(alice) == .refused(.userUnknown))
    await desk.move(days: 2)
    #expect(await World.wait { (try? desk.known()) == .some(nil) })
    #expect(try desk.here.memberships(of: "alice").isEmpty)
    // Reads the state without `seen`, which would make the upstream refuse the user again.
    #expect(await World.wait { desk.here.syncRequests.connection(of: alice).state == .connecting })
    #expect(desk.here.syncRequests.seen(alice) == .undecided)
    await desk.end()
  }
}
