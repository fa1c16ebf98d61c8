import ChatModel
import JSON
import Platform
import Testing

@testable import ChatCache

/// A read mark that waits to be sent, while messages come, are cleared, and are listed again. The chat
/// server's call marks everything, so a mark that is sent too early loses unread messages (B42, B68).
@Suite struct PendingReadTests {
  /// Alice in `general`, whose marks wait until `advance`.
  private struct World {
    let base: ChannelWithMessages
    let wall = Guarded<Int64>(1_000_000)

    init(isCrowded: Bool, mostCleared: Int = Limits.clearedAtOnce) throws {
      let wall = wall
      let clock = Clock(
        wallMilliseconds: { wall.withLock { $0 } }, monotonicNanoseconds: Clock.system.monotonicNanoseconds)
      base = try ChannelWithMessages(
        clock: clock, mostChangedMembers: isCrowded ? 1 : 10, mostCleared: mostCleared)
    }

    var cache: Cache { base.cache }

    /// A message as the chat server has it: with its sender.
    static func message(_ id: Int64, from sender: String = "bob", isSilent: Bool = false) -> MessageRecord {
      var record = ChannelWithMessages.message(id, at: id * 10, sender: sender, silent: isSilent)
      var writer = JSONWriter()
      writer.name("message_id")
      writer.value(quoting: id)
      writer.field("created_at", id * 10)
      writer.field("is_silent", isSilent)
      record.body = writer.finish().array + Array(#","sender":{"user_id":"\#(sender)"}"#.utf8)
      return record
    }

    func arrive(_ ids: ClosedRange<Int64>) throws {
      let url = base.url
      for id in ids { try cache.write { try $0.store(Self.message(id), in: url, .messageReceived) } }
    }

    /// Marks the channel as read, as the request of a client does.
    func markRead(_ name: String) throws {
      let (request, url, user) = (OutboxTableTests.request(name, .read, "{}"), base.url, base.alice)
      _ = try cache.accept { try $0.accept(request, of: user, in: url, OutboxPolicy()) }
    }

    /// Stores the channel as the chat server shows it to Alice, who has read nothing there.
    func refresh(unread: Int64?, last: MessageRecord? = nil) throws {
      var record = ChannelWithMessages.channel(base.url, last: last.map { .message($0) } ?? .absent)
      record.membership?.unread = unread
      record.membership?.mentions = unread.map { _ in 0 }
      let (told, user) = (record, base.alice)
      try cache.write { _ = try $0.store([told], of: user, .refresh(.channelRefresh)) }
    }

    func clear() throws {
      let url = base.url
      try cache.write { try $0.clear(url) }
    }

    var unread: Int64 {
      get throws { try cache.unread(of: base.alice).messages }
    }

    /// Whether the waiting mark is sent now, 31 s after the last look.
    var isSent: Bool {
      get throws {
        wall.withLock { $0 += ReadMark.waitMilliseconds + 1_000 }
        let name = OutboxLaneName(user: base.alice, channel: base.url)
        return try cache.accept { try $0.advance(name, after: nil, OutboxPolicy(), random: 500) }.begun != nil
      }
    }
  }

  @Test(
    "B42 B68: a mark that waits for newer messages goes on waiting when these are cleared and listed again",
    arguments: [false, true])
  func cleared(isCrowded: Bool) throws {
    let world = try World(isCrowded: isCrowded)
    defer { world.cache.close() }
    try world.arrive(1...3)
    try world.markRead("r1")
    try world.arrive(4...8)
    #expect(try world.unread == 5)
    try world.clear()
    #expect(try world.unread == 5)
    try world.refresh(unread: 8, last: World.message(8))
    #expect(try world.unread == 5, "the chat server counts 8, because it does not know the mark")
    #expect(try !world.isSent)
    try world.refresh(unread: nil, last: World.message(8))
    #expect(try world.unread == 5)
    try world.refresh(unread: 4, last: World.message(8))
    #expect(try world.unread == 4, "no more than there are")
    #expect(try !world.isSent)
    try world.markRead("r2")
    #expect(try world.unread == 0)
    #expect(try world.isSent)
  }

