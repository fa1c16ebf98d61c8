import ChatModel
import Testing

@testable import ChatCache

/// Channels with so many members here that a message changes none of their rows.
@Suite struct CrowdedChannelsTests {
  private static let members = (0..<40).map { UserID("member-\($0)") }

  private static func admit(_ users: some Sequence<UserID>, to channel: ChannelWithMessages) throws {
    let record = ChannelWithMessages.channel(channel.url)
    for user in users {
      try channel.cache.write { writer in
        try writer.acknowledge(user)
        _ = try writer.store([record], of: user, .listing(sweep: 1))
        try writer.endListing(of: user)
      }
    }
  }

  /// The number of rows that a new message changes.
  private static func changedRows(_ id: Int64, in channel: ChannelWithMessages) throws -> Int64 {
    let (url, message) = (channel.url, ChannelWithMessages.message(id, at: id * 10))
    return try channel.cache.blocking.write { writer in
      let before = writer.db.changedRows
      try writer.store(message, in: url, .messageReceived)
      return writer.db.changedRows - before
    }
  }

  @Test("B64: a message into a crowded channel changes as many rows with 42 members as with 12")
  func rows() throws {
    let channel = try ChannelWithMessages(mostChangedMembers: 10)
    defer { channel.cache.close() }
    try Self.admit(Self.members.prefix(10), to: channel)
    _ = try Self.changedRows(1, in: channel)
    let few = try Self.changedRows(2, in: channel)
    try Self.admit(Self.members.dropFirst(10), to: channel)
    #expect(try Self.changedRows(3, in: channel) == few)
    #expect(few < 12, "no row of a member is among them")
  }

  @Test("B68: totals that were kept hold when a new member makes the channel crowded")
  func crowdedMeanwhile() throws {
    let channel = try ChannelWithMessages(mostChangedMembers: 10)
    defer { channel.cache.close() }
    try Self.admit(Self.members.prefix(8), to: channel)
    _ = try Self.changedRows(1, in: channel)
    #expect(try channel.cache.unread(of: Self.members[0]).messages == 1)
    try Self.admit(Self.members.dropFirst(8), to: channel)
    #expect(try channel.cache.read { try $0.isCrowded(try #require(try $0.channelKey(of: channel.url))) })
    #expect(try channel.cache.unread(of: Self.members[0]).messages == 1)
  }

  @Test("B68: totals walk no crowded channels that the user follows: these are kept by themselves")
  func walkedChannels() throws {
    let channel = try ChannelWithMessages(mostChangedMembers: 10)
    defer { channel.cache.close() }
    try Self.admit(Self.members, to: channel)
    _ = try Self.changedRows(1, in: channel)
    try channel.cache.read { reader in
      let user = try #require(try reader.userKey(of: Self.members[0]))
      #expect(try reader.hasManyBelowZero(user, 0))
      #expect(try !reader.hasManyBelowZero(user, 0, above: ChannelColumns.follows))
    }
  }

  @Test("B68: totals that were kept are counted anew where the log does not tell what changed since")
  func trimmedLog() throws {
    let channel = try ChannelWithMessages(mostChangedMembers: 10)
    defer { channel.cache.close() }
    try Self.admit(Self.members, to: channel)
    for id in Int64(1)...3 {
      _ = try Self.changedRows(id, in: channel)
      if id == 2 {
        // The last event is another user's.
        try Self.admit([UserID("late")], to: channel)
        try channel.cache.write { writer in
          let last = try writer.reader.lastChange()
          try writer.db.run("DELETE FROM event WHERE seq < ?1") { $0.bind(1, last) }
          try writer.keepLog(from: last)
        }
      }
      #expect(try channel.cache.unread(of: Self.members[0]).messages == id)
    }
  }

