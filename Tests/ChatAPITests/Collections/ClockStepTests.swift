import ChatCache
import ChatCollections
import ChatModel
import Glibc
import Platform
import Synchronization
import TestFolders
import TestSupport
import Testing

/// The machine's clock steps at any moment, also while the service is down: no view is disposed of, no event
/// trimmed and no tail called live that should not be. `PERCH_TORTURE_CLOCKS` sets how many seeds are tried.
@Suite struct ClockStepTests {
  private static let url = ChannelURL("general")
  private static let alice = UserID("alice")
  private static let (bob, carol) = (UserID("bob"), UserID("carol"))
  private static let hour: Int64 = 3_600_000

  static var seeds: ClosedRange<UInt64> {
    1...(getenv("PERCH_TORTURE_CLOCKS").flatMap { UInt64(String(cString: $0)) } ?? 15)
  }

  /// A machine whose clocks the test sets.
  private final class Machine: Sendable {
    let wall = Atomic<Int64>(1_800_000_000_000)
    let ticks = Atomic<Int64>(1_000_000)

    var clock: Clock {
      Clock(
        wallMilliseconds: { self.wall.load(ordering: .relaxed) },
        monotonicNanoseconds: { UInt64(self.ticks.load(ordering: .relaxed)) * 1_000_000 })
    }

    /// Moves both clocks on.
    func pass(_ milliseconds: Int64) {
      wall.add(milliseconds, ordering: .relaxed)
      ticks.add(milliseconds, ordering: .relaxed)
    }

    /// Steps the wall clock by a second to a year, either way, with equal chances for each order of
    /// magnitude.
    func step(_ random: inout SeededRandom) {
      let size = Int64(1_000 * exp(Double.random(in: 0...log(31_536_000), using: &random)))
      wall.add(Bool.random(using: &random) ? size : -size, ordering: .relaxed)
    }
  }

  private static func open(_ directory: String, _ machine: Machine) throws -> (Cache, Collections) {
    var configuration = Cache.Configuration(directory: directory, clock: machine.clock.steady())
    configuration.retention.eventMilliseconds = 6 * hour
    configuration.retention.tombstoneMilliseconds = 6 * hour
    let cache = try Cache(configuration)
    let collections = Collections(cache: cache, syncRequests: ScriptedSync())
    try collections.start()
    return (cache, collections)
  }

  private static func fill(_ cache: Cache) throws {
    let asked = cache.cursor.sequence
    let record = CollectionWorld.channel(url.text, floor: 0, name: "General", last: nil)
    let rows = (1...5).map { CollectionWorld.message($0, at: $0 * 10) }
    try cache.write { writer in
      try writer.acknowledge(alice)
      _ = try writer.store([record], of: alice, .refresh(.channelChanged))
      try writer.endListing(of: alice)
    }
    try cache.write {
      _ = try $0.store(
        [
          MessageListing(
            window: MessageWindow(.newest, older: 100, newer: 0), rows: rows, isWhole: true, askedAt: asked)
        ], in: url, ListingContext(source: .apiResult, generation: 1))
      try $0.delete(message: 5, in: url, .messageDeleted)
    }
  }

  /// Refuses bob once, and closes carol.
  private static func refuse(_ cache: Cache) throws {
    try cache.write { writer in
      for user in [bob, carol] { try writer.acknowledge(user) }
      try writer.refuse(bob)
      try writer.close(carol)
    }
  }

  private static func refusedFor(_ cache: Cache) throws -> Int64? {
    try cache.read { try $0.knownUsers() }.first { $0.id == bob }?.refusedFor
  }

  @Test(
    "B5: the distance of two refusals and the 30 days count what passes while the service runs",
    arguments: seeds)
  func refusals(seed: UInt64) throws {
    var random = SeededRandom(seed: seed)
    let (directory, machine) = (TestFolder.make("clocks"), Machine())
    var (cache, collections) = try Self.open(directory, machine)
    try Self.refuse(cache)
    var passed: Int64 = 0
    for _ in 0..<12 {
      let time = Int64.random(in: 0...240_000, using: &random)
      machine.pass(time)
      passed += time
      machine.step(&random)
      if Int.random(in: 0..<3, using: &random) == 0 {
        collections.stop()
        cache.close()
        machine.step(&random)
        // Time that passes without a service makes nothing older.
        machine.pass(Int64.random(in: 0...Self.hour, using: &random))
        (cache, collections) = try Self.open(directory, machine)
      }
      #expect(try Self.refusedFor(cache) == passed)
      #expect(try cache.write { try $0.forgetClosed(after: 6 * Self.hour) }.isEmpty)
    }
    machine.pass(6 * Self.hour)
    #expect(try cache.write { try $0.forgetClosed(after: 6 * Self.hour) } == [Self.carol])
    collections.stop()
    cache.close()
  }

  private static func view(_ cache: Cache, _ collections: Collections) throws -> String {
    let opened = Watched<String?>(nil)
    try collections.openChannels(ChannelQuery(), of: alice) { result in
      // An empty name stands for a failure.
      let name = (try? result.get())?.id ?? ""
      opened.update { $0 = name }
    }
    return opened.wait { $0 } ?? ""
  }

  private static func tail(_ cache: Cache) throws -> Tail.State {
    let link = LinkStatus(.online, generation: 1)
    return try cache.read { reader in
      guard let user = try reader.cachedUser(alice), let view = try reader.view(of: url, for: user.key) else {
        return .offline
      }
      return try reader.ground(
        .newest, in: view, link: link, interval: 30_000, now: cache.clock.wallMilliseconds()
      ).tail
    }
  }

  @Test(
    "B22, B25, B53: steps of the clock dispose of nothing, trim nothing and make no tail live",
    arguments: seeds)
  func steps(seed: UInt64) throws {
    var random = SeededRandom(seed: seed)
    let (directory, machine) = (TestFolder.make("clocks"), Machine())
    var (cache, collections) = try Self.open(directory, machine)
    try Self.fill(cache)
    let name = try Self.view(cache, collections)
    let first = cache.cursor
    #expect(try Self.tail(cache) == .live)
    var hasRestarted = false
    for _ in 0..<12 {
      machine.pass(Int64.random(in: 0...240_000, using: &random))
      machine.step(&random)
      if Int.random(in: 0..<3, using: &random) == 0 {
        hasRestarted = true
        collections.stop()
        cache.close()
        machine.step(&random)
        (cache, collections) = try Self.open(directory, machine)
      }
      collections.disposeIdle()
      try cache.trim()
      #expect(collections.isOpen(name, of: Self.alice), "nobody let an hour pass")
      #expect(try cache.read { try $0.covers(first) }, "the log is six hours long, and not one has passed")
      let tombstones = try cache.read { try $0.isBuried(5, in: Self.url) }
      #expect(tombstones)
    }
    machine.pass(60_001)
    // After a restart no tail is live, because the link has a new generation.
    if !hasRestarted { #expect(try Self.tail(cache) != .live, "a tail that nobody confirmed for a minute") }
    machine.pass(Self.hour)
    collections.disposeIdle()
    let deadline = ContinuousClock.now + .seconds(20)
    while collections.isOpen(name, of: Self.alice), ContinuousClock.now < deadline { usleep(1_000) }
    #expect(!collections.isOpen(name, of: Self.alice), "an hour has passed")
    collections.stop()
    cache.close()
  }
}
