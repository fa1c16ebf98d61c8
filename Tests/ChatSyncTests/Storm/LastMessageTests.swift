import ChatModel
import Platform
import TestSupport
import Testing

@testable import ChatCache
@testable import ChatSync
@testable import Origin

/// A channel's last message after the previous one is deleted, over a real cache file and the stand-in.
@Suite(.timeLimit(.minutes(5)), .serialized)
struct LastMessageTests {
  @Test("B10: where no messages are cached, the channel is asked for its last one")
  func asked() async throws {
    var pace = PerchSide.pace
    pace.prefetchMessages = 0
    pace.userPoll = 600_000
    let sides = try Sides(messages: 0, pace: pace)
    let ids = (1...5).map { sides.there.send("c0", "text \($0)") }
    // No messages come into the cache: it only has the last message in the channel's object.
    let denial: [String: Value] = [
      "kind": .string("deny"), "code": .integer(400108), "path": .string("/v3/group_channels/*/messages"),
    ]
    try sides.there.set(OriginSide.Weather(), [.object(denial)], seed: 1)
    try await sides.here.worker.start()
    _ = sides.here.syncRequests.seen(UserID("alice"))
    #expect(await World.wait { sides.here.syncRequests.connection(of: UserID("alice")).isSynced })
    // By now the first poll of the changelog has ended, too; the next one comes in ten minutes.
    try await Task.sleep(for: .milliseconds(500))
    func last() throws -> Int64? { try sides.here.memberships(of: "alice").first?.lastMessage }
    #expect(try last() == ids[4])
    sides.there.delete("c0", ids[4])
    // The cache gets only the deletion, and nothing that names the new last message.
    try sides.here.cache.write { try $0.delete(message: ids[4], in: ChannelURL("c0"), .messageDeleted) }
    #expect(await World.wait { (try? last()) == ids[3] })
    #expect(await World.wait { (try? sides.noted) == 0 })
    await sides.end()
  }
}
