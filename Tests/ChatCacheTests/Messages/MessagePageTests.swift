import ChatModel
import JSON
import Testing

@testable import ChatCache

/// Pages of messages from the database, as the rules say.
@Suite struct MessagePageTests {
  private static func rows(_ count: Int) -> [MessageRecord] {
    (1...count).map { ChannelWithMessages.message(Int64($0), at: 1000 + Int64($0 / 3)) }
  }

  @Test("B12: pages walk both ways over ties in time without losing or repeating a row")
  func ties() throws {
    let world = try ChannelWithMessages()
    defer { world.cache.close() }
    try world.listNewest(Self.rows(40), limit: 100)
    var seen: [Int64] = []
    var anchor = PageAnchor.newest
    for _ in 0..<20 {
      let page = try world.page(MessagePageQuery(anchor, limit: 7))
      seen = page.ids + seen
      guard page.hasPrevious, let span = page.span else { break }
      anchor = .before(span.lowerBound, isInclusive: false)
    }
    #expect(seen == Array(1...40))
    seen = []
    anchor = .after(ChannelWithMessages.message(1, at: 1000).position, isInclusive: true)
    for _ in 0..<20 {
      let page = try world.page(MessagePageQuery(anchor, limit: 7))
      seen += page.ids
      guard page.hasNext, let span = page.span else { break }
      anchor = .after(span.upperBound, isInclusive: false)
    }
    #expect(seen == Array(1...40))
  }

  @Test("B12: around a position, both sides, in the line's order and in reverse")
  func around() throws {
    let world = try ChannelWithMessages()
    defer { world.cache.close() }
    try world.listNewest((1...9).map { ChannelWithMessages.message($0, at: $0 * 10) }, limit: 100)
    let anchor = PageAnchor.around(.first(at: 50), isInclusive: true)
    #expect(try world.page(MessagePageQuery(anchor, limit: 4)).ids == [3, 4, 5, 6])
    #expect(try world.page(MessagePageQuery(anchor, limit: 4, isReversed: true)).ids == [6, 5, 4, 3])
    let without = PageAnchor.around(.first(at: 50), isInclusive: false)
    #expect(try world.page(MessagePageQuery(without, limit: 4)).ids == [3, 4, 6, 7])
  }

  @Test("B14: a page never crosses a gap; it ends there and names it")
  func gap() throws {
    let world = try ChannelWithMessages()
    defer { world.cache.close() }
    let rows = (1...30).map { ChannelWithMessages.message($0, at: $0 * 10) }
    try world.listNewest(Array(rows.prefix(10)), limit: 10)
    try world.listNewest(rows, limit: 10)
    let newest = try world.page(MessagePageQuery(limit: 30))
    #expect(newest.ids == Array(22...30) && newest.gaps == 1 && !newest.isComplete && newest.hasPrevious)
    let older = try world.page(MessagePageQuery(.before(.first(at: 100), isInclusive: true), limit: 30))
    #expect(older.ids.last == 9 && older.hasPrevious, "\(older)")
    let inside = try world.page(MessagePageQuery(.before(.first(at: 150), isInclusive: true), limit: 30))
    #expect(inside.ids.isEmpty && inside.gaps == 1 && !inside.isComplete)
  }

  @Test("B14: that nothing older exists needs proof")
  func proof() throws {
    let world = try ChannelWithMessages()
    defer { world.cache.close() }
    try world.listNewest(Self.rows(5), limit: 6)
    #expect(try world.page(MessagePageQuery()).hasPrevious, "a short page proves nothing")
    let oldest = ChannelWithMessages.message(1, at: 1000).position
    try world.list(
      MessageListing(
        window: MessageWindow(.message(oldest), older: 5, newer: 0, includesAnchor: false), rows: [],
        isWhole: true, askedAt: 99))
    let page = try world.page(MessagePageQuery())
    #expect(!page.hasPrevious && page.ids == [1, 2, 3, 4, 5])
  }

  @Test("B14 B25: the newest end is complete only while the tail is live")
  func tail() throws {
    let world = try ChannelWithMessages()
    defer { world.cache.close() }
    try world.listNewest(Self.rows(5), limit: 100)
    let empty = MessageListing(
      window: MessageWindow(.time(900), older: 10, newer: 0), rows: [], isWhole: true, askedAt: 0)
    try world.list(empty)
    #expect(try world.page(MessagePageQuery()).hasNext == false)
    let later = LinkStatus(.online, generation: 2)
    let stale = try world.page(MessagePageQuery(), link: later)
    #expect(!stale.isComplete && !stale.hasNext, "no newer message is cached, and the tail tells the rest")
    let gone = LinkStatus(.offline(.unreachable), generation: 1)
    #expect(try !world.page(MessagePageQuery(), link: gone).isComplete)
  }

