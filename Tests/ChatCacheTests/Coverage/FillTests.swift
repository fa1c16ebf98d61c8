import ChatModel
import Testing

@testable import ChatCache

/// Gaps that are filled automatically, in the database and in the events.
@Suite struct FillTests {
  /// A channel of which 1…5 and the newest are covered, and `missing` messages between are not. The last of
  /// them is stored already, because the newest page was cut there.
  private struct World {
    let base: ChannelWithMessages
    let missing: Int
    var first: Int64 { 6 }
    var last: Int64 { 5 + Int64(missing) }
    var url: ChannelURL { base.url }

    init(missing: Int) throws {
      base = try ChannelWithMessages()
      self.missing = missing
      try base.listNewest((1...5).map(World.message), limit: 100)
      let before = MessageWindow(
        .message(World.message(1).position), older: 9, newer: 0, includesAnchor: false)
      try base.list(
        MessageListing(window: before, rows: [], isWhole: true, askedAt: base.cache.cursor.sequence))
      try base.listNewest((last...last + 5).map(World.message), limit: 6, generation: 2)
    }

    static func message(_ id: Int64) -> MessageRecord { ChannelWithMessages.message(id, at: id * 10) }

    var coverage: Coverage {
      get throws {
        try base.cache.read { try $0.coverage(of: try #require(try $0.channelKey(of: base.url))) }
      }
    }

    /// Stores the upstream's page that begins with that message, as filling does.
    func fill(after id: Int64, rows: Int, of gap: Int64?) throws -> Int64 {
      let end = min(id + Int64(rows), last + 5)
      let listing = MessageListing(
        window: MessageWindow(.time(id * 10), older: 0, newer: rows + 1),
        rows: (id...end).map(World.message), isWhole: true, askedAt: base.cache.cursor.sequence)
      var context = ListingContext(source: .messageFill, generation: 2)
      context.fillsGap = gap
      let told = (context, base.url)
      try base.cache.write { try $0.store([listing], in: told.1, told.0) }
      return end
    }

    func told(since sequence: Int64) throws -> [LoggedChange] {
      try base.cache.read { reader in
        try reader.commonChanges(
          in: try #require(try reader.channelKey(of: base.url)), after: sequence, limit: 1000)
      }
    }

    /// The messages that these events announce on their own.
    func announced(_ told: [LoggedChange]) throws -> [Int64] {
      try base.cache.read { reader in
        let user = try #require(try reader.cachedUser(base.alice))
        let view = try #require(try reader.view(of: base.url, for: user.key))
        var ids: [Int64] = []
        for logged in told {
          guard logged.change.kind == .messages, let stretch = logged.change.stretch else { continue }
          try reader.eachRow(of: stretch, version: logged.sequence, filter: MessageQuery(), in: view) {
            ids.append($0.position.messageID)
            return true
          }
        }
        return ids
      }
    }
  }

  @Test("B29: 300 missing messages are filled in pages of 100, each told once as message_fill")
  func pages() throws {
    let world = try World(missing: 300)
    defer { world.base.cache.close() }
    let gap = try #require(try world.coverage.gaps.first?.gap)
    #expect(gap.state == .idle && gap.reason == .disconnected)
    let url = world.url
    let isBegun = try world.base.cache.write { try $0.beginFill(gap.id, in: url) }
    #expect(isBegun)
    let isTwice = try world.base.cache.write { try $0.beginFill(gap.id, in: url) }
    #expect(!isTwice, "somebody fills it")
    let before = world.base.cache.cursor.sequence
    var reached: Int64 = 5
    // The fourth page proves that the millisecond in which the newest page was cut has no other messages.
    for page in 1...4 {
      let from = world.base.cache.cursor.sequence
      reached = try world.fill(after: reached, rows: 100, of: gap.id)
      let told = try world.told(since: from)
      #expect(told.allSatisfy { $0.change.source == .messageFill }, "page \(page)")
      let left = try world.coverage.gaps.first
      #expect(page == 4 ? left == nil : left?.gap?.state == .filling, "page \(page)")
    }
    let told = try world.told(since: before)
    let announced = try world.announced(told)
    #expect(announced == Array(world.first..<world.last), "each once, in order")
    let uncovered = told.filter { $0.change.kind == .coverage }.compactMap(\.change.stretch)
    let stored = World.message(world.last).position
    #expect(uncovered.contains { $0.contains(stored) }, "the one that was stored before became visible")
    #expect(try world.coverage.gaps.isEmpty)
    let page = try world.base.page(
      MessagePageQuery(.newest, limit: 400), link: LinkStatus(.online, generation: 2))
    #expect(page.ids == Array(1...world.last + 5) && page.isComplete)
  }

  @Test("B28 B29: 300 are filled by themselves, 301 are not", arguments: [299, 300, 301])
  func limit(missing: Int) throws {
    let world = try World(missing: missing)
    defer { world.base.cache.close() }
    let before = world.base.cache.cursor.sequence
    var context = ListingContext(source: .messageFill, generation: 2)
    context.hugeMissing = missing
    let told = (context, world.url)
    try world.base.cache.write { try $0.store([], in: told.1, told.0) }
    let gap = try #require(try world.coverage.gaps.first?.gap)
    #expect(gap.state == (missing > 300 ? .huge : .idle) && gap.estimatedMissing == missing)
    let kinds = try world.told(since: before).map(\.change.kind)
    #expect(kinds == [missing > 300 ? .hugeGap : .coverage])
  }

  @Test("B28: above a huge gap nothing is prefetched, and not while the gap is filled either")
  func prefetched() throws {
    let world = try World(missing: 301)
    defer { world.base.cache.close() }
    var context = ListingContext(source: .messageFill, generation: 2)
    context.hugeMissing = 301
    let told = (context, world.url)
    try world.base.cache.write { try $0.store([], in: told.1, told.0) }
    func isPrefetched() throws -> Bool {
      try #require(try world.base.cache.read { try $0.line(of: world.url) }).isPrefetched(200)
    }
    #expect(try isPrefetched())
    let gap = try #require(try world.coverage.gaps.first?.gap)
    try world.base.cache.write { _ = try $0.beginFill(gap.id, in: told.1) }
    #expect(try isPrefetched(), "the gap would shrink beside its filling, and be told as huge again")
  }

  @Test("B29: what is stored of several pages at once is told in few events, and joins both stretches")
  func atOnce() throws {
    let world = try World(missing: 250)
    defer { world.base.cache.close() }
    let asked = world.base.cache.cursor.sequence
    var listings: [MessageListing] = []
    var from: Int64 = 5
    while from < world.last {
      let end = min(from + 100, world.last + 5)
      listings.append(
        MessageListing(
          window: MessageWindow(.time(from * 10), older: 0, newer: 101),
          rows: (from...end).map(World.message), isWhole: true, askedAt: asked))
      from = end
    }
    let (told, url) = (listings, world.url)
    try world.base.cache.write {
      try $0.store(told, in: url, ListingContext(source: .messageFill, generation: 2))
    }
    let changes = try world.told(since: asked)
    #expect(changes.filter { $0.change.kind == .messages }.count == 3)
    #expect(try world.announced(changes) == Array(world.first..<world.last))
    #expect(try world.coverage.gaps.isEmpty)
    let again = world.base.cache.cursor.sequence
    try world.base.cache.write {
      try $0.store(told, in: url, ListingContext(source: .messageFill, generation: 2))
    }
    #expect(try world.told(since: again).isEmpty, "filled twice, told once")
  }
}
