import ChatModel
import Glibc
import Platform
import SQLite
import TestSupport
import Testing

@testable import ChatCache

/// Random channels, windows, accesses and orders: the evicted messages and their order are those of a plain
/// model (B56, B57). PERCH_TORTURE_EVICTIONS tries more seeds than 40.
@Suite(.timeLimit(.minutes(30))) struct EvictionPropertyTests {
  private static let seeds = getenv("PERCH_TORTURE_EVICTIONS").flatMap { UInt64(String(cString: $0)) } ?? 40

  @Test("B56, B57: the order of what goes is the model's, and what is spared is all there")
  func order() throws {
    for seed in 0..<Self.seeds {
      try Self.run(seed)
    }
  }

  private static func run(_ seed: UInt64) throws {
    var random = SeededRandom(seed: seed)
    let world = try world(&random)
    let before = world.channels
    let lines = try before.indices.map { try world.coverage(of: $0) }
    let shown = before.indices.map { index in
      before[index].rows.filter { lines[index].shows($0) }
    }
    let order = order(&random)
    let unread = try world.unreadCounts()
    let since = world.cache.cursor.sequence
    // Some passes end early, some evict all that they may.
    let used = world.cache.usage.usedBytes
    let share = Int64.random(in: 55...99, using: &random)
    try world.evict(downTo: random.chance(25) ? 1 : used * share / 100, by: order)
    let left = try before.indices.map { try world.stored(in: $0) }
    expectPrefix(of: expected(before, order), before, left, seed)
    for index in before.indices {
      let coverage = try world.coverage(of: index)
      let gone = before[index].rows.subtracting(left[index])
      #expect(gone.allSatisfy { !coverage.shows($0) }, "seed \(seed): a place that went is called covered")
      let hidden = shown[index].filter { left[index].contains($0) && !coverage.shows($0) }
      #expect(hidden.isEmpty, "seed \(seed): what stays is hidden")
      #expect(try world.cache.read { try $0.faults(of: before[index].key) }.isEmpty, "seed \(seed)")
      let told = try world.changes([.coverage, .hugeGap], since: since).filter {
        $0.channel == before[index].key
      }
      // Evicting messages in a gap makes no event, unless the gap grows over a covered segment without
      // messages.
      let wasShown = gone.contains { shown[index].contains($0) }
      let events = coverage == lines[index] ? 0 : 1
      #expect(told.count == events, "seed \(seed): one event per channel and pass")
      #expect(!wasShown || told.count == 1, "seed \(seed): that shown messages went is told")
    }
    #expect(try world.changes([.messageDeleted, .messages, .cacheCleared], since: since).isEmpty)
    #expect(try world.unreadCounts() == unread, "seed \(seed): unread counts stay")
    #expect(try world.cache.check().isSound, "seed \(seed)")
  }

  /// Channels that are covered wholly or from some position on, with messages in gaps, threads, and open
  /// views.
  private static func world(_ random: inout SeededRandom) throws -> EvictionWorld {
    let world = try EvictionWorld(
      channels: Int.random(in: 2...7, using: &random), isCrowded: random.chance(50))
    for index in world.channels.indices {
      let count = Int64.random(in: 0...120, using: &random)
      let base = Int64.random(in: 1...50, using: &random) * 1_000
      let rows = (0..<count).map { id in
        ChannelWithMessages.message(
          id + 1, at: base + id / 2 * 10, parent: id % 7 == 6 ? id - 5 : nil,
          text: String(repeating: "x", count: Int.random(in: 100...3_000, using: &random)))
      }
      try world.list(rows, limit: random.chance(50) ? 500 : Int(count / 2) + 1, in: index)
      if random.chance(50), world.channels[index].rows.count == rows.count {
        try world.listBeginning(of: index)
      }
      for row in rows where random.chance(3) { try world.store(row, in: index) }
    }
    for step in 0..<Int.random(in: 0...6, using: &random) {
      let index = Int.random(in: 0..<world.channels.count, using: &random)
      let positions = world.channels[index].rows.sorted()
      guard !positions.isEmpty else { continue }
      world.pass(Int64.random(in: 0...2, using: &random))
      let ends = [random.one(of: positions), random.one(of: positions)].sorted()
      let parent = random.chance(40) ? world.channels[index].parents.values.sorted().first : nil
      try world.open(
        "v\(step)", ends[0]...ends[1], hasPrevious: random.chance(70), hasNext: random.chance(60),
        parent: parent, in: index)
      if random.chance(40) { try world.dispose("v\(step)", in: index) }
    }
    return world
  }

  private static func order(_ random: inout SeededRandom) -> [CacheLimit.Term] {
    guard random.chance(60) else { return CacheLimit().order }
    let known: [CachedChannelOrder] = [.accessedAt, .messages, .lastMessageAt, .createdAt, .customType]
    let fields = known.shuffled(using: &random)
    return fields.prefix(Int.random(in: 1...3, using: &random)).map {
      CacheLimit.Term($0, isDescending: random.chance(50))
    }
  }

  /// All messages that may be evicted, in order.
  private static func expected(
    _ channels: [EvictionWorld.Channel], _ order: [CacheLimit.Term]
  ) -> [(index: Int, position: Position)] {
    func key(_ channel: EvictionWorld.Channel, _ field: CachedChannelOrder) -> Int64 {
      switch field {
      case .accessedAt: channel.accessedAt
      case .messages: Int64(channel.rows.count)
      case .lastMessageAt: channel.lastMessageAt
      // All channels of this world are equal in these fields.
      case .bytes, .createdAt, .customType: 0
      }
    }
    let sorted = channels.indices.sorted { left, right in
      let (one, other) = (channels[left], channels[right])
      for term in order {
        let (own, others) = (key(one, term.field), key(other, term.field))
        if own != others { return (own < others) != term.isDescending }
      }
      if one.lastMessageAt != other.lastMessageAt { return one.lastMessageAt < other.lastMessageAt }
      return one.url.text < other.url.text
    }
    return sorted.flatMap { index in
      channels[index].rows.sorted().filter { !channels[index].isSpared($0) }.map { (index, $0) }
    }
  }

  private static func expectPrefix(
    of expected: [(index: Int, position: Position)], _ before: [EvictionWorld.Channel],
    _ left: [Set<Position>],
    _ seed: UInt64
  ) {
    let gone = expected.map { !left[$0.index].contains($0.position) }
    let count = gone.count { $0 }
    #expect(gone.prefix(count).allSatisfy { $0 }, "seed \(seed): something went out of its turn")
    for index in before.indices {
      let spared = before[index].rows.filter { before[index].isSpared($0) }
      #expect(spared.isSubset(of: left[index]), "seed \(seed): what is spared went")
      #expect(left[index].isSubset(of: before[index].rows))
    }
  }

}
