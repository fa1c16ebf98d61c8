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
}
