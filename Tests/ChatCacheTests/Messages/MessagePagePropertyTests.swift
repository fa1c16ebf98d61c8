import ChatModel
import TestSupport
import Testing

@testable import ChatCache

/// Pages of random channels against plain loops over what the upstream has.
@Suite struct MessagePagePropertyTests {
  @Test(
    "B12 B14 B23: a page holds the nearest visible messages of one stretch, and ends only with proof",
    arguments: 1...60 as ClosedRange<UInt64>)
  func pages(seed: UInt64) throws {
    var random = SeededRandom(seed: seed)
    let line = try MessageLine(&random)
    defer { line.world.cache.close() }
    for _ in 0..<25 {
      let isBob = random.chance(50)
      let user = isBob ? line.world.bob : line.world.alice
      let floor = try floor(of: user, line)
      let filter = line.randomFilter(&random)
      let position = line.randomPosition(&random)
      let isInclusive = random.chance(50)
      let limit = Int.random(in: 1...8, using: &random)
      let anchor: PageAnchor =
        switch Int.random(in: 0..<3, using: &random) {
        case 0: .before(position, isInclusive: isInclusive)
        case 1: .after(position, isInclusive: isInclusive)
        default: .around(position, isInclusive: isInclusive)
        }
      let query = MessagePageQuery(anchor, limit: limit, isReversed: random.chance(30), filter: filter)
      let page = try line.world.page(query, as: user)
      let expected = expected(query, floor, line)
      let ordered = query.isReversed ? expected.reversed() : expected
      try #require(page.ids == ordered, "seed \(seed): \(query), floor \(floor), \(line.segments)")
      guard let first = page.span?.lowerBound, let last = page.span?.upperBound else { continue }
      if !page.hasPrevious {
        #expect(!line.exists(floor: floor, filter) { $0 < first }, "seed \(seed): \(query) hides older rows")
      }
      if !page.hasNext {
        // An exclusive page around a position leaves out only that position.
        let isStored = line.readable(from: last, floor: floor, filter).contains {
          $0.position > last && (isInclusive || !isAt(position, $0.position))
        }
        #expect(!isStored, "seed \(seed): \(query) hides newer rows")
      }
    }
  }

  /// Whether an anchor means a position: the anchor is a whole millisecond, or one message.
  private func isAt(_ anchor: Position, _ position: Position) -> Bool {
    anchor.messageID == .min ? position.createdAt == anchor.createdAt : position == anchor
  }

  private func floor(of user: UserID, _ line: MessageLine) throws -> Int64 {
    try line.world.cache.read { reader in
      guard let key = try reader.userKey(of: user) else { return 0 }
      return try reader.view(of: line.world.url, for: key)?.floorAt ?? 0
    }
  }

  private func expected(_ query: MessagePageQuery, _ floor: Int64, _ line: MessageLine) -> [Int64] {
    func ids(from position: Position, _ isThere: (Position) -> Bool) -> [Int64] {
      line.readable(from: position, floor: floor, query.filter).filter { isThere($0.position) }.map(
        \.messageID)
    }
    switch query.anchor {
    case .before(let position, let isInclusive):
      let top = isInclusive ? position : position.previous
      return ids(from: top) { $0 <= top }.suffix(query.limit)
    case .after(let position, let isInclusive):
      let low = max(isInclusive ? position : position.next, .first(at: floor))
      return Array(ids(from: low) { $0 >= low }.prefix(query.limit))
    case .around(let position, let isInclusive):
      let home = max(position, .first(at: floor))
      let older = ids(from: home) { $0 < position }.suffix(query.limit / 2)
      let newer = ids(from: home) { $0 >= position && (isInclusive || !isAt(position, $0)) }
      return Array(older) + newer.prefix(query.limit - query.limit / 2)
    }
  }

  @Test(
    "B12 B15: walking by edges in both directions neither loses nor repeats a message",
    arguments: 1...30 as ClosedRange<UInt64>)
  func walks(seed: UInt64) throws {
    var random = SeededRandom(seed: seed &+ 1000)
    let line = try MessageLine(&random)
    defer { line.world.cache.close() }
    let filter = line.randomFilter(&random)
    let limit = Int.random(in: 1...5, using: &random)
    let expected = line.readable(from: .end, floor: 0, filter).map(\.messageID)
    var seen: [Int64] = []
    var anchor = PageAnchor.newest
    var oldest: Position?
    for _ in 0..<200 {
      let page = try line.world.page(MessagePageQuery(anchor, limit: limit, filter: filter))
      seen = page.ids + seen
      guard page.hasPrevious, let span = page.span else { break }
      oldest = span.lowerBound
      anchor = .before(span.lowerBound, isInclusive: false)
    }
    #expect(seen == expected, "seed \(seed), back")
    guard !expected.isEmpty, let oldest else { return }
    seen = []
    anchor = .after(oldest, isInclusive: true)
    for _ in 0..<200 {
      let page = try line.world.page(MessagePageQuery(anchor, limit: limit, filter: filter))
      seen += page.ids
      guard page.hasNext, let span = page.span else { break }
      anchor = .after(span.upperBound, isInclusive: false)
    }
    #expect(seen == expected.suffix(seen.count) && seen.last == expected.last, "seed \(seed), forth")
  }

  @Test("B12: around a message, exclusive, leaves out that message alone, not its whole millisecond")
  func aroundMessage() throws {
    let world = try ChannelWithMessages()
    defer { world.cache.close() }
    try world.listNewest((1...5).map { ChannelWithMessages.message($0, at: 50) }, limit: 100)
    let position = Position(createdAt: 50, messageID: 3)
    let page = try world.page(MessagePageQuery(.around(position, isInclusive: false), limit: 10))
    #expect(page.ids == [1, 2, 4, 5])
  }
}
