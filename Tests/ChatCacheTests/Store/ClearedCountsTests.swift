import ChatModel
import TestSupport
import Testing

@testable import ChatCache

/// Clearing a crowded channel with many members: their unread counts stay what they were, and no commit
/// rewrites all of their rows (B58, B68).
@Suite struct ClearedCountsTests {
  private static let members = (0..<40).map { UserID("member-\($0)") }

  /// A channel with 42 members here and 30 messages, half of which the first ten members have read.
  private static func crowded(mostCleared: Int = 20) throws -> ChannelWithMessages {
    let world = try ChannelWithMessages(mostChangedMembers: 10, mostCleared: mostCleared)
    for (number, user) in members.enumerated() {
      let record = ChannelWithMessages.channel(world.url, lastReadAt: number < 10 ? 150 : 0)
      try world.cache.write { writer in
        try writer.acknowledge(user)
        _ = try writer.store([record], of: user, .listing(sweep: 1))
        try writer.endListing(of: user)
      }
    }
    let url = world.url
    for id in Int64(1)...30 {
      try world.cache.write { try $0.store(Self.message(id), in: url, .messageReceived) }
    }
    return world
  }

  private static func message(_ id: Int64, text: String = "hello") -> MessageRecord {
    ChannelWithMessages.message(id, at: id * 10, updatedAt: text == "hello" ? 0 : 1_000, text: text)
  }

  private static func counts(_ reader: CacheReader, _ url: ChannelURL) throws -> [Int64] {
    try members.map { user in
      let key = try #require(try reader.userKey(of: user))
      return try reader.unreadCount(try #require(try reader.view(of: url, for: key)))
    }
  }

  private static let expected = (0..<40).map { Int64($0 < 10 ? 15 : 30) }

  private static func left(_ reader: CacheReader) throws -> Int64 {
    try reader.db.first("SELECT count(*) FROM message") { $0.int64(0) } ?? -1
  }

  @Test("B58 B68: clearing a crowded channel changes no member's row, and each slice keeps the counts")
  func slices() throws {
    let world = try Self.crowded()
    defer { world.cache.close() }
    let url = world.url
    // One commit, so that the upkeep does not come in between.
    let (changed, slices) = try world.cache.write { writer in
      let channel = try #require(try writer.reader.channelKey(of: url))
      #expect(try Self.counts(writer.reader, url) == Self.expected)
      let before = writer.db.changedRows
      try writer.clear(url)
      let changed = writer.db.changedRows - before
      #expect(try Self.left(writer.reader) == 30)
      var (reached, slices): (ClearedReach?, Int) = (ClearedReach(), 0)
      while let after = reached {
        #expect(try Self.counts(writer.reader, url) == Self.expected, "slice \(slices)")
        reached = try writer.removeSlice(ofCleared: channel, after: after)
        slices += 1
      }
      #expect(try Self.counts(writer.reader, url) == Self.expected)
      #expect(try Self.left(writer.reader) == 0)
      return (changed, slices)
    }
    #expect(changed < 20, "the commit that clears changed \(changed) rows")
    #expect(slices > 0)
    // What is fetched again was counted already.
    try world.listNewest((1...30).map { Self.message($0) }, limit: 30)
    #expect(try world.cache.read { try Self.counts($0, url) } == Self.expected)
    #expect(try world.cache.check().findings.isEmpty)
  }

  @Test("B58 B68: what comes before the members' rows count the cleared messages is counted once")
  func meanwhile() throws {
    let world = try Self.crowded()
    defer { world.cache.close() }
    let url = world.url
    try world.cache.write { writer in
      let channel = try #require(try writer.reader.channelKey(of: url))
      try writer.clear(url)
      // Cleared messages that come again count as before, and a new one counts.
      let rows = (21...30).map { Self.message($0) }
      let listing = MessageListing(
        window: MessageWindow(.newest, older: 10, newer: 0), rows: rows, isWhole: true, askedAt: .max)
      try writer.store([listing], in: url, ListingContext(source: .apiResult, generation: 1))
      #expect(try Self.counts(writer.reader, url) == Self.expected)
      try writer.store(Self.message(31), in: url, .messageReceived)
      try writer.store(Self.message(15, text: "edited"), in: url, .messageUpdated)
      let expected = Self.expected.map { $0 + 1 }
      #expect(try Self.counts(writer.reader, url) == expected)
      var reached: ClearedReach? = ClearedReach()
      while let after = reached {
        reached = try writer.removeSlice(ofCleared: channel, after: after)
        #expect(try Self.counts(writer.reader, url) == expected)
      }
      #expect(try Self.left(writer.reader) == 12)
    }
    #expect(try world.cache.check().findings.isEmpty)
  }

  @Test("B58 B68: the upkeep counts and deletes what was cleared, also after a restart")
  func upkeep() throws {
    let world = try Self.crowded()
    let url = world.url
    try world.cache.write { try $0.clear(url) }
    let again = try ChannelWithMessages(reopening: world, mostChangedMembers: 10)
    defer { again.cache.close() }
    try again.cache.trim()
    #expect(try again.cache.read { try Self.left($0) } == 0)
    #expect(try again.cache.read { try Self.counts($0, url) } == Self.expected)
    #expect(try again.cache.check().findings.isEmpty)
  }
}
