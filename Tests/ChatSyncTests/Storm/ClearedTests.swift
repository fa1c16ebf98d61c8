import ChatModel
import Platform
import Testing

@testable import ChatCache
@testable import ChatSync

/// Data that was cleared on request comes back by itself, over a real cache file and real sockets.
@Suite(.timeLimit(.minutes(5)), .serialized)
struct ClearedTests {
  private let alice = UserID("alice")

  /// Sides with more channels, in all of which nothing happened for an hour.
  private func quietSides() async throws -> Sides {
    let sides = try Sides(messages: 60)
    for number in 1..<4 {
      try sides.there.makeChannel("d\(number)", ["alice", "bob"])
      for message in 0..<20 {
        sides.there.send("d\(number)", "old", at: 1_700_000_000_000 + Int64(message))
      }
    }
    try sides.there.age(milliseconds: 3_600_000)
    try await sides.open()
    #expect(try await sides.isEqual() == nil)
    return sides
  }

  @Test("B58: after everything was cleared all channels and messages come back, the quiet ones too")
  func everything() async throws {
    let sides = try await quietSides()
    for _ in 0..<3 {
      try sides.here.cache.accept { try $0.clearAll(withUnsent: false) }
      #expect(try await sides.isEqual() == nil)
      #expect(await World.wait { sides.here.syncRequests.connection(of: alice).isSynced })
      let isSynced = try sides.here.cache.read { try $0.knownUsers().first?.isSynced }
      #expect(isSynced == true)
    }
    await sides.end()
  }

  @Test("B58: a channel that was cleared has its newest messages again without being asked for")
  func channel() async throws {
    let sides = try await quietSides()
    for _ in 0..<3 {
      try sides.here.cache.accept { try $0.clear(ChannelURL("d2")) }
      #expect(try await sides.isEqual() == nil)
    }
    await sides.end()
  }

  @Test("B26 B58: a gap that is being filled while its channel is cleared brings nothing of before back")
  func clearedWhileFilling() async throws {
    let sides = try Sides(messages: 1_000)
    try await sides.open()
    let gap = try #require(sides.gaps.first)
    try sides.there.slow(milliseconds: 300)
    sides.here.syncRequests.fill(gap: gap.id, in: ChannelURL("c0"))
    #expect(await World.wait { sides.gaps.first?.state == .filling })
    try sides.here.cache.accept { try $0.clear(ChannelURL("c0")) }
    let afterwards = try #require(try sides.here.channel("c0", from: .start))
    #expect(afterwards.rows.isEmpty && !afterwards.coverage.segments.contains { $0.isCovered })
    try sides.there.calm(OriginSide.Weather())
    #expect(try await sides.isEqual() == nil)
    #expect(sides.gaps.allSatisfy { $0.state == .idle }, "nobody asked for the new gap")
    await sides.end()
  }
}
