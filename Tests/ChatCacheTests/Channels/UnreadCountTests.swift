import ChatModel
import JSON
import Testing

@testable import ChatCache

/// Unread messages and mentions, sentence by sentence of the rule.
@Suite struct UnreadCountTests {
  /// Alice's counts, and upstream answers with counts.
  final class World {
    private(set) var base: ChannelWithMessages
    var cache: Cache { base.cache }

    /// `mostChangedMembers`: with more members the channel is crowded.
    init(mostChangedMembers: Int = Cache.Configuration.mostChangedMembers) throws {
      base = try ChannelWithMessages(mostChangedMembers: mostChangedMembers)
    }

    /// Closes the cache, and opens it with another border of crowded channels.
    func reopen(mostChangedMembers: Int) throws {
      base = try ChannelWithMessages(reopening: base, mostChangedMembers: mostChangedMembers)
    }

    /// Stores the channel as the upstream shows it to `user`.
    func refresh(
      unread: Int64, mentions: Int64 = 0, last: MessageRecord? = nil, readAt: Int64 = 0, floor: Int64 = 0,
      joinedAt: Int64 = 1,
      as user: UserID? = nil
    ) throws {
      var record = ChannelWithMessages.channel(
        base.url, floor: floor, unread: unread, last: last.map { .message($0) } ?? .absent, lastReadAt: readAt
      )
      record.membership?.mentions = mentions
      record.membership?.joinedAt = joinedAt
      let (told, user) = (record, user ?? base.alice)
      try cache.write { _ = try $0.store([told], of: user, .refresh(.channelRefresh)) }
    }

    func arrive(_ message: MessageRecord) throws {
      let url = base.url
      try cache.write { try $0.store(message, in: url, .messageReceived) }
    }

    func delete(_ id: Int64) throws {
      let url = base.url
      try cache.write { try $0.delete(message: id, in: url, .messageDeleted) }
    }

    func change(_ updated: [MessageRecord], deleted: [Int64] = []) throws {
      let url = base.url
      let changes = UpstreamChanges(updated: updated, deleted: deleted, hasMore: false, unreadable: 0)
      try cache.write { try $0.store(changes, in: url, .messageChangelog) }
    }

    /// A list that looks the channel up shows it as a page does. All members are looked up in one snapshot,
    /// so that they share the messages that they count.
    private func expectLookupsAsPages() throws {
      let users = [base.alice, UserID("bob")]
      try cache.read { reader in
        let channel = try reader.channelKey(of: base.url)
        for name in users + users.reversed() {
          guard let user = try reader.cachedUser(name), let channel else { continue }
          var paged: [UInt8]?
          try reader.eachListed(ChannelQuery(), of: user) { found in
            paged = found.object.array
            return true
          }
          let lookup = ChannelLookup(ChannelQuery(), of: user.key, named: name)
          var writer = JSONWriter()
          let isListed = try reader.writeListed(channel, lookup, into: &writer) != nil
          let found = isListed ? writer.finish().array : nil
          #expect(
            found.map { String(decoding: $0, as: UTF8.self) }
              == paged.map { String(decoding: $0, as: UTF8.self) })
        }
      }
    }

