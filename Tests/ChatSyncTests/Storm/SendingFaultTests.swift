import ChatModel
import Platform
import TestSupport
import Testing

@testable import ChatCache
@testable import ChatSync
@testable import Origin

/// Faults of one kind of call, and the sends beside them.
@Suite(.timeLimit(.minutes(5)), .serialized)
struct SendingFaultTests {
  private let alice = UserID("alice")

  private func accept(
    _ name: String, _ kind: OutboxRow.Kind, target: Int64? = nil, in channel: String, _ sides: Sides
  ) async throws {
    let (alice, url) = (alice, ChannelURL(channel))
    let params = Array((kind == .reaction ? #"{"add":true}"# : #"{"type":"user","message":"\#(name)"}"#).utf8)
    var request = UnsentRequest(
      requestID: try #require(RequestID(name)), kind: kind,
      content: OutboxContent(params: params, body: []), contentHash: params)
    request.target = target
    request.aspect = kind == .reaction ? "smile" : ""
    request.sender = kind == .message ? alice : nil
    let asked = request
    _ = try sides.here.cache.accept { try $0.accept(asked, of: alice, in: url, OutboxPolicy()) }
    await sides.here.worker.accepted(in: [OutboxLaneName(user: alice, channel: url)])
  }

  private func hasSucceeded(_ name: String, _ sides: Sides) -> Bool {
    let status = try? sides.here.cache.read { reader in
      try reader.userKey(of: alice).flatMap { try reader.status(of: RequestID(name)!, of: $0) }
    }
    return status?.end == "succeeded"
  }

  @Test("B35: listings that are answered 429 for a minute keep no message of an open channel waiting")
  func pausedListings() async throws {
    let sides = try Sides(messages: 20)
    try sides.there.calm(OriginSide.Weather())
    for number in 1...8 { try sides.there.makeChannel("more\(number)", ["alice", "bob"]) }
    try await sides.open()
    let pause: [String: Value] = [
      "kind": .string("status"), "status": .integer(429), "retry_after": .integer(60),
      "path": .string("/v3/group_channels/*/messages"), "method": .string("GET"),
    ]
    try sides.there.set(OriginSide.Weather(), [.object(pause)], seed: 1)
    for number in 1...8 {
      sides.here.syncRequests.opened(
        OpenView(id: "more\(number)", channel: ChannelURL("more\(number)"), isAtNewest: true),
        isOwedAnswer: true)
    }
    try await Task.sleep(for: .milliseconds(500))
    try await accept("r1", .message, in: "c0", sides)
    #expect(await World.wait(seconds: 10) { hasSucceeded("r1", sides) })
    await sides.end()
  }

  @Test("B35: reactions that are answered 429 for ten minutes keep no message waiting")
  func pausedReactions() async throws {
    let sides = try Sides(messages: 20)
    try await sides.open()
    let pause: [String: Value] = [
      "kind": .string("status"), "status": .integer(429), "retry_after": .integer(600),
      "path": .string("*/reactions"), "method": .string("POST"),
    ]
    try sides.there.set(OriginSide.Weather(), [.object(pause)], seed: 1)
    try await accept("smiles", .reaction, target: 5, in: "c0", sides)
    try await Task.sleep(for: .milliseconds(300))
    try await accept("r1", .message, in: "c0", sides)
    #expect(await World.wait(seconds: 10) { hasSucceeded("r1", sides) })
    #expect(!hasSucceeded("smiles", sides))
    await sides.end()
  }

  @Test("B40: a reaction that was made has succeeded, although its message cannot be asked for just now")
  func reactionUnseen() async throws {
    let sides = try Sides(messages: 20)
    try await sides.open()
    let denial: [String: Value] = [
      "kind": .string("deny"), "code": .integer(400108), "method": .string("GET"),
      "path": .string("/v3/group_channels/c0/messages/5"),
    ]
    try sides.there.set(OriginSide.Weather(), [.object(denial)], seed: 1)
    try await accept("smiles", .reaction, target: 5, in: "c0", sides)
    #expect(await World.wait(seconds: 10) { hasSucceeded("smiles", sides) })
    #expect(!sides.here.syncRequests.link.isOffline)
    try sides.there.calm(OriginSide.Weather())
    #expect(
      await World.wait(seconds: 20) {
        let shown = try? sides.here.cache.read { reader in
          try reader.db.first("SELECT reactions FROM message WHERE message_id = 5") {
            $0.stringOrNil(0) ?? ""
          }
        }
        return shown?.contains("smile") ?? false
      }, "its note asks for the message until it is there")
    await sides.end()
  }

  @Test(
    "B39: a message whose answer was lost is found, and not sent again, whatever the pages are like",
    arguments: ["cut_page", "empty_page", "unstable_ties"], 1...6 as ClosedRange<Int64>)
  func foundAgain(kind: String, seed: Int64) async throws {
    var policy = OutboxPolicy()
    policy.backoffMaximum = 200
    policy.uncertainGrace = 400
    let world = try await SendingWorld(policy: policy, firstByte: 300)
    // If listings have no request ids, only a look for the message finds it.
    world.offers = ["dedup": .string("off"), "request_ids": .bool(seed.isMultiple(of: 2))]
    let listing = Value.string("/v3/group_channels/*/messages")
    try world.set([
      .object([
        "kind": .string("lose_reply"), "path": listing, "method": .string("POST"), "count": .integer(1),
      ])
    ])
    try await world.send("c0", "r1", "once")
    #expect(await World.wait { (try? world.arrived("c0").count) == 1 })
    world.there.isCutOff = true
    let time = try #require(
      try world.there.origin.store.read { db, _ in
        try db.first("SELECT max(created_at) FROM message WHERE user_id = 'alice'") { $0.int64(0) }
      })
    // The message is behind more than half a page, and in a tie that the page's end cuts.
    for number in 0..<190 { world.there.send("c0", "before \(number)", at: time - 190 + Int64(number)) }
    for number in 0..<100 { world.there.send("c0", "beside \(number)", at: time) }
    var fault: [String: Value] = ["kind": .string(kind), "path": listing, "method": .string("GET")]
    if kind == "empty_page" { fault["count"] = .integer(1) }
    try world.set([.object(fault)], seed: seed)
    world.there.isCutOff = false
    world.here.syncRequests.urge()
    #expect(await world.isDrained())
    #expect(try world.arrived("c0").map(\.text) == ["once"])
    await world.end()
  }
}
