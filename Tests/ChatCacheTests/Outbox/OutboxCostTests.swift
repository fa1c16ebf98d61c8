import ChatModel
import Platform
import TestSupport
import Testing

@testable import ChatCache

/// The cost of a step of a long lane against that of an empty one.
@Suite(.serialized) struct OutboxCostTests {
  private static let unsent = 10_000
  private static let policy: OutboxPolicy = {
    var policy = OutboxPolicy()
    policy.maximumUnsent = 50_000
    return policy
  }()

  /// A channel in which alice has `count` unsent rows. The first `failed` have failed, the others wait.
  private func world(_ count: Int, _ kind: OutboxRow.Kind, failed: Int = 0) throws -> ChannelWithMessages {
    let world = try ChannelWithMessages()
    let rows = (1...9).map { ChannelWithMessages.message(Int64($0), at: Int64($0) * 10, sender: "alice") }
    try world.listNewest(rows, limit: 100)
    try world.cache.accept { writer in
      try Self.accept("filler", kind, world, writer)
      try writer.multiply(unsent: "filler", by: count - 1)
    }
    if failed > 0 {
      try world.cache.accept { writer in
        try writer.db.run("UPDATE outbox SET state = 'failed', error_code = '1' WHERE id <= ?1") {
          $0.bind(1, failed)
        }
      }
    }
    return world
  }

  private static func accept(
    _ name: String, _ kind: OutboxRow.Kind, _ world: ChannelWithMessages, _ writer: borrowing CacheWriter
  ) throws {
    var request = OutboxTableTests.request(name, kind, kind == .reaction ? #"{"add":true}"# : "{}")
    if !kind.isMessage { request.target = 5 }
    if kind == .reaction { request.aspect = name }
    _ = try writer.accept(request, of: world.alice, in: world.url, policy)
  }

  /// Runs one step in a commit, and measures it, ns.
  private static func time<Value: Sendable>(
    in world: ChannelWithMessages, _ step: @escaping @Sendable (borrowing CacheWriter) throws -> Value
  ) throws -> (value: Value, nanoseconds: UInt64) {
    try world.cache.accept { writer in
      let began = Clock.system.monotonicNanoseconds()
      let value = try step(writer)
      return (value, Clock.system.monotonicNanoseconds() - began)
    }
  }

  @Test(
    "Accepting, and one step of sending, cost at most 1.5 times as much with 10 000 rows as with few",
    arguments: [(OutboxRow.Kind.message, 0), (.message, 9_000), (.edit, 0), (.reaction, 0)])
  func steps(_ kind: OutboxRow.Kind, failed: Int) throws {
    let worlds = [
      try world(1, kind), try world(Self.unsent, kind, failed: failed),
    ]
    defer { for world in worlds { world.cache.close() } }
    var accepting = ShortestTimes(of: 2)
    var sending = ShortestTimes(of: 2)
    var ended = [EndedOutboxJob?](repeating: nil, count: 2)
    for round in 0..<600 where round < 150 || !accepting.isWithin(1.5) || !sending.isWithin(1.5) {
      for (index, world) in worlds.enumerated() {
        let accepted = try Self.time(in: world) { try Self.accept("more-\(round)", kind, world, $0) }
        accepting.add(accepted.nanoseconds, to: index)
        let lane = OutboxLaneName(user: world.alice, channel: world.url)
        let before = ended[index]
        let sent = try Self.time(in: world) {
          try $0.advance(lane, after: before, Self.policy, random: 1).begun
        }
        sending.add(sent.nanoseconds, to: index)
        ended[index] = EndedOutboxJob(
          try #require(sent.value, "round \(round)"), .success(message: Int64(1000 + round)))
      }
    }
    #expect(accepting.isWithin(1.5), "accepting: \(accepting) ns")
    #expect(sending.isWithin(1.5), "sending: \(sending) ns")
  }

  @Test("A refused row costs itself: a user who may not send any more is told row by row, in bounded commits")
  func refusals() throws {
    let world = try world(100, .message)
    defer { world.cache.close() }
    try world.cache.accept { writer in
      try writer.db.run("UPDATE membership SET is_muted = 1")
    }
    let lane = OutboxLaneName(user: world.alice, channel: world.url)
    var waits: [Int64?] = []
    for _ in 0..<4 {
      waits.append(
        try world.cache.accept { try $0.advance(lane, after: nil, Self.policy, random: 1) }.nextTryIn)
    }
    #expect(waits == [0, 0, 0, nil])
    let laneKey = OutboxLaneKey(user: UserKey(1), channel: world.url)
    let rows = try world.cache.read { try $0.lane(laneKey).rows }
    #expect(rows.count == 100 && rows.allSatisfy { $0.state == .failed && $0.errorCode == "900041" })
  }

  @Test("B46: a page shows its messages' pending changes; 5 000 on other messages cost no more than 500")
  func page() throws {
    let worlds = try [500, 5_000].map { try edited($0) }
    defer { for world in worlds { world.cache.close() } }
    var times = ShortestTimes(of: worlds.count)
    for round in 0..<600 where round < 150 || !times.isWithin(1.5) {
      for (index, world) in worlds.enumerated() {
        let began = Clock.system.monotonicNanoseconds()
        let text = try newestPage(of: world)
        times.add(Clock.system.monotonicNanoseconds() - began, to: index)
        #expect(text.split(separator: "pending_edit").count == 2, "one message of the page is edited")
        #expect(text.contains(##""message_id":"395","##))
      }
    }
    #expect(times.isWithin(1.5), "\(times) ns")
  }

  /// A channel of 400 messages with that many pending edits, one of them of message 395.
  private func edited(_ count: Int) throws -> ChannelWithMessages {
    let world = try ChannelWithMessages()
    let rows = (1...400).map { ChannelWithMessages.message(Int64($0), at: Int64($0) * 10, sender: "alice") }
    try world.listNewest(rows, limit: 500)
    try world.cache.accept { writer in
      for (name, target) in [("shown", 395), ("edit", 1)] {
        var request = OutboxTableTests.request(name, .edit, #"{"message":"new"}"#)
        request.target = Int64(target)
        _ = try writer.accept(request, of: world.alice, in: world.url, Self.policy)
      }
      try writer.multiply(unsent: "edit", by: count - 2)
      try writer.db.run("UPDATE outbox SET target_id = id % 300 + 1 WHERE request_id <> 'shown'")
    }
    return world
  }

  private func newestPage(of world: ChannelWithMessages) throws -> String {
    try world.cache.read { reader in
      let alice = try #require(try reader.cachedUser(world.alice))
      let view = try #require(try reader.view(of: world.url, for: alice.key))
      let ground = try reader.ground(
        .newest, in: view, link: ChannelWithMessages.live, interval: 3_600_000,
        now: Clock.system.wallMilliseconds())
      let query = MessagePageQuery(.newest, limit: 30)
      return String(decoding: try reader.page(query, in: view, on: ground).items.array, as: UTF8.self)
    }
  }
}
