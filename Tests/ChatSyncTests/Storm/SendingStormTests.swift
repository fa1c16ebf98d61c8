import ChatModel
import Platform
import Testing

@testable import ChatCache
@testable import ChatSync
@testable import Origin

/// Users' messages arrive once and in order, or are reported failed, whatever the upstream does, over a real
/// cache file and real sockets.
@Suite(.timeLimit(.minutes(5)), .serialized)
struct SendingStormTests {
  private static let alice = UserID("alice")

  private static var policy: OutboxPolicy {
    var policy = OutboxPolicy()
    policy.backoffMaximum = 200
    policy.uncertainGrace = 400
    policy.deduplicates = true
    return policy
  }

  @Test("B36 B38: a message is pending at once, and then the message it became, under both names")
  func sent() async throws {
    let world = try await SendingWorld(policy: Self.policy)
    try await world.send("c0", "r1", "hello")
    #expect(await world.isDrained())
    let arrived = try world.arrived("c0")
    #expect(arrived.map(\.text) == ["hello"])
    let stored = try world.stored("c0")
    #expect(stored.map(\.request) == ["r1"])
    #expect(stored.map(\.text) == ["hello"])
    await world.end()
  }

  @Test("B40 B43: what was accepted while the upstream is away goes by itself when it is back, in order")
  func offline() async throws {
    let world = try await SendingWorld(policy: Self.policy)
    world.there.isCutOff = true
    for number in 0..<20 { try await world.send("c0", "r\(number)", "m\(number)") }
    #expect(try world.arrived("c0").isEmpty)
    world.there.isCutOff = false
    #expect(await world.isDrained())
    let wanted = (0..<20).map { "m\($0)" }
    #expect(try world.arrived("c0").map(\.text) == wanted)
    await world.end()
  }

  @Test(
    "B36 B39: over random faults and restarts each message arrives once and in order",
    arguments: [true, false], [true, false])
  func storms(deduplicates: Bool, saysRequests: Bool) async throws {
    for seed in 1...3 as ClosedRange<UInt64> {
      var policy = Self.policy
      policy.deduplicates = deduplicates
      let world = try await SendingWorld(policy: policy, firstByte: 300)
      world.offers = [
        "dedup": .string(deduplicates ? "first" : "off"), "request_ids": .bool(saysRequests),
      ]
      var random = Seeded(seed)
      var asked: [String: [String]] = [:]
      for step in 0..<24 {
        try world.faults(&random)
        let channel = ["c0", "c1"].randomElement(using: &random) ?? "c0"
        let text = "s\(step)"
        try await world.send(channel, "r\(step)", text)
        asked[channel, default: []].append(text)
        if random.next() % 6 == 0 { try await world.here.restart() }
        if random.next() % 3 == 0 { try await Task.sleep(for: .milliseconds(60)) }
      }
      try world.calm()
      let isDrained = await world.isDrained()
      let left = try world.rows()
      #expect(isDrained, "seed \(seed): \(left)")
      for (channel, texts) in asked {
        #expect(try world.arrived(channel).map(\.text) == texts, "seed \(seed), \(channel)")
        #expect(try world.stored(channel).map(\.text) == texts, "seed \(seed), \(channel), here")
      }
      await world.end()
    }
  }

  @Test("B40: a rejected head fails with the upstream's code and releases the rest")
  func rejected() async throws {
    let world = try await SendingWorld(policy: Self.policy)
    world.there.isCutOff = true
    try await world.send("c0", "r1", String(repeating: "x", count: 6000), checksLength: false)
    try await world.send("c0", "r2", "after it")
    world.there.isCutOff = false
    #expect(await world.arrives(["after it"], in: "c0"))
    #expect(await world.isDrained())
    #expect(try world.rows() == ["r1 failed 400110"])
    await world.end()
  }

  @Test("B46: an edit and a delete made offline are done when the upstream is back")
  func changes() async throws {
    let world = try await SendingWorld(policy: Self.policy)
    try await world.send("c0", "r1", "one")
    try await world.send("c0", "r2", "two")
    #expect(await world.isDrained())
    let ids = try world.arrived("c0").map(\.id)
    try #require(ids.count == 2)
    world.there.isCutOff = true
    try await world.change("c0", "e1", .edit, of: ids[0], #"{"message":"one, edited"}"#)
    try await world.change("c0", "d1", .delete, of: ids[1], "{}")
    let fragments = try world.fragments("c0")
    #expect(fragments[ids[0]]?.contains("pending_edit") == true)
    #expect(fragments[ids[1]]?.contains("pending_delete") == true)
    world.there.isCutOff = false
    #expect(await world.isDrained())
    #expect(try world.arrived("c0").map(\.text) == ["one, edited"])
    #expect(try world.stored("c0").map(\.text) == ["one, edited"])
    #expect(try world.fragments("c0").isEmpty)
    await world.end()
  }

  @Test("B42: one channel's trouble holds no other channel")
  func apart() async throws {
    let world = try await SendingWorld(policy: Self.policy)
    try world.there.set(
      OriginSide.Weather(),
      [
        .object([
          "kind": .string("status"), "path": .string("/v3/group_channels/c0/messages"),
          "status": .integer(500),
        ])
      ], seed: 1)
    try await world.send("c0", "r1", "stuck")
    try await world.send("c1", "r2", "free")
    #expect(await world.arrives(["free"], in: "c1"))
    try world.calm()
    #expect(await world.isDrained())
    #expect(try world.arrived("c0").map(\.text) == ["stuck"])
    await world.end()
  }
}
