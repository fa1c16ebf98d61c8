import ChatModel
import Testing

@testable import ChatCache

/// The coverage that listings of a thread prove, and its union with the channel's coverage (B14, B24).
@Suite struct ThreadCoverageTests {
  private static func at(_ time: Int64) -> Position { Position(createdAt: time, messageID: time) }

  private static func newest(_ times: [Int64], asked: Int) -> Listing {
    MessageWindow(.newest, older: asked, newer: 0).listing(times.map(at))
  }

  private static func fromBeginning(_ times: [Int64], asked: Int) -> Listing {
    MessageWindow(.time(0), older: 0, newer: asked).listing(times.map(at))
  }

  /// A line whose newest messages from 1 000 on are covered.
  private static func line(confirmedAt: Int64 = 50) -> Coverage {
    var line = Coverage()
    line.claim(newest([1_000, 1_010], asked: 2), now: confirmedAt, generation: 1)
    return line
  }

  @Test("a listing from both ends covers a thread of few replies whole; the line itself stays as it is")
  func whole() {
    let line = Self.line()
    var thread = ThreadCoverage()
    thread.claim(Self.newest([10, 20], asked: 100), known: Self.at(1_010), now: 60, generation: 1)
    #expect(thread.over(line, listsReplies: true).shows(Self.at(20)))
    let first = thread.over(line, listsReplies: true)
    #expect(!first.plan(.newest).hasNext(isReadToEdge: true))
    #expect(first.plan(.newest).hasPrevious(isReadToEdge: true), "a short page proves nothing older")
    thread.claim(Self.fromBeginning([10, 20], asked: 200), known: Self.at(1_010), now: 61, generation: 1)
    let both = thread.over(line, listsReplies: true)
    #expect(!both.plan(.newest).hasPrevious(isReadToEdge: true))
    #expect(both.gaps.isEmpty)
    #expect(!line.shows(Self.at(20)) && line.gaps.count == 1)
  }

  @Test("a thread's end is covered up to what was stored when it was asked for, and no further")
  func known() {
    var thread = ThreadCoverage()
    thread.claim(Self.newest([10, 20], asked: 2), known: Self.at(500), now: 40, generation: 1)
    // The channel was listed later and its coverage does not join the thread's: replies may lie between.
    let coverage = thread.over(Self.line(confirmedAt: 50), listsReplies: true)
    #expect(coverage.shows(Self.at(500)) && !coverage.shows(Self.at(700)) && coverage.shows(Self.at(1_005)))
    #expect(coverage.tail.confirmedAt == 50)
  }

  @Test("the fresher of both ends is the thread's, and a tail is never cut by a stretch")
  func tails() {
    var thread = ThreadCoverage()
    thread.claim(Self.newest([10, 2_000], asked: 100), known: Self.at(2_000), now: 60, generation: 1)
    let fresher = thread.over(Self.line(confirmedAt: 50), listsReplies: true)
    #expect(fresher.tail.confirmedAt == 60 && fresher.segments.last?.range.contains(Self.at(1_500)) == true)
    let older = thread.over(Self.line(confirmedAt: 70), listsReplies: true)
    #expect(older.tail.confirmedAt == 70 && older.gaps.count == 1)
  }

  @Test("where listings of the channel show no replies, the line says nothing of a thread")
  func noReplies() {
    var line = Self.line()
    line.claim(Self.fromBeginning([1, 1_000], asked: 5), now: 51, generation: 1)
    #expect(!ThreadCoverage().over(line, listsReplies: false).shows(Self.at(1_005)))
    #expect(ThreadCoverage().over(line, listsReplies: true).shows(Self.at(1_005)))
  }

  @Test("stretches that touch are one, others stay apart")
  func union() {
    var thread = ThreadCoverage()
    thread.claim(Self.newest([500, 600], asked: 2), known: nil, now: 1, generation: 1)
    thread.claim(Self.fromBeginning([10, 20], asked: 5), known: nil, now: 1, generation: 1)
    #expect(thread.stretches.count == 2)
    let window = MessageWindow(.message(Self.at(20)), older: 0, newer: 100)
    let middle = window.listing([20, 300, 500, 600].map(Self.at))
    thread.claim(middle, known: Self.at(600), now: 1, generation: 1)
    #expect(thread.stretches.count == 1)
    #expect(thread.stretches.first == Position.start...Self.at(600))
  }
}

/// Threads in a real cache file.
@Suite struct StoredThreadTests {
  /// Message 1 has replies 2 to 31; 1 500 messages later only the newest 100 are listed.
  private func world(floorOfBob: Int64 = 0) throws -> ChannelWithMessages {
    let world = try ChannelWithMessages(floorOfBob: floorOfBob)
    try world.listNewest((1_501...1_600).map { ChannelWithMessages.message($0, at: $0 * 10) }, limit: 100)
    return world
  }

  private static func reply(_ id: Int64, sender: String = "bob") -> MessageRecord {
    ChannelWithMessages.message(id, at: id * 10, sender: sender, parent: 1, parentAt: 10)
  }

