import ChatModel
import TestSupport
import Testing

@testable import ChatCache
@testable import ChatSync
@testable import Origin

/// A channel that is deleted, and another one that is made at once under the same url.
@Suite(.timeLimit(.minutes(3)), .serialized)
struct RecreatedTests {
  private let url = ChannelURL("c0")

  /// The messages that the user is shown; nil: the user is not in the channel.
  private func shown(_ sides: Sides, to user: String) throws -> Set<Int64>? {
    try sides.here.cache.read { reader in
      guard let key = try reader.userKey(of: UserID(user)), let view = try reader.view(of: url, for: key)
      else { return nil }
      var ids: Set<Int64> = []
      try reader.eachRow(of: .start ... .end, filter: MessageQuery(), in: view) { row in
        if row.isShown { ids.insert(row.position.messageID) }
        return true
      }
      return ids
    }
  }

  @Test("B1: of a channel that is made anew, old members see nothing new, and new members nothing old")
  func recreated() async throws {
    let sides = try Sides(messages: 30, hasWebhooks: true, seed: 0)
    sides.there.receiver.withLock { $0 = sides.here.worker }
    try await sides.open()
    _ = sides.here.syncRequests.seen(UserID("bob"))
    #expect(await World.wait { (try? shown(sides, to: "alice")?.count) == 30 })
    #expect(await World.wait { (try? shown(sides, to: "bob")?.count) == 30 })
    let old = try #require(try shown(sides, to: "alice"))
    // The times of two channels differ by more than rounding does.
    try await Task.sleep(for: .milliseconds(1_100))
    let delay: [String: Value] = [
      "kind": .string("delay"), "path": .string("/v3/users/bob/*"), "milliseconds": .integer(3_000),
    ]
    try sides.there.set(OriginSide.Weather(), [.object(delay)], seed: 1)
    try sides.there.perform(.write(Channels.delete), ["channel_url": "c0"], [:])
    try sides.there.makeChannel("c0", ["alice", "carol"])
    // Until Perch hears of the deletion, a listing may have messages of the new channel, and nothing in it
    // tells that this is another channel.
    let isTold = await World.wait {
      sides.there.taken.withLock { taken in
        taken.contains { String(decoding: $0, as: UTF8.self).contains("group_channel:remove") }
      }
    }
    #expect(isTold)
    for number in 0..<5 { sides.there.send("c0", "new \(number)", by: "carol") }
    var (looked, new) = (0, Set<Int64>())
    let isOut = await World.wait {
      // `try?`: who is in the channel no longer is shown nothing.
      guard let ids = try? shown(sides, to: "bob") else { return true }
      looked += 1
      new.formUnion(ids.subtracting(old))
      return false
    }
    #expect(isOut && looked > 0 && new.isEmpty)
    #expect(await World.wait { (try? shown(sides, to: "alice")?.count) == 5 })
    #expect(try shown(sides, to: "alice")?.isDisjoint(with: old) == true)
    await sides.end()
  }
}