  @Test("B63: a channel of an older database that is too large becomes crowded with its next message")
  func grown() throws {
    let small = try ChannelWithMessages(mostChangedMembers: .max)
    try Self.admit(Self.members, to: small)
    let before = try Self.changedRows(1, in: small)
    #expect(before > 40)
    let channel = try ChannelWithMessages(reopening: small, mostChangedMembers: 10)
    defer { channel.cache.close() }
    _ = try Self.changedRows(2, in: channel)
    #expect(try Self.changedRows(3, in: channel) < 12)
    for user in Self.members.prefix(3) {
      let totals = try channel.cache.read { try $0.unread(of: try #require(try $0.userKey(of: user))) }
      #expect(totals.messages == 3)
    }
    #expect(try channel.cache.check().isSound)
  }

  @Test("B57, B68: eviction counts for some members in a slice, and nobody's count changes meanwhile")
  func evicted() throws {
    let channel = try ChannelWithMessages(mostChangedMembers: 1)
    defer { channel.cache.close() }
    let url = channel.url
    try Self.admit(Self.members.prefix(20), to: channel)
    for id in Int64(1)...30 {
      let sender = id % 3 == 0 ? "member-1" : "bob"
      let message = ChannelWithMessages.message(
        id, at: id * 10, sender: sender, mentions: .users(["member-2"]))
      try channel.cache.write { try $0.store(message, in: url, .messageReceived) }
    }
    func counts() throws -> [[Int64]] {
      let users = Self.members.prefix(25)
      let known = try users.map { try channel.cache.unread(of: $0) }
      let counted = try channel.cache.read { reader in
        try users.map { try reader.userKey(of: $0).map { try reader.unread(of: $0) } ?? UnreadTotals() }
      }
      #expect(known == counted)
      return try channel.cache.read { reader in
        try Self.members.prefix(25).map { user in
          guard let key = try reader.userKey(of: user) else { return [] }
          let totals = try reader.unread(of: key)
          return [totals.messages, totals.mentions]
        }
      }
    }
    var before = try counts()
    #expect(before[0] == [30, 0] && before[1] == [20, 0] && before[2] == [30, 30])
    let key = try #require(try channel.cache.read { try $0.channelKey(of: url) })
    let accessed = try channel.cache.read { reader in
      try reader.db.first("SELECT accessed_at FROM channel") { $0.int64(0) } ?? -1
    }
    var (slices, messages): (Int, Int64) = (0, 0)
    while messages < 16, slices < 60 {
      let slice = EvictionSlice(channel: key, accessedAt: accessed, rows: 8)
      messages += try channel.cache.write { try $0.evict(slice) }.messages
      slices += 1
      if slices == 4 {
        // Members who come while others are counted for.
        try Self.admit(Self.members.dropFirst(20).prefix(5), to: channel)
        before.replaceSubrange(20..<25, with: try counts()[20..<25])
      }
      #expect(try counts() == before, "after slice \(slices)")
    }
    #expect(messages == 16 && slices > 20)
    #expect(try channel.cache.check().isSound)
  }

  @Test("B7, B23: a member whose floor is above the last message is moved by the next one that is not")
  func floors() throws {
    let channel = try ChannelWithMessages(floorOfBob: 15, mostChangedMembers: 1)
    defer { channel.cache.close() }
    func times() throws -> [Int64] {
      try channel.cache.read { reader in
        try [channel.alice, channel.bob].map { user in
          var (keys, query): ([ChannelListKey], ChannelQuery) = ([], ChannelQuery())
          query.includesEmpty = true
          try reader.eachKey(query, of: try #require(try reader.cachedUser(user))) {
            keys.append($0)
            return true
          }
          return try #require(keys.first).time
        }
      }
    }
    let empty = ChannelColumns.sortAt(lastMessageAt: nil, createdAt: 1)
    #expect(try times() == [empty, empty])
    _ = try Self.changedRows(1, in: channel)
    #expect(try times() == [10, empty])
    _ = try Self.changedRows(2, in: channel)
    #expect(try times() == [20, 20])
    let url = channel.url
    try channel.cache.write { try $0.delete(message: 2, in: url, .messageDeleted) }
    #expect(try times() == [10, empty])
    #expect(try channel.cache.check().isSound)
  }

  @Test("B7: pages of a list with many crowded channels and others are in order", arguments: [5, 90])
  func pages(crowded: Int) throws {
    var configuration = Cache.Configuration(directory: Disk.folder())
    configuration.mostChangedMembers = 1
    let cache = try Cache(configuration)
    defer { cache.close() }
    let (alice, bob) = (UserID("alice"), UserID("bob"))
    for user in [alice, bob] { try cache.write { try $0.acknowledge(user) } }
    var expected: [(time: Int64, url: String)] = []
    for number in 0..<crowded + 20 {
      let url = ChannelURL("c\(number)")
      for user in number < crowded ? [alice, bob] : [alice] {
        try cache.write { _ = try $0.store([ChannelWithMessages.channel(url)], of: user, .listing(sweep: 1)) }
      }
      let time = Int64(1000 + number * 37 % 50)
      let message = ChannelWithMessages.message(Int64(number + 1), at: time)
      try cache.write { try $0.store(message, in: url, .messageReceived) }
      expected.append((time, url.text))
    }
    expected.sort { $0.time == $1.time ? $0.url < $1.url : $0.time > $1.time }
    try cache.read { reader in
      let user = try #require(try reader.cachedUser(alice))
      #expect(try reader.followedChannels(of: user.key) == (crowded > 64 ? .many : .few))
      var (found, after): ([String], ChannelListKey?) = ([], nil)
      var query = ChannelQuery()
      query.limit = 7
      repeat {
        let page = try reader.page(query, of: user, after: after)
        try reader.eachListed(query, of: user, after: after, limit: page.count) {
          found.append($0.url.text)
          return true
        }
        after = page.next
      } while after != nil
      #expect(found == expected.map(\.url))
    }
  }

  /// An answer of a member's own poll.
  private static func poll(
    of user: UserID, in channel: ChannelWithMessages, last: Int64, unread: Int64, reads: ReadReceipts? = nil,
    _ origin: ChannelOrigin = .changelog(deleted: [], next: nil)
  ) throws -> (activity: ChannelActivity, changedRows: Int64, events: Int64) {
    let message = ChannelWithMessages.message(last, at: last * 10)
    var record = ChannelWithMessages.channel(channel.url, unread: unread, last: .message(message))
    record.readReceipts = reads
    let told = record
    return try channel.cache.write { writer in
      let (rows, log) = (writer.db.changedRows, try writer.reader.lastChange())
      let activity = try #require(try writer.store([told], of: user, origin).first)
      return (activity, writer.db.changedRows - rows, try writer.reader.lastChange() - log)
    }
  }

  private static func openView(in channel: ChannelWithMessages) throws {
    try channel.cache.write { writer in
      let key = try #require(try writer.reader.userKey(of: channel.alice))
      let shown = (try #require(try writer.reader.channelKey(of: channel.url)), channel.url)
      try writer.open(
        StoredCollection(
          id: "view", user: key, userID: channel.alice, kind: .messages, channel: shown,
          query: Array("{}".utf8), loaded: [], accessedAt: 0))
    }
  }

  @Test(
    "B64: polls of a crowded channel's members that are ahead of its messages tell the others nothing"
  )
  func pollsAhead() throws {
    let channel = try ChannelWithMessages(mostChangedMembers: 10)
    defer { channel.cache.close() }
    try Self.admit(Self.members, to: channel)
    try channel.listNewest((Int64(1)...3).map { ChannelWithMessages.message($0, at: $0 * 10) }, limit: 100)
    func unread(_ user: UserID) throws -> Int64 {
      try channel.cache.read { try $0.unread(of: try #require(try $0.userKey(of: user))) }.messages
    }
    try Self.openView(in: channel)
    for user in Self.members.prefix(20) {
      let poll = try Self.poll(of: user, in: channel, last: 4, unread: 4)
      #expect(poll.events == 1 && poll.activity.isBehind && poll.activity.lastMessageAt == 40)
      #expect(try unread(user) == 4, "the member's own counts are the chat server's")
    }
    try channel.listNewest((Int64(1)...4).map { ChannelWithMessages.message($0, at: $0 * 10) }, limit: 100)
    for user in Self.members.prefix(20) {
      #expect(try unread(user) == 4)
      let poll = try Self.poll(of: user, in: channel, last: 4, unread: 4)
      #expect(poll.events == 0 && !poll.activity.isBehind && poll.changedRows <= 1, "\(poll)")
    }
    // A message that the upstream no longer counts.
    #expect(try Self.poll(of: Self.members[0], in: channel, last: 4, unread: 2).events == 1)
    #expect(try unread(Self.members[0]) == 2)
    #expect(try channel.cache.check().isSound)
  }

  @Test("B7: without an open view a poll tells the last message of a crowded channel")
  func pollsWithoutView() throws {
    let channel = try ChannelWithMessages(mostChangedMembers: 10)
    defer { channel.cache.close() }
    try Self.admit(Self.members, to: channel)
    try channel.listNewest((Int64(1)...3).map { ChannelWithMessages.message($0, at: $0 * 10) }, limit: 100)
    let poll = try Self.poll(of: Self.members[0], in: channel, last: 4, unread: 4)
    #expect(poll.events > 0 && poll.activity.isBehind && poll.activity.lastMessageAt == 40)
  }

  @Test("B68: counts are right when hundreds of messages come while each poll is ahead of them")
  func alwaysAhead() throws {
    let channel = try ChannelWithMessages(mostChangedMembers: 10)
    defer { channel.cache.close() }
    try Self.admit(Self.members, to: channel)
    try channel.listNewest([ChannelWithMessages.message(1, at: 10)], limit: 100)
    try Self.openView(in: channel)
    for id in Int64(2)...200 {
      // The chat server deletes every tenth message before the poll.
      let deleted = id / 10
      _ = try Self.poll(of: Self.members[0], in: channel, last: id, unread: id - deleted)
      try channel.listNewest(
        (max(1, id - 50)...id).map { ChannelWithMessages.message($0, at: $0 * 10) }, limit: 100)
    }
    let count = try channel.cache.read {
      try $0.unread(of: try #require(try $0.userKey(of: Self.members[0])))
    }
    #expect(count.messages == 180)
    let counted = try channel.cache.read { reader in
      let user = try #require(try reader.userKey(of: Self.members[0]))
      return try reader.db.first("SELECT counted_id FROM membership WHERE user = ?1") {
        $0.bind(1, user.rawValue)
      } _: {
        $0.int64(0)
      }
    }
    #expect(try #require(counted) > 100, "few messages are left to be counted when somebody asks")
  }
}