  @Test("B58 B68: an answer between the clear and the slices that count for the members changes no count")
  func betweenSlices() throws {
    let world = try World(isCrowded: true, mostCleared: 1)
    defer { world.cache.close() }
    try world.arrive(1...3)
    try world.markRead("r1")
    try world.arrive(4...8)
    let (url, alice) = (world.base.url, world.base.alice)
    // One commit, so that the upkeep does not come in between.
    try world.cache.write { writer in
      let channel = try #require(try writer.reader.channelKey(of: url))
      try writer.clear(url)
      #expect(try writer.reader.uncountedCleared(of: channel) != nil)
      for counts in [nil, Int64(8)] {
        var record = ChannelWithMessages.channel(url)
        record.membership?.unread = counts
        record.membership?.mentions = counts
        record.membership?.isMuted = counts == nil
        _ = try writer.store([record], of: alice, .refresh(.channelRefresh))
        let key = try #require(try writer.reader.userKey(of: alice))
        let view = try #require(try writer.reader.view(of: url, for: key))
        #expect(try writer.reader.unreadCount(view) == 5)
      }
      var reached: ClearedReach? = ClearedReach()
      while let after = reached { reached = try writer.removeSlice(ofCleared: channel, after: after) }
    }
    #expect(try world.unread == 5)
    #expect(try !world.isSent)
  }

  @Test(
    "B42: a mark waits while the channel's last message is known, but not stored", arguments: [false, true])
  func lastMessageNotStored(isCrowded: Bool) throws {
    let world = try World(isCrowded: isCrowded)
    defer { world.cache.close() }
    try world.arrive(1...3)
    try world.markRead("r1")
    try world.refresh(unread: 5, last: World.message(5))
    #expect(try !world.isSent)
    try world.arrive(4...5)
    #expect(try world.unread == 2)
    #expect(try !world.isSent)
    try world.markRead("r2")
    #expect(try world.isSent)
  }

  @Test("B42: where a crowded channel has an open view, a member's mark waits for what the member's poll saw")
  func crowdedAndOpen() throws {
    let world = try World(isCrowded: true)
    defer { world.cache.close() }
    try world.base.listNewest((Int64(1)...3).map { World.message($0) }, limit: 3)
    try world.cache.write { writer in
      try writer.db.execute(
        """
        INSERT INTO collection (id, user, kind, channel, query, loaded, opened_at, accessed_at)
        SELECT 'view', 2, 'messages', id, CAST('{}' AS BLOB), CAST('{}' AS BLOB), 0, 0 FROM channel
        """)
    }
    try world.markRead("r1")
    try world.refresh(unread: 5, last: World.message(5))
    #expect(try !world.isSent)
  }

  @Test("B42: a mark covers the last message that the channel shows")
  func lastMessageCovered() throws {
    let world = try World(isCrowded: false)
    defer { world.cache.close() }
    try world.refresh(unread: 5, last: World.message(5))
    try world.markRead("r1")
    #expect(try world.isSent)
  }

  @Test("B42: what comes before an own or silent last message may be unread, so the mark waits for it")
  func ownOrSilentLastMessage() throws {
    for last in [World.message(6, from: "alice"), World.message(6, isSilent: true)] {
      let world = try World(isCrowded: false)
      defer { world.cache.close() }
      try world.arrive(1...3)
      try world.markRead("r1")
      try world.refresh(unread: 2, last: last)
      #expect(try !world.isSent)
      let url = world.base.url
      try world.cache.write { try $0.store(last, in: url, .messageReceived) }
      #expect(try world.unread == 0)
      #expect(try world.isSent)
    }
  }

  @Test("B42: a mark waits half a minute while nobody has asked yet what is new since the link came back")
  func notCaughtUp() throws {
    let world = try World(isCrowded: false)
    defer { world.cache.close() }
    try world.arrive(1...3)
    try world.markRead("r1")
    let name = OutboxLaneName(user: world.base.alice, channel: world.base.url)
    let progress = try world.cache.accept {
      try $0.advance(name, after: nil, mayMarkRead: false, OutboxPolicy(), random: 500)
    }
    #expect(progress.begun == nil && progress.nextTryIn == ReadMark.waitMilliseconds)
    #expect(try world.isSent)
  }

  @Test("B42 B58: a mark that is made after a clear covers what was counted before")
  func markedAfterClear() throws {
    let world = try World(isCrowded: false)
    defer { world.cache.close() }
    try world.arrive(1...3)
    try world.clear()
    try world.markRead("r1")
    try world.refresh(unread: 3, last: World.message(3))
    #expect(try world.unread == 0)
    #expect(try world.isSent)
  }
}
