import ChatModel
import Platform
import Testing

@testable import ChatCache

/// A message has three days (B41): 71 h 59 min after it was accepted it is sent, 72 h 1 min after it failed.
@Suite struct OutboxExpiryTests {
  private static let minute: Int64 = 60_000
  private static let early = 72 * 60 * minute - minute
  private static let late = 72 * 60 * minute + minute
  private static let begin: Int64 = 1_800_000_000_000
  private static let lane = OutboxLaneName(user: UserID("alice"), channel: ChannelURL("general"))
  private static let policy: OutboxPolicy = {
    var policy = OutboxPolicy()
    policy.deduplicates = true
    return policy
  }()

  /// A cache whose clock the test moves, in which alice is in `general`.
  private final class World {
    private let wall = Guarded(OutboxExpiryTests.begin)
    private let folder = Disk.folder()
    private(set) var cache: Cache

    private static func open(_ folder: String, _ wall: Guarded<Int64>) throws -> Cache {
      let clock = Clock(
        wallMilliseconds: { wall.withLock { $0 } },
        monotonicNanoseconds: Clock.system.monotonicNanoseconds)
      return try Cache(Cache.Configuration(directory: folder, clock: clock))
    }

    init() throws {
      cache = try World.open(folder, wall)
      try cache.write { writer in
        try writer.acknowledge(lane.user)
        let channel = ChannelWithMessages.channel(lane.channel)
        _ = try writer.store([channel], of: lane.user, .listing(sweep: 1))
        try writer.endListing(of: lane.user)
      }
      let request = OutboxTableTests.request("r")
      try cache.accept { _ = try $0.accept(request, of: lane.user, in: lane.channel, policy) }
    }

    /// Sets the clock to `after` ms after the message was accepted.
    func set(_ after: Int64) { wall.withLock { $0 = begin + after } }

    /// Closes the cache and opens it again as the service does.
    func restart() throws {
      cache.close()
      cache = try World.open(folder, wall)
      try cache.accept {
        try $0.recoverOutbox()
        try $0.expireOutbox()
      }
    }

    /// Time passes while the upstream is away.
    func keepUp() throws { try cache.accept { try $0.keepUpOutbox() } }

    func advance(_ ended: EndedOutboxJob? = nil) throws -> OutboxJob? {
      try cache.accept { try $0.advance(lane, after: ended, policy, random: 1) }.begun
    }

    /// The state and code of the message; nil: its row is gone.
    var row: String? {
      get throws {
        let rows = try cache.read { reader in
          try reader.lane(OutboxLaneKey(user: UserKey(1), channel: lane.channel)).rows
        }
        return rows.first.map { "\($0.state) \($0.errorCode ?? "")" }
      }
    }
  }

  /// What happens while the time passes.
  enum Passing: CaseIterable { case offline, boot, clockSetBack }

  private func pass(_ world: World, to moment: Int64, _ how: Passing) throws {
    world.set(moment)
    switch how {
    case .offline: try world.keepUp()
    case .boot: try world.restart()
    case .clockSetBack:
      try world.keepUp()
      world.set(moment - 600 * Self.minute)
      try world.keepUp()
      try world.restart()
    }
  }

  @Test("B41: 71 h 59 min after it was accepted a message is sent", arguments: Passing.allCases)
  func early(_ how: Passing) throws {
    let world = try World()
    defer { world.cache.close() }
    try pass(world, to: Self.early, how)
    #expect(try world.row == "waiting ")
    let sent = try #require(try world.advance())
    _ = try world.advance(EndedOutboxJob(sent, .success(message: 9)))
    #expect(try world.row == nil)
  }

  @Test("B41: 72 h 1 min after it was accepted a message has failed as expired", arguments: Passing.allCases)
  func late(_ how: Passing) throws {
    let world = try World()
    defer { world.cache.close() }
    try pass(world, to: Self.late, how)
    #expect(try world.row == "failed expired")
    #expect(try world.advance() == nil)
  }

  @Test("B39 B41: an expired message that may have arrived is looked for once", arguments: [true, false])
  func uncertain(hasArrived: Bool) throws {
    let world = try World()
    defer { world.cache.close() }
    let sent = try #require(try world.advance())
    _ = try world.advance(EndedOutboxJob(sent, .uncertain))
    try pass(world, to: Self.late, .boot)
    #expect(try world.row == "uncertain expired")
    let look = try #require(try world.advance())
    var arrived = ChannelWithMessages.message(30, at: Self.begin + 5, sender: "alice")
    arrived.requestID = "r"
    let next = try world.advance(EndedOutboxJob(look, .absent, messages: hasArrived ? [arrived] : []))
    #expect(next == nil)
    #expect(try world.row == (hasArrived ? nil : "failed expired"))
  }

  @Test("B38 B41: an expired message that turns out to have arrived becomes succeeded")
  func lateSuccess() throws {
    let world = try World()
    defer { world.cache.close() }
    let sent = try #require(try world.advance())
    _ = try world.advance(EndedOutboxJob(sent, .uncertain))
    try pass(world, to: Self.late, .offline)
    let look = try #require(try world.advance())
    _ = try world.advance(EndedOutboxJob(look, .absent))
    #expect(try world.row == "failed expired")
    var arrived = ChannelWithMessages.message(30, at: Self.begin + 5, sender: "alice")
    arrived.requestID = "r"
    let record = arrived
    try world.cache.write { _ = try $0.store(record, in: Self.lane.channel, .messageReceived) }
    #expect(try world.row == nil)
    let status = try world.cache.read { try $0.status(of: RequestID("r")!, of: UserKey(1)) }
    #expect(status == RequestStatus(end: "succeeded", message: 30, isMessage: true))
  }
}
