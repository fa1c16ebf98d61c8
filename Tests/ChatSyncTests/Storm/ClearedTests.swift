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
    try await sides.expectEqual()
    return sides
  }

  @Test("B58: after everything was cleared all channels and messages come back, the quiet ones too")
  func everything() async throws {
    let sides = try await quietSides()
    for _ in 0..<3 {
      try sides.here.cache.accept { try $0.clearAll(withUnsent: false) }
      try await sides.expectEqual()
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
      try await sides.expectEqual()
    }
    await sides.end()
  }

  @Test("B33 B58: after a clear, a page below the newest one leaves that to be fetched")
  func clearedBeforeOlderPage() async throws {
    let sides = try await quietSides()
    let url = ChannelURL("d2")
    let oldest = try #require(try sides.here.channel("d2", from: .start)?.rows.first)
    let message = try await sides.here.worker.upstream.message(oldest.position.messageID, in: url, .open)
    try sides.here.cache.accept { writer in
      try writer.clear(url)
      // The worker read where its messages begin before the clear, and asked for older ones after it.
      for (includesAnchor, rows) in [(true, [message]), (false, [])] {
        let window = MessageWindow(
          .message(message.position), older: 100, newer: 0, includesAnchor: includesAnchor)
        let listing = MessageListing(window: window, rows: rows, isWhole: true, askedAt: .max)
        try writer.store([listing], in: url, ListingContext(source: .apiResult, generation: 1))
      }
    }
    try await sides.expectEqual()
    await sides.end()
  }

  @Test("B58: whatever the worker does when everything is cleared, all comes back")
  func atAnyMoment() async throws {
    var random = Seeded(58)
    for _ in 0..<3 {
      let sides = try await quietSides()
      for _ in 0..<8 {
        try sides.here.cache.accept { try $0.clearAll(withUnsent: false) }
        try await Task.sleep(for: .milliseconds(Int.random(in: 0..<80, using: &random)))
      }
      try await sides.expectEqual()
      await sides.end()
    }
  }

  @Test(
    "B58: who waits for a message while it is cleared is told to ask again, not that there is none",
    arguments: [false, true])
  func clearedWhileAsked(isEverything: Bool) async throws {
    let sides = try Sides(messages: 300)
    try await sides.open()
    try sides.there.slow(milliseconds: 500)
    let url = ChannelURL("c0")
    let ids = try #require(try sides.here.channel("c0", from: .start)?.rows.map(\.position.messageID))
    let cache = sides.here.cache
    var wasOvertaken = false
    // On a busy machine a request may go out after the clear, and then its answer is stored. The next message
    // is tried.
    for id in ids.prefix(5) where !wasOvertaken {
      let outcome = Guarded<SyncOutcome?>(nil)
      let wanted = MessageSyncRequest(url, .message(id))
      sides.here.syncRequests.fetch(wanted, for: UserID("alice"), within: 20_000) { came in
        outcome.withLock { $0 = came }
      }
      _ = await World.wait {
        if outcome.withLock({ $0 != nil }) { return true }
        return await !sides.here.worker.reads.isEmpty
      }
      try await Task.sleep(for: .milliseconds(100))
      try cache.accept { isEverything ? try $0.clearAll(withUnsent: false) : try $0.clear(url) }
      #expect(await World.wait { outcome.withLock { $0 } != nil })
      wasOvertaken = outcome.withLock { $0 } == .failed(.notSynced(retryAfter: 1_000))
      let isMissing = try cache.read { try $0.unknown([id], in: url) } == [id]
      #expect(wasOvertaken || outcome.withLock { $0 } == .stored && !isMissing)
    }
    #expect(wasOvertaken)
    try sides.there.calm(OriginSide.Weather())
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
    try await sides.expectEqual()
    #expect(sides.gaps.allSatisfy { $0.state == .idle }, "nobody asked for the new gap")
    await sides.end()
  }
}
