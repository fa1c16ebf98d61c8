import ChatModel
import Platform
import SQLite
import Testing

@testable import ChatCache

/// A channel that no user of this cache is in any more.
@Suite struct LeftChannelsTests {
  private static let tables = ["message", "tombstone", "segment", "member", "channel_metadata", "membership"]

  /// A channel with `messages` messages, members, metadata, a deleted message and a webhook note, and another
  /// channel that stays.
  private func world(_ messages: Int64, clock: Clock = .system) throws -> ChannelWithMessages {
    let world = try ChannelWithMessages(clock: clock)
    let (url, alice, other) = (world.url, world.alice, ChannelURL("other"))
    try world.listNewest((1...messages).map { ChannelWithMessages.message($0, at: $0 * 10) }, limit: 5_000)
    var record = ChannelWithMessages.channel(
      url, last: .message(ChannelWithMessages.message(messages, at: messages * 10)))
    record.metadata = ["colour": "green"]
    record.readReceipts = ["bob": 20]
    record.members = ["alice", "bob", "carol"].map {
      MemberRecord(userID: $0, nickname: $0, state: .joined, body: Array("\"user_id\":\"\($0)\"".utf8))
    }
    let whole = record
    try world.cache.write { writer in
      _ = try writer.store([whole, ChannelWithMessages.channel(other)], of: alice, .refresh(.channelChanged))
      try writer.store(ChannelWithMessages.message(1, at: 10), in: other, .messageReceived)
      try writer.delete(message: 1, in: url, .messageDeleted)
      try writer.note([WebhookNote(kind: .message, channel: url, messageID: 2, source: .messageUpdated)])
    }
    return world
  }

  private func leave(_ user: UserID, _ world: ChannelWithMessages) throws {
    let url = world.url
    try world.cache.write { try $0.removeMembership(of: user, in: url, .memberLeft) }
  }

  /// The number of the channel's rows in each table.
  private func rows(_ world: ChannelWithMessages, _ url: ChannelURL? = nil) throws -> [String: Int] {
    try world.cache.read { reader in
      guard let key = try reader.channelKey(of: url ?? world.url) else { return [:] }
      var counts: [String: Int] = ["channel": 1]
      for table in Self.tables {
        var found = try reader.db.rows(
          composed: "SELECT count(*) FROM \(table) WHERE channel = \(key.rawValue)")
        if let row = try found.next(), row.int(0) > 0 { counts[table] = row.int(0) }
      }
      return counts
    }
  }

  /// The channel's row, as text: only the url of the channel may be in it.
  private func channelRow(_ world: ChannelWithMessages) throws -> String {
    let url = world.url.text
    return try world.cache.read { reader in
      try reader.db.first(
        """
        SELECT name || name_key || CAST(body AS TEXT) || CAST(read_receipts AS TEXT)
          || coalesce(CAST(metadata AS TEXT), '') || coalesce(CAST(last_message AS TEXT), '')
        FROM channel
        WHERE channel_url = ?1
        """
      ) {
        $0.bind(1, url)
      } _: {
        $0.string(0)
      } ?? ""
    }
  }

  @Test("B1, B4: a channel's data goes when the last one here who was in it leaves or is removed, not before")
  func lastOne() throws {
    let world = try world(450)
    defer { world.cache.close() }
    let before = try rows(world)
    let other = try rows(world, ChannelURL("other"))
    try leave(world.alice, world)
    try world.cache.trim()
    #expect(try rows(world)["message"] == before["message"] && rows(world)["tombstone"] == 1)
    let bob = world.bob
    #expect(try world.cache.accept { try $0.forget(bob, isForced: true) } == 0)
    try world.cache.trim()
    // The row and its line's two segments stay while the log may name the channel.
    #expect(try rows(world) == ["channel": 1, "segment": 2])
    let row = try channelRow(world)
    #expect(!row.isEmpty && !row.contains("General") && !row.contains("hello") && !row.contains("green"))
    #expect(try world.cache.read { try $0.webhookNotes() }.isEmpty)
    #expect(try rows(world, ChannelURL("other")) == other)
    #expect(try world.cache.check().isSound)
  }

  @Test("B4, B53: what nobody may see goes in slices, each of which leaves the channel sound")
  func slices() throws {
    let world = try world(450)
    defer { world.cache.close() }
    try leave(world.alice, world)
    try leave(world.bob, world)
    let key = try #require(try world.cache.read { try $0.channelKey(of: world.url) })
    var counts: [Int] = []
    var isMore = true
    while isMore {
      counts.append(try rows(world)["message"] ?? 0)
      isMore = try world.cache.write { try $0.removeSlice(ofLeft: key) }
      #expect(try world.cache.read { try $0.faults(of: key) }.isEmpty)
      #expect(try world.cache.read { try $0.coverage(of: key).newestCovered } == nil)
    }
    #expect(counts == [449, 249, 49])
    #expect(try rows(world) == ["channel": 1, "segment": 2])
  }