  @Test("B12: filters by kind, custom type, sender, replies and thread")
  func filters() throws {
    let world = try ChannelWithMessages()
    defer { world.cache.close() }
    let make = ChannelWithMessages.message
    try world.listNewest(
      [
        make(1, 10, 0, .user, "bob", "", nil, nil, false, "a", false, .nobody),
        make(2, 20, 0, .file, "carol", "news", nil, nil, false, "a", false, .nobody),
        make(3, 30, 0, .admin, "", "", nil, nil, false, "a", false, .nobody),
        make(4, 40, 0, .user, "carol", "news", 1, 10, false, "a", false, .nobody),
        make(5, 50, 0, .user, "bob", "", 1, 10, true, "a", false, .nobody),
      ], limit: 100)
    func ids(_ change: (inout MessageQuery) -> Void) throws -> [Int64] {
      var filter = MessageQuery()
      change(&filter)
      return try world.page(MessagePageQuery(filter: filter)).ids
    }
    #expect(try ids { _ in } == [1, 2, 3])
    #expect(try ids { $0.replies = .all } == [1, 2, 3, 4, 5])
    #expect(try ids { $0.replies = .onlyReplyToChannel } == [1, 2, 3, 5])
    #expect(try ids { $0.parent = 1 } == [4, 5])
    #expect(try ids { $0.kind = .file } == [2])
    #expect(try ids { $0.customTypes = ["", "x"] } == [1, 3])
    #expect(
      try ids {
        $0.replies = .all
        $0.senders = ["carol"]
      } == [2, 4])
  }

  @Test("B15: a filtered page looks at 5 000 rows at most and goes on from the last it looked at")
  func lookedAt() throws {
    let world = try ChannelWithMessages()
    defer { world.cache.close() }
    let rows = (1...6000).map { id in
      ChannelWithMessages.message(Int64(id), at: Int64(id) * 10, sender: id == 500 ? "carol" : "bob")
    }
    try world.listNewest(rows, limit: 7000)
    var filter = MessageQuery()
    filter.senders = ["carol"]
    let first = try world.page(MessagePageQuery(filter: filter))
    #expect(first.ids.isEmpty && first.hasPrevious && first.span?.lowerBound.messageID == 1001)
    let lower = try #require(first.span?.lowerBound)
    let second = try world.page(MessagePageQuery(.before(lower, isInclusive: false), filter: filter))
    #expect(second.ids == [500])
  }

  @Test("B23: nobody sees below the floor, neither rows nor embedded parents")
  func floor() throws {
    let world = try ChannelWithMessages(floorOfBob: 30)
    defer { world.cache.close() }
    let rows = [
      ChannelWithMessages.message(1, at: 10), ChannelWithMessages.message(2, at: 20),
      ChannelWithMessages.message(3, at: 30),
      ChannelWithMessages.message(4, at: 40, parent: 1, parentAt: 10, inChannel: true),
    ]
    try world.listNewest(rows, limit: 100)
    var filter = MessageQuery()
    filter.replies = .all
    filter.parts = [.parentMessage]
    let bobs = try world.page(MessagePageQuery(filter: filter), as: world.bob)
    #expect(bobs.ids == [3, 4] && !bobs.hasPrevious)
    for (user, shows) in [(world.alice, true), (world.bob, false)] {
      let text: String? = try world.cache.read { reader in
        let key = try reader.cachedUser(user)!.key
        let view = try reader.view(of: world.url, for: key)!
        guard let object = try reader.message(4, parts: [.parentMessage], in: view) else { return nil }
        return String(decoding: object.array, as: UTF8.self)
      }
      #expect(text?.contains("parent_message") == shows, "\(user)")
    }
    let hidden = try world.cache.read { reader in
      let view = try reader.view(of: world.url, for: reader.cachedUser(world.bob)!.key)!
      return try reader.message(2, parts: [], in: view) == nil
    }
    #expect(hidden)
  }

  @Test("B1: a channel somebody is not in is no channel to that user")
  func isolation() throws {
    let world = try ChannelWithMessages()
    defer { world.cache.close() }
    let url = world.url
    try world.cache.write { writer in
      try writer.acknowledge(UserID("carol"))
      try writer.removeMembership(of: UserID("bob"), in: url, .memberLeft)
    }
    for name in ["bob", "carol"] {
      let view = try world.cache.read { reader in
        try reader.view(of: url, for: try reader.cachedUser(UserID(name))!.key)
      }
      #expect(view == nil)
    }
  }

  @Test("Every page walks the messages in their own order, without sorting", arguments: [true, false])
  func plans(isBackwards: Bool) throws {
    let world = try ChannelWithMessages()
    defer { world.cache.close() }
    let plan = try world.cache.read { reader in
      var rows = try reader.db.rows(
        composed: """
          EXPLAIN QUERY PLAN
          SELECT body FROM message
          WHERE channel = 1
            AND (created_at, message_id) >= (1, 2)
            AND (created_at, message_id) <= (3, 4)
          ORDER BY created_at \(isBackwards ? "DESC, message_id DESC" : ", message_id")
          """)
      var lines: [String] = []
      while let row = try rows.next() { lines.append(row.string(3)) }
      return lines
    }
    #expect(plan.count == 1 && plan[0].hasPrefix("SEARCH message USING PRIMARY KEY"), "\(plan)")
  }
}
