import ChatModel
import JSON
import Testing

@testable import ChatCache

/// Channels as one user sees them: objects, pages, members, totals.
@Suite struct ChannelReadingTests {
  private static let alice = UserID("alice")
  private static let bob = UserID("bob")

  private func withCache(_ body: (Cache) throws -> Void) throws {
    let cache = try Cache(Cache.Configuration(directory: Disk.folder()))
    defer { cache.close() }
    try cache.write { writer in
      for user in [Self.alice, Self.bob] { try writer.acknowledge(user) }
    }
    try body(cache)
  }

  private func store(_ records: [ChannelRecord], of user: UserID, _ cache: Cache) throws {
    try cache.write { _ = try $0.store(records, of: user, .listing(sweep: 1)) }
  }

  private func object(
    _ url: String, for user: UserID, parts: ChannelParts = [], _ cache: Cache
  ) throws -> String? {
    try cache.read { reader in
      guard let key = try reader.userKey(of: user), let view = try reader.view(of: ChannelURL(url), for: key),
        let object = try reader.channel(view, parts: parts)
      else { return nil }
      return String(decoding: object.array, as: UTF8.self)
    }
  }

  private func page(
    _ query: ChannelQuery = ChannelQuery(), of user: UserID, after: ChannelListKey? = nil, _ cache: Cache
  ) throws -> (urls: [String], next: ChannelListKey?, isComplete: Bool) {
    try cache.read { reader in
      guard let someone = try reader.cachedUser(user) else { return ([], nil, false) }
      let page = try reader.page(query, of: someone, after: after)
      let text = [UInt8(ascii: "[")] + page.items.array + [UInt8(ascii: "]")]
      let urls = try text.withUnsafeBytes { bytes in
        try JSONParser().parse(bytes) { $0.items.compactMap { $0["channel_url"]?.string } }
      }
      return (urls, page.next, page.isComplete)
    }
  }

  @Test("B57: of a channel's messages as many are counted as its prefetch needs to know, and no more")
  func countedMessages() throws {
    let channel = try ChannelWithMessages()
    defer { channel.cache.close() }
    let messages = (1...10_500).map { ChannelWithMessages.message($0, at: $0 * 10) }
    // The page does not prove that its first message is the first of that millisecond.
    try channel.listNewest(messages, limit: messages.count)
    try channel.cache.read { reader in
      #expect(try reader.line(of: channel.url, counting: 11_000)?.rows == 10_499)
      #expect(try reader.line(of: channel.url, counting: 200)?.rows == 200)
      let all = try #require(try reader.overview(after: nil, limit: 100, counting: 200).first?.line)
      #expect(all.rows == 200 && all.oldest == messages[1].position, "the extent is the whole stretch's")
    }
  }