  @Test("B25, B34: who comes back before anything is deleted finds a gap: webhooks were dropped meanwhile")
  func joinedBefore() throws {
    let world = try world(3)
    defer { world.cache.close() }
    let (url, alice, bob) = (world.url, world.alice, world.bob)
    func join(_ user: UserID) throws {
      try world.cache.write {
        _ = try $0.store([ChannelWithMessages.channel(url)], of: user, .refresh(.memberJoined))
      }
    }
    try leave(alice, world)
    try join(alice)
    #expect(try world.page(MessagePageQuery()).ids == [2, 3], "bob was there")
    for user in [alice, bob] { try leave(user, world) }
    let asked = world.cache.cursor.sequence
    try join(alice)
    let page = try world.page(MessagePageQuery())
    #expect(page.ids.isEmpty && !page.isComplete)
    // A listing that was requested before proves nothing.
    try world.list(
      MessageListing(
        window: MessageWindow(.newest, older: 100, newer: 0), rows: [ChannelWithMessages.message(3, at: 30)],
        isWhole: true, askedAt: asked))
    #expect(try world.page(MessagePageQuery()).ids.isEmpty)
    try join(bob)
    try world.listNewest([ChannelWithMessages.message(4, at: 40)], limit: 100)
    #expect(try world.page(MessagePageQuery()).ids == [4])
    #expect(try world.cache.check().isSound)
  }

  @Test("B1: whoever joins while it goes finds a gap and nothing of before")
  func joinedMeanwhile() throws {
    let world = try world(450)
    defer { world.cache.close() }
    try leave(world.alice, world)
    try leave(world.bob, world)
    let (url, alice) = (world.url, world.alice)
    let key = try #require(try world.cache.read { try $0.channelKey(of: url) })
    let asked = world.cache.cursor.sequence
    #expect(try world.cache.write { try $0.removeSlice(ofLeft: key) })
    try world.cache.write {
      _ = try $0.store([ChannelWithMessages.channel(url)], of: alice, .refresh(.memberJoined))
    }
    try world.cache.trim()
    #expect(try rows(world)["message"] == nil)
    let page = try world.page(MessagePageQuery())
    #expect(page.ids.isEmpty && !page.isComplete)
    // A listing requested before the channel was removed proves nothing.
    let message = ChannelWithMessages.message(1, at: 10)
    try world.list(
      MessageListing(
        window: MessageWindow(.newest, older: 100, newer: 0), rows: [message], isWhole: true, askedAt: asked))
    #expect(try world.page(MessagePageQuery()).ids.isEmpty)
    try world.listNewest((451...453).map { ChannelWithMessages.message($0, at: $0 * 10) }, limit: 100)
    #expect(try world.page(MessagePageQuery()).ids == [451, 452, 453])
    #expect(try world.cache.check().isSound)
  }

  @Test("B1: what comes late for a channel that nobody here is in is not stored")
  func late() throws {
    let world = try world(20)
    defer { world.cache.close() }
    try leave(world.alice, world)
    try leave(world.bob, world)
    try world.cache.trim()
    let url = world.url
    try world.listNewest((1...20).map { ChannelWithMessages.message($0, at: $0 * 10) }, limit: 100)
    try world.cache.write { writer in
      try writer.store(ChannelWithMessages.message(21, at: 210), in: url, .messageReceived)
      try writer.delete(message: 3, in: url, .messageDeleted)
      try writer.doubt(url)
    }
    #expect(try rows(world) == ["channel": 1, "segment": 2])
    #expect(try world.cache.read { try $0.line(of: url) } == nil, "nothing is asked for there")
  }

  @Test("B53, B69: the channel's name stays while the log may tell that it was left, and goes with that")
  func row() throws {
    let moved = Guarded<Int64>(0)
    let clock = Clock(
      wallMilliseconds: { Clock.system.wallMilliseconds() + moved.withLock { $0 } },
      monotonicNanoseconds: Clock.system.monotonicNanoseconds)
    let world = try world(20, clock: clock)
    defer { world.cache.close() }
    try leave(world.alice, world)
    try leave(world.bob, world)
    try world.cache.trim()
    moved.withLock { $0 += 6 * 86_400_000 }
    try world.cache.trim()
    #expect(try rows(world) == ["channel": 1, "segment": 2])
    moved.withLock { $0 += 2 * 86_400_000 }
    try world.cache.write { try $0.append(Change(.connection, .channelRefresh)) }
    try world.cache.trim()
    #expect(try rows(world).isEmpty)
    #expect(try world.cache.check().isSound)
  }
}