  private func list(
    _ ids: [Int64], newest: Bool = true, asked: Int = 100, askedAt: Int64? = nil, _ world: ChannelWithMessages
  ) throws -> Bool {
    var window =
      newest
      ? MessageWindow(.newest, older: asked, newer: 0) : MessageWindow(.time(0), older: 0, newer: asked)
    window.thread = 1
    let listing = MessageListing(
      window: window, rows: ids.map { Self.reply($0, sender: $0 % 2 == 0 ? "bob" : "carol") }, isWhole: true,
      askedAt: askedAt ?? world.cache.cursor.sequence)
    return try world.cache.write { [url = world.url] in
      try $0.store([listing], ofThread: 1, in: url, ListingContext(source: .apiResult, generation: 1))
    }
  }

  private func page(
    _ world: ChannelWithMessages, as user: UserID? = nil, sender: String? = nil, limit: Int = 30
  ) throws -> (ids: [Int64], hasPrevious: Bool, isComplete: Bool) {
    var filter = MessageQuery()
    filter.parent = 1
    if let sender { filter.senders = [ExactText(sender)] }
    let query = MessagePageQuery(.newest, limit: limit, filter: filter)
    return try world.cache.read { reader in
      let someone = try #require(try reader.cachedUser(user ?? world.alice))
      let view = try #require(try reader.view(of: world.url, for: someone.key))
      let ground = MessagePageGround(
        query.anchor, try reader.coverage(of: view.channel, thread: 1), view,
        link: ChannelWithMessages.live, interval: 3_600_000, now: world.cache.clock.wallMilliseconds())
      let page = try reader.page(query, in: view, on: ground)
      let text = String(decoding: page.items.array, as: UTF8.self)
      let ids = text.matches(of: #/"message_id":"([0-9]+)"/#).compactMap { Int64($0.1) }
      return (ids, page.hasPrevious, page.isComplete)
    }
  }

  private func segments(_ world: ChannelWithMessages) throws -> [Segment] {
    try world.cache.read { reader in
      try reader.coverage(of: try #require(try reader.channelKey(of: world.url))).segments
    }
  }

  @Test("B14: replies far back are shown once the thread is listed, and the channel's line is not touched")
  func shown() throws {
    let world = try world()
    defer { world.cache.close() }
    let line = try segments(world)
    let newest = try world.page(MessagePageQuery(.newest, limit: 200)).ids
    #expect(try page(world).ids.isEmpty)
    _ = try list(Array(2...31), world)
    #expect(try page(world, limit: 20) == (Array(12...31), true, true))
    #expect(try page(world, limit: 50) == (Array(2...31), true, false), "nothing proves that none is older")
    _ = try list(Array(2...31), newest: false, asked: 200, world)
    #expect(try page(world, limit: 50) == (Array(2...31), false, true))
    #expect(try segments(world) == line)
    #expect(try world.page(MessagePageQuery(.newest, limit: 200)).ids == newest)
  }

  @Test("B12, B23: filters and floors hold in a thread")
  func filters() throws {
    let world = try world(floorOfBob: 200)
    defer { world.cache.close() }
    _ = try list(Array(2...31), world)
    _ = try list(Array(2...31), newest: false, asked: 200, world)
    #expect(try page(world, sender: "carol").ids == Array(stride(from: Int64(3), through: 31, by: 2)))
    #expect(try page(world, as: world.bob) == (Array(20...31), false, true))
  }

  @Test("B27: a reply that a listing lacks is doubted and served until the upstream says it is gone")
  func deleted() throws {
    let world = try world()
    defer { world.cache.close() }
    _ = try list(Array(2...31), world)
    let others = (2...31).filter { $0 != 15 }.map(Int64.init)
    #expect(try list(others, world), "it is doubted")
    #expect(try page(world).ids == Array(2...31))
    #expect(try list(Array(2...20), world), "a shrunken page")
    #expect(try page(world).ids == Array(2...31))
    let doubted = try world.cache.read { try $0.doubted(in: world.url, below: nil, limit: 100) }
    #expect(Set(doubted.map(\.position.messageID)) == Set(21...31), "what was shown again is doubted no more")
    try world.cache.write { try $0.delete(message: 15, in: world.url, .messageDeleted) }
    #expect(try page(world).ids == others)
  }

  @Test("B31, B58: changes that were missed and a clear end what is known of threads")
  func forgotten() throws {
    let world = try world()
    defer { world.cache.close() }
    _ = try list(Array(2...31), world)
    let mark = world.cache.cursor.sequence
    try world.cache.write { try $0.doubt(world.url) }
    #expect(try page(world).ids.isEmpty)
    _ = try list(Array(2...31), askedAt: mark, world)
    #expect(try page(world).ids.isEmpty, "it was asked for before that")
    _ = try list(Array(2...31), world)
    #expect(try page(world).ids.count == 30)
    try world.cache.write { try $0.clear(world.url) }
    #expect(try page(world).ids.isEmpty)
  }
}
