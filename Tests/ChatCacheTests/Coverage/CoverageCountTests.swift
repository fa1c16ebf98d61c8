import ChatModel
import TestSupport
import Testing

@testable import ChatCache

/// The numbers of gaps and stale tails that operators see.
@Suite struct CoverageCountTests {
  private static func gaps(_ cache: Cache, generation: Int64 = 1) throws -> CoverageCounts {
    try cache.read { try $0.coverageCounts(generation: generation) }
  }

  private static func messages(_ ids: ClosedRange<Int64>) -> [MessageRecord] {
    ids.map { ChannelWithMessages.message($0, at: $0 * 10) }
  }

  @Test("B28: gaps count by their reasons, and tails that the link's present generation did not confirm")
  func counts() throws {
    let world = try ChannelWithMessages()
    defer { world.cache.close() }
    #expect(try Self.gaps(world.cache) == CoverageCounts())
    try world.listNewest(Self.messages(1...10), limit: 5)
    #expect(try Self.gaps(world.cache) == CoverageCounts(gaps: [.neverLoaded: 1]))
    #expect(try Self.gaps(world.cache, generation: 2).staleTails == 1)
    // Confirmed again, with a hole between.
    try world.listNewest(Self.messages(1...30), limit: 5, generation: 2)
    let both = CoverageCounts(gaps: [.neverLoaded: 1, .disconnected: 1])
    #expect(try Self.gaps(world.cache, generation: 2) == both)
    try world.listNewest(Self.messages(1...30), limit: 100, generation: 3)
    #expect(try Self.gaps(world.cache, generation: 3) == CoverageCounts(gaps: [.neverLoaded: 1]))
    let url = world.url
    try world.cache.write { try $0.clear(url) }
    #expect(try world.cache.check().isSound)
    try world.cache.write { try $0.clearAll(withUnsent: false) }
    #expect(try Self.gaps(world.cache, generation: 9) == CoverageCounts())
  }

  @Test("B64: after any steps the numbers are those of the segments", arguments: 1...20)
  func steps(_ seed: Int) throws {
    var random = SeededRandom(seed: UInt64(seed))
    let world = try ChannelWithMessages()
    defer { world.cache.close() }
    var (newest, generation): (Int64, Int64) = (5, 1)
    let url = world.url
    for step in 0..<30 {
      newest += Int64.random(in: 0...20, using: &random)
      generation += random.chance(30) ? 1 : 0
      if random.chance(15) {
        try world.cache.write { try $0.clear(url) }
      } else {
        let limit = Int.random(in: 1...30, using: &random)
        try world.listNewest(Self.messages(1...newest), limit: limit, generation: generation)
      }
      let counts = try Self.gaps(world.cache, generation: generation)
      let coverage = try world.cache.read { reader in
        try reader.coverage(of: try #require(try reader.channelKey(of: url)))
      }
      let expected = Dictionary(grouping: coverage.gaps.compactMap(\.gap), by: \.reason)
        .mapValues { Int64($0.count) }
      #expect(counts.gaps == expected, "step \(step)")
      let isStale = coverage.tail.generation < generation
      #expect(counts.staleTails == (isStale ? 1 : 0), "step \(step)")
    }
  }
}
