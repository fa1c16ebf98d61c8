import ChatModel
import TestSupport
import Testing

@testable import ChatCache
@testable import ChatSync
@testable import Origin

/// Read positions of a crowded channel, which the members' polls leave out.
@Suite(.timeLimit(.minutes(5)), .serialized)
struct CrowdedReadsTests {
  private func positions(_ sides: Sides) throws -> [ExactText: Int64] {
    try sides.here.cache.read { reader in
      let channel = try #require(try reader.channelKey(of: ChannelURL("c0")))
      return try reader.readPositions(of: ["alice", "bob", "carol"].map { ExactText($0) }, in: channel)
    }
  }

  @Test("B10: the positions of a crowded channel become those of the chat server", arguments: [false, true])
  func reads(hasWebhooks: Bool) async throws {
    let sides = try Sides(messages: 30, hasWebhooks: hasWebhooks, seed: 0)
    try await sides.open()
    let client = HTTPClient(HTTPClient.Configuration())
    defer { client.close() }
    let upstream = SendbirdUpstream(
      SendbirdUpstream.Configuration(base: sides.there.url, token: "origin"), client: client)
    var polls = 0
    for number in 0..<6 {
      sides.there.send("c0", "new \(number)", at: 1_700_000_001_000 + Int64(number))
      try sides.there.perform(
        .write(ReadMarks.markAsRead), ["channel_url": "c0"],
        ["user_id": .string(["bob", "carol"][number % 2])])
      let record = try await upstream.channel(ChannelURL("c0"), as: UserID("alice"), .background)
      let truth = try #require(record.readReceipts?.positions)
      #expect(await World.wait { (try? positions(sides)) == truth }, "message \(number)")
      if await sides.here.worker.plan.users[UserID("alice")]?.isInCrowds ?? false { polls += 1 }
    }
    #expect(polls > 0, "polls left positions out")
    #expect(await World.wait { (try? sides.noted) == 0 })
    await sides.end()
  }
}