  @Test("B1: what is a user's own is in nobody else's view of the channel")
  func ownFields() throws {
    try withCache { cache in
      let url = ChannelURL("general")
      let bobs = ChannelWithMessages.channel(
        url, floor: 77, unread: 41, hidden: "hidden_prevent_auto_unhide", lastReadAt: 4242)
      try store([ChannelWithMessages.channel(url)], of: Self.alice, cache)
      try store([bobs], of: Self.bob, cache)
      let alices = try #require(try object("general", for: Self.alice, cache))
      for secret in ["41", "4242", "77", "hidden_prevent"] { #expect(!alices.contains(secret), "\(alices)") }
      let own = try #require(try object("general", for: Self.bob, cache))
      #expect(own.contains("\"unread_message_count\":41") && own.contains("\"history_floor_at\":77"))
      #expect(own.contains("\"hidden_state\":\"hidden_prevent_auto_unhide\""))
      #expect(own.contains("\"my_last_read_at\":4242"))
      #expect(try object("general", for: UserID("carol"), cache) == nil)
      #expect(try object("nowhere", for: Self.alice, cache) == nil)
    }
  }

  @Test("B1 B23: a last message below the floor, or in a channel one is only invited to, is not shown")
  func lastMessage() throws {
    try withCache { cache in
      let message = ChannelWithMessages.message(1, at: 50, text: "old news")
      for (url, floor) in [("below", Int64(51)), ("at", 50)] {
        let record = ChannelWithMessages.channel(ChannelURL(url), floor: floor, last: .message(message))
        try store([record], of: Self.alice, cache)
      }
      var invited = ChannelWithMessages.channel(ChannelURL("invited"), last: .message(message))
      invited.membership?.state = .invited
      try store([invited], of: Self.alice, cache)
      #expect(try object("below", for: Self.alice, cache)?.contains("old news") == false)
      #expect(try object("at", for: Self.alice, cache)?.contains("old news") == true)
      #expect(try object("invited", for: Self.alice, cache)?.contains("old news") == false)
      let key = try cache.read { try $0.userKey(of: Self.alice) }
      let view = try cache.read { try $0.view(of: ChannelURL("invited"), for: try #require(key)) }
      #expect(view?.isJoined == false)
      #expect(try page(of: Self.alice, cache).urls.first == "at", "below its floor a channel counts as empty")
    }
  }

  @Test("B6: members and metadata are in the answer only where they are asked for")
  func switches() throws {
    try withCache { cache in
      var record = ChannelWithMessages.channel(ChannelURL("general"))
      record.metadata = ["color": "red"]
      record.members = ["alice", "bob"].map {
        MemberRecord(userID: $0, nickname: $0, state: .joined, body: Array("\"user_id\":\"\($0)\"".utf8))
      }
      record.readReceipts = ["bob": 33]
      try store([record], of: Self.alice, cache)
      let plain = try #require(try object("general", for: Self.alice, cache))
      #expect(!plain.contains("\"members\"") && !plain.contains("\"metadata\""))
      #expect(plain.contains("\"read_receipts\":{\"bob\":33}"))
      let whole = try #require(
        try object("general", for: Self.alice, parts: [.members, .metadata], cache))
      #expect(whole.contains("\"metadata\":{\"color\":\"red\"}"))
      #expect(whole.contains("{\"user_id\":\"bob\",\"last_read_at\":33}"))
    }
  }

  @Test("B7: pages go on after a channel, over ties, without losing or repeating one")
  func paging() throws {
    try withCache { cache in
      let records = (0..<23).map { number in
        ChannelWithMessages.channel(
          ChannelURL("c\(number)"), name: "n\(number % 4)",
          last: .message(ChannelWithMessages.message(Int64(number), at: Int64(100 + number / 5))))
      }
      try store(records, of: Self.alice, cache)
      for order in [ChannelQuery.Order.latestLastMessage, .chronological, .name] {
        var query = ChannelQuery()
        query.order = order
        query.limit = 4
        var seen: [String] = []
        var after: ChannelListKey?
        repeat {
          let page = try page(query, of: Self.alice, after: after, cache)
          seen += page.urls
          after = page.next
        } while after != nil && seen.count < 100
        #expect(seen.count == 23 && Set(seen).count == 23, "\(order): \(seen)")
      }
      #expect(try page(of: Self.bob, cache).urls.isEmpty)
    }
  }

  @Test("B11: until all of a user's channels were listed once, a page is not complete")
  func firstListing() throws {
    try withCache { cache in
      try store([ChannelWithMessages.channel(ChannelURL("general"))], of: Self.alice, cache)
      #expect(try !page(of: Self.alice, cache).isComplete)
      try cache.write { try $0.endListing(of: Self.alice) }
      #expect(try page(of: Self.alice, cache).isComplete)
    }
  }

  @Test("B11: a listing ends with its last page only if its pages had every stored channel")
  func unmetChannel() throws {
    try withCache { cache in
      func list(_ urls: [String], sweep: Int64) throws -> Bool {
        let records = urls.map { ChannelWithMessages.channel(ChannelURL($0)) }
        return try cache.write {
          _ = try $0.store(records, of: Self.alice, .listing(sweep: sweep))
          return try $0.endListing(of: Self.alice, begunAt: .max, ifMetBy: sweep)
        }
      }
      try store([ChannelWithMessages.channel(ChannelURL("left"))], of: Self.alice, cache)
      #expect(try !list(["general"], sweep: 10))
      #expect(try !page(of: Self.alice, cache).isComplete)
      #expect(try list(["general", "left"], sweep: 11))
      #expect(try page(of: Self.alice, cache).isComplete)
    }
  }

  @Test("B8: a filter over members that were never fetched is not answered as if it were known")
  func unknownMembers() throws {
    try withCache { cache in
      var record = ChannelWithMessages.channel(
        ChannelURL("general"), last: .message(ChannelWithMessages.message(1, at: 5)))
      try store([record], of: Self.alice, cache)
      try cache.write { try $0.endListing(of: Self.alice) }
      var query = ChannelQuery()
      query.userIDsInclude = ["bob"]
      let before = try page(query, of: Self.alice, cache)
      #expect(before.urls.isEmpty && !before.isComplete)
      record.members = ["alice", "bob"].map {
        MemberRecord(userID: $0, nickname: "", state: .joined, body: Array("\"user_id\":\"\($0)\"".utf8))
      }
      try store([record], of: Self.alice, cache)
      let after = try page(query, of: Self.alice, cache)
      #expect(after.urls == ["general"] && after.isComplete)
    }
  }

  @Test("B68: the totals are the user's own, over the channels with something unread")
  func totals() throws {
    try withCache { cache in
      for (url, unread) in [("a", Int64(3)), ("b", 4), ("c", 0)] {
        try store(
          [ChannelWithMessages.channel(ChannelURL(url), unread: unread)], of: Self.alice, cache)
        try store([ChannelWithMessages.channel(ChannelURL(url))], of: Self.bob, cache)
      }
      let totals = try cache.read { reader in
        try [Self.alice, Self.bob].map { try reader.unread(of: try #require(try reader.userKey(of: $0))) }
      }
      #expect(totals[0] == UnreadTotals(messages: 7, mentions: 0, channels: 2))
      #expect(totals[1] == UnreadTotals())
    }
  }

  @Test("B56 B58: sizes and cached channels are the user's own, or everybody's where nobody is named")
  func cacheInfo() throws {
    try withCache { cache in
      try store(["a", "b"].map { ChannelWithMessages.channel(ChannelURL($0)) }, of: Self.alice, cache)
      try store([ChannelWithMessages.channel(ChannelURL("c"))], of: Self.bob, cache)
      try cache.write { try $0.store(ChannelWithMessages.message(1, at: 9), in: ChannelURL("c"), .apiResult) }
      let bob = try cache.read { try $0.userKey(of: Self.bob) }
      let (own, all) = try cache.read { (try $0.info(of: bob), try $0.info(of: nil)) }
      #expect(own.channels == 1 && own.messages == 1 && all.channels == 3 && all.messages == 1)
      #expect(own.sizeBytes > 0 && own.sizeBytes % 16_384 == 0)
      let listed = try cache.read {
        try $0.cachedChannels(of: nil, by: .messages, isDescending: true, limit: 10).map(\.url.text)
      }
      #expect(listed == ["c", "b", "a"])
      let bobs = try cache.read {
        try $0.cachedChannels(of: bob, by: .accessedAt, isDescending: false, limit: 10)
      }
      #expect(bobs.map(\.url.text) == ["c"] && bobs.first?.messages == 1)
    }
  }
}
