import ChatCache
import ChatModel
import Platform
import TestSupport
import Testing

@testable import ChatSync
@testable import Origin

/// Changelogs that the upstream refuses with any error are taken as not offered, without blame for a user
/// (B32).
@Suite(.timeLimit(.minutes(5)), .serialized)
struct DenialTests {
  private static let denials: [[String: Value]] =
    [400302, 400303, 400301, 400105, 400401].map { ["code": .integer($0)] } + [
      ["status": .integer(401), "body": .string("bare")], ["status": .integer(403), "body": .string("bare")],
      ["status": .integer(404), "body": .string("html")],
    ]

  @Test(
    "B32: changelogs refused in other words count as not offered, the link stays, and all is found",
    arguments: 0..<8)
  func denied(number: Int) async throws {
    var pace = PerchSide.pace
    pace.refusedRetry = 50
    let sides = try Sides(messages: 20, pace: pace)
    var fault = Self.denials[number]
    fault["kind"] = .string("deny")
    fault["path"] = .string("*/changelogs")
    try sides.there.set(OriginSide.Weather(), [.object(fault)], seed: 1)
    try await sides.open()
    let alice = UserID("alice")
    #expect(
      await World.wait {
        let known = sides.here.syncRequests.link.capabilities
        return known[.channelChangelog] == false && known[.messageChangelog] == false
      }, "\(sides.here.syncRequests.link.capabilities)")
    try sides.there.makeChannel("later", ["alice", "bob"])
    sides.there.send("later", "hello")
    sides.there.delete("c0", 7)
    #expect(await World.wait { (try? sides.here.memberships(of: "alice").map(\.url)) == ["c0", "later"] })
    #expect(await World.wait { (try? sides.here.channel("c0", from: .start)?.rows.count) == 19 })
    #expect(sides.here.syncRequests.connection(of: alice).error == nil)
    #expect(!sides.here.syncRequests.link.isOffline, "it is nobody's fault")
    await sides.end()
  }

  @Test("B32: one refusal of changelogs that were offered before does not switch them off")
  func refusedOnce() async throws {
    let sides = try Sides(messages: 20)
    try await sides.open()
    let offered = { sides.here.syncRequests.link.capabilities[.messageChangelog] }
    #expect(await World.wait { offered() == true })
    let denial: [String: Value] = [
      "kind": .string("deny"), "code": .integer(400108), "path": .string("*/messages/changelogs"),
      "count": .integer(1),
    ]
    try sides.there.set(OriginSide.Weather(), [.object(denial)], seed: 1)
    sides.there.delete("c0", 7)
    #expect(await World.wait { (try? sides.here.channel("c0", from: .start)?.rows.count) == 19 })
    #expect(offered() == true)
    await sides.end()
  }

  @Test(
    "B32: words that are taken only as documented, and those that are taken in lower case alone, are found")
  func words() async throws {
    let sides = try Sides(messages: 20)
    try sides.there.set(
      OriginSide.Weather(), [.object(["kind": .string("strict_words"), "path": .string("/v3/*")])], seed: 1)
    try await sides.open()
    try await sides.expectEqual()
    await sides.end()
  }
}