    func counts(of user: UserID? = nil) throws -> [Int64] {
      let user = user ?? base.alice
      let totals = try cache.read { try $0.unread(of: try #require(try $0.userKey(of: user))) }
      // What is kept and brought up to date is what is counted anew.
      #expect(try cache.unread(of: user) == totals)
      try expectLookupsAsPages()
      return [totals.messages, totals.mentions]
    }
  }

  private func message(
    _ id: Int64, at: Int64? = nil, updatedAt: Int64 = 0, sender: String = "bob", parent: Int64? = nil,
    inChannel: Bool = false, silent: Bool = false, _ mentions: MessageRecord.Mentions = .nobody
  ) -> MessageRecord {
    ChannelWithMessages.message(
      id, at: at ?? id * 10, updatedAt: updatedAt, sender: sender, parent: parent, inChannel: inChannel,
      text: "\(mentions) \(silent)", silent: silent, mentions: mentions)
  }

  /// Runs `body` with a channel that is not crowded, and with one that is.
  private func with(_ body: (World) throws -> Void) throws {
    for most in [2, 1] {
      let world = try World(mostChangedMembers: most)
      defer { world.cache.close() }
      try body(world)
    }
  }

  @Test("B68: lists count more than a thousand unread messages of a crowded channel, too")
  func many() throws {
    let world = try World(mostChangedMembers: 1)
    defer { world.cache.close() }
    try world.refresh(unread: 2, last: message(1))
    try world.refresh(unread: 0, last: message(990), readAt: 9_900, as: UserID("bob"))
    let url = world.base.url
    let messages = (Int64(2)...1_010).map { message($0, sender: "carol", $0 % 7 == 0 ? .everybody : .nobody) }
    try world.cache.write { writer in
      for message in messages { try writer.store(message, in: url, .messageReceived) }
    }
    #expect(try world.counts() == [1_011, 144])
    #expect(try world.counts(of: UserID("bob")) == [20, 3])
    try world.cache.read { reader in
      let channel = try #require(try reader.channelKey(of: url))
      var counted = CountedMessages()
      #expect(try !counted.reach(0, in: channel, reader.db), "more than a thousand")
      #expect(try counted.reach(9_901, in: channel, reader.db), "but the newest were read for others")
      let count = counted.count(from: .first(at: 9_901), for: "bob")
      #expect(count == FollowedCounts.Count(unread: 20, mentions: 3))
    }
  }

  @Test("B68: lists count all messages of the millisecond in which the newest thousand begin")
  func cutMillisecond() throws {
    let world = try World(mostChangedMembers: 1)
    defer { world.cache.close() }
    try world.refresh(unread: 2, last: message(1, at: 1))
    // The newest thousand begin with message 11, and message 10 has the same time.
    try world.refresh(unread: 0, last: message(9, at: 40), readAt: 49, as: UserID("bob"))
    let url = world.base.url
    let messages = (Int64(2)...1_010).map { message($0, at: $0 / 2 * 10, sender: "carol") }
    try world.cache.write { writer in
      for message in messages { try writer.store(message, in: url, .messageReceived) }
    }
    #expect(try world.counts() == [1_011, 0])
    #expect(try world.counts(of: UserID("bob")) == [1_001, 0])
  }

  @Test("B68: the counts are the upstream's at the channel's last refresh")
  func refreshed() throws {
    try with { world in
      try world.refresh(unread: 5, mentions: 2, last: message(9))
      #expect(try world.counts() == [5, 2])
      try world.arrive(message(10, .users(["alice"])))
      #expect(try world.counts() == [6, 3])
      try world.refresh(unread: 1, mentions: 0, last: message(10))
      #expect(try world.counts() == [1, 0])
      #expect(try world.counts(of: world.base.bob) == [0, 0], "each user's own")
    }
  }

  @Test("B68: plus one per message stored later, and none that the upstream's value goes to")
  func later() throws {
    try with { world in
      try world.refresh(unread: 3, last: message(9, at: 90))
      try world.arrive(message(8, at: 80))
      try world.arrive(message(9, at: 90))
      #expect(try world.counts() == [3, 0], "the upstream counted these")
      try world.arrive(message(10, at: 90))
      try world.arrive(message(11, at: 91))
      #expect(try world.counts() == [5, 0], "one of them in the same millisecond")
      try world.arrive(message(11, at: 91))
      #expect(try world.counts() == [5, 0], "and each once")
    }
  }

  @Test("B68: neither the user's own, nor silent ones, nor those in a thread alone, nor those that were read")
  func uncounted() throws {
    try with { world in
      try world.refresh(unread: 0, last: message(1), readAt: 45)
      try world.arrive(message(3, .everybody))
      try world.arrive(message(4, at: 45, .everybody))
      try world.arrive(message(5, sender: "alice", .users(["alice"])))
      try world.arrive(message(6, silent: true, .everybody))
      try world.arrive(message(7, parent: 1, .everybody))
      #expect(try world.counts() == [0, 0])
      try world.arrive(message(8, parent: 1, inChannel: true, .everybody))
      #expect(try world.counts() == [1, 1])
      #expect(try world.counts(of: world.base.bob) == [1, 0], "bob's one is alice's")
    }
  }

  @Test("B23 B68: what the user may not see is not counted")
  func floor() throws {
    try with { world in
      try world.refresh(unread: 0, last: message(1), floor: 55)
      try world.arrive(message(5, .everybody))
      try world.arrive(message(6, .everybody))
      #expect(try world.counts() == [1, 1])
    }
  }

  @Test("B68: mentions likewise, by name or everybody, once for each message")
  func mentions() throws {
    try with { world in
      try world.refresh(unread: 0, last: message(1))
      try world.arrive(message(2, .users(["carol", "alice", "alice"])))
      try world.arrive(message(3, .everybody))
      try world.arrive(message(4, .users(["carol"])))
      #expect(try world.counts() == [3, 2])
      #expect(try world.counts(of: world.base.bob) == [0, 0], "the sender is not mentioned")
    }
  }

  @Test("B68: a later message that is deleted counts no more; of what the upstream counted, its value stands")
  func deleted() throws {
    try with { world in
      try world.refresh(unread: 4, mentions: 2, last: message(3))
      try world.arrive(message(2, .users(["alice"])))
      for id in Int64(4)...6 { try world.arrive(message(id, .users(["alice"]))) }
      #expect(try world.counts() == [7, 5])
      try world.delete(5)
      #expect(try world.counts() == [6, 4])
      try world.delete(5)
      try world.delete(77)
      #expect(try world.counts() == [6, 4], "once")
      try world.delete(2)
      #expect(try world.counts() == [6, 4], "the upstream's value of the last refresh")
      try world.refresh(unread: 5, mentions: 3, last: message(6), readAt: 0)
      #expect(try world.counts() == [5, 3])
      try world.delete(6)
      #expect(try world.counts() == [5, 3])
    }
  }

  @Test("B68: a deletion that came before the refresh told of it is not taken off twice")
  func deletedUpstream() throws {
    try with { world in
      try world.refresh(unread: 2, last: message(3))
      for id in Int64(2)...3 { try world.arrive(message(id)) }
      try world.refresh(unread: 1, last: message(3))
      try world.delete(2)
      #expect(try world.counts() == [1, 0])
    }
  }

  @Test("B68: own, silent and read messages take nothing with them when they go")
  func deletedUncounted() throws {
    try with { world in
      try world.refresh(unread: 1, mentions: 1, last: message(1))
      try world.arrive(message(2, sender: "alice", .everybody))
      try world.arrive(message(3, silent: true, .everybody))
      try world.arrive(message(4, parent: 1, .everybody))
      for id in Int64(2)...4 { try world.delete(id) }
      #expect(try world.counts() == [1, 1])
      try world.arrive(message(5, .everybody))
      try world.refresh(unread: 0, mentions: 0, last: message(1), readAt: 50)
      try world.delete(5)
      #expect(try world.counts() == [0, 0])
    }
  }

  @Test("B68: an edit that mentions somebody later, or no more, moves the mentions of what came later alone")
  func edited() throws {
    try with { world in
      try world.refresh(unread: 1, mentions: 0, last: message(1))
      try world.arrive(message(1))
      try world.arrive(message(2))
      #expect(try world.counts() == [2, 0])
      try world.change([message(2, updatedAt: 100, .users(["alice"]))])
      #expect(try world.counts() == [2, 1])
      try world.change([message(2, updatedAt: 101, .everybody)])
      #expect(try world.counts() == [2, 1])
      try world.change([message(2, updatedAt: 102, .users(["carol"]))])
      #expect(try world.counts() == [2, 0])
      try world.change([message(1, updatedAt: 103, .users(["alice"]))])
      #expect(try world.counts() == [2, 0], "the upstream's value goes to that one")
      try world.change([message(2, updatedAt: 90, .everybody)])
      #expect(try world.counts() == [2, 0], "older than what is stored")
    }
  }

  @Test("B68: a refresh adds what is stored later than the message it goes to, mentions too")
  func refreshLate() throws {
    try with { world in
      for id in Int64(1)...3 { try world.arrive(message(id, .users(["alice"]))) }
      try world.arrive(message(4, .everybody))
      try world.arrive(message(5, sender: "alice", .everybody))
      try world.arrive(message(6, silent: true, .everybody))
      try world.arrive(message(7, .users(["bob"])))
      try world.refresh(unread: 2, mentions: 1, last: message(2))
      #expect(try world.counts() == [5, 3])
      try world.refresh(unread: 2, mentions: 1, last: message(2), readAt: 35)
      #expect(try world.counts() == [4, 2], "of the later ones, those that are unread")
    }
  }

  @Test("B68: what one page adds and deletes counts for nothing")
  func atOnce() throws {
    try with { world in
      try world.refresh(unread: 1, mentions: 1, last: message(1))
      try world.change([message(2, .everybody)], deleted: [2])
      #expect(try world.counts() == [1, 1])
      try world.arrive(message(3, .everybody))
      try world.change([message(3, updatedAt: 100)], deleted: [3])
      #expect(try world.counts() == [1, 1])
    }
  }

  @Test("B68: 0 at mark as read, also where an answer from before it comes after it")
  func markedAsRead() throws {
    try with { world in
      try world.refresh(unread: 3, mentions: 2, last: message(3))
      try world.arrive(message(4, .everybody))
      try world.refresh(unread: 0, mentions: 0, last: message(4), readAt: 40)
      #expect(try world.counts() == [0, 0])
      try world.refresh(unread: 3, mentions: 2, last: message(3), readAt: 0)
      #expect(try world.counts() == [0, 0])
      try world.arrive(message(5, .everybody))
      #expect(try world.counts() == [1, 1])
    }
  }

  @Test("B68: who left and joined again unseen has read less than before, and the upstream's value counts")
  func joinedAgain() throws {
    try with { world in
      try world.refresh(unread: 0, last: message(4), readAt: 45)
      try world.refresh(unread: 3, mentions: 1, last: message(7), readAt: 0)
      #expect(try world.counts() == [3, 1], "a message newer than those of the last refresh")
      try world.refresh(unread: 0, last: message(7), readAt: 75)
      try world.refresh(unread: 2, mentions: 1, last: message(7), readAt: 0)
      #expect(try world.counts() == [0, 0], "nothing tells it from an answer of before the reading")
      try world.refresh(unread: 2, mentions: 1, last: message(7), readAt: 0, joinedAt: 9)
      #expect(try world.counts() == [2, 1], "it joined later")
    }
  }
}
