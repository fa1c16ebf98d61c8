import ChatModel
import Platform
import Testing

@testable import ChatAPI
@testable import ChatCache

/// Which messages the user feed tells as received: those from after the user came into the channel and from
/// after the user's first listing of channels, once, whichever request brought them (B50).
@Suite struct NewMessageTests {
  /// alice and bob, whose first listings of channels ended at `listed`.
  private func world(listed: Int64 = 100) throws -> CollectionWorld {
    let world = try CollectionWorld()
    for user in ["alice", "bob"] {
      let other = record("other-\(user)", joined: listed, last: nil)
      try world.cache.write { writer in
        try writer.acknowledge(UserID(user))
        _ = try writer.store([other], of: UserID(user), .listing(sweep: 1))
        try writer.endListing(of: UserID(user))
      }
    }
    return world
  }

  private func feed(_ world: CollectionWorld) -> String { "/v1/events?wait=0&since=\(world.cache.cursor)" }

  private func messages(_ world: CollectionWorld, _ feed: String, as user: String = "alice") -> [String] {
    world.ask(feed, as: user).events.filter { $0.hasPrefix("message.") }
  }

  private func record(
    _ channel: String, joined: Int64?, last: Int64?, invited: Int64? = nil
  ) -> ChannelRecord {
    var record = CollectionWorld.channel(channel, floor: 0, name: "", last: nil)
    if let last { record.lastMessage = .message(CollectionWorld.message(last, at: last * 10)) }
    record.membership?.joinedAt = joined
    record.membership?.invitedAt = invited
    return record
  }

  private func gain(_ record: ChannelRecord, as user: String = "alice", in world: CollectionWorld) throws {
    try world.cache.write { _ = try $0.store([record], of: UserID(user), .refresh(.channelChanged)) }
  }

  @Test("B50: a new channel's first messages are received, although they are listed before a webhook comes")
  func newChannel() throws {
    let world = try world()
    defer { world.stop() }
    let feed = feed(world)
    try gain(record("general", joined: 200, last: 22), in: world)
    try world.list([19, 20, 21, 22], in: "general")
    #expect(messages(world, feed) == ["message.received 20 21 22"], "19 is from before alice joined")
    for id in [20, 21, 22] as [Int64] { try world.send(id, in: "general") }
    #expect(messages(world, feed) == ["message.received 20 21 22"], "the webhooks come late")
    try world.send(23, in: "general")
    #expect(messages(world, feed) == ["message.received 20 21 22", "message.received 23"])
  }

  @Test("B50: an invitation counts like joining, and a late webhook of an earlier message is not received")
  func invited() throws {
    let world = try world()
    defer { world.stop() }
    let feed = feed(world)
    try gain(record("general", joined: nil, last: 22, invited: 205), in: world)
    try world.send(20, in: "general")
    try world.list([20, 21], in: "general")
    #expect(messages(world, feed) == ["message.received 21"])
  }

  @Test("B50: if nobody says when the user came, messages up to the channel's last one are not received")
  func unknownJoining() throws {
    let world = try world()
    defer { world.stop() }
    let feed = feed(world)
    try gain(record("general", joined: 150, last: nil), as: "bob", in: world)
    try world.list([20, 21], in: "general")
    try gain(record("general", joined: nil, last: 21), in: world)
    try world.list([20, 21, 22], in: "general")
    #expect(messages(world, feed) == ["message.received 22"])
  }

  @Test("B50: of an old channel that the first listing missed, only messages from after it are received")
  func missed() throws {
    let world = try world(listed: 195)
    defer { world.stop() }
    let feed = feed(world)
    try gain(record("general", joined: 1, last: 22), in: world)
    try world.list([18, 19, 20], in: "general")
    #expect(messages(world, feed) == ["message.received 20"])
  }

  @Test("B50: messages up to the last one of the first listing are not received, later ones are")
  func firstListing() throws {
    let world = try CollectionWorld()
    defer { world.stop() }
    let feed = feed(world)
    try world.cache.write { try $0.acknowledge(UserID("alice")) }
    let page = [record("general", joined: 1, last: 20), record("quiet", joined: 1, last: nil)]
    try world.cache.write { _ = try $0.store(page, of: UserID("alice"), .listing(sweep: 1)) }
    try world.list([18, 19, 20, 21], in: "general")
    // Messages that the channel does not name as its last one, such as silent ones.
    try world.list([18, 19], in: "quiet")
    #expect(messages(world, feed) == ["message.received 21"])
    try world.send(22, in: "quiet")
    #expect(messages(world, feed) == ["message.received 21", "message.received 22"])
  }

  @Test(
    "B50: a channel of which a webhook tells before the first listing began: its last message is received")
  func beforeListing() throws {
    let world = try CollectionWorld()
    defer { world.stop() }
    let feed = feed(world)
    try world.cache.write { try $0.acknowledge(UserID("alice")) }
    try gain(record("general", joined: 1, last: 20), in: world)
    try world.list([18, 19, 20], in: "general")
    #expect(messages(world, feed) == ["message.received 20"])
  }

  @Test("B50 B58: after a clear the same messages are not received again, and new ones are")
  func cleared() throws {
    let world = try world()
    defer { world.stop() }
    let feed = feed(world)
    try gain(record("general", joined: 100, last: nil), in: world)
    try world.list([10, 11, 12], in: "general")
    #expect(messages(world, feed) == ["message.received 10 11 12"])
    try world.cache.write { try $0.clear(ChannelURL("general")) }
    let after = "/v1/events?wait=0&since=\(world.cache.cursor)"
    try world.list([12, 13], in: "general")
    try world.fill(after: 9, through: 12, in: "general")
    try world.send(11, in: "general")
    #expect(messages(world, after) == ["message.received 13"])
  }

  @Test("B50 B57: evicted messages are not received again")
  func evicted() throws {
    let world = try world()
    defer { world.stop() }
    try gain(record("general", joined: 100, last: nil), in: world)
    try world.list(Array(10...60), in: "general")
    world.cache.usage.set(CacheLimit(exactly: 1, order: nil))
    try world.cache.evict()
    world.cache.usage.set(CacheLimit(exactly: 1 << 30, order: nil))
    let stored = try world.cache.read { try $0.db.first("SELECT count(*) FROM message") { $0.int64(0) } }
    #expect(stored == 0)
    let feed = feed(world)
    try world.fill(after: 10, through: 60, in: "general")
    try world.list(Array(10...61), in: "general")
    #expect(messages(world, feed) == ["message.received 61"])
  }

  @Test("B50: who comes into a channel of others is told of messages from after the joining alone")
  func lateJoiner() throws {
    let world = try world()
    defer { world.stop() }
    let feed = feed(world)
    try gain(record("general", joined: 200, last: nil), as: "bob", in: world)
    try world.list([20, 21, 22], in: "general")
    #expect(messages(world, feed, as: "bob") == ["message.received 20 21 22"])
    try gain(record("general", joined: 215, last: nil), in: world)
    #expect(messages(world, feed) == ["message.received 22"], "22 came after alice joined, before Perch knew")
    try world.send(23, in: "general")
    #expect(messages(world, feed) == ["message.received 22", "message.received 23"])
    let late = CollectionWorld.message(24, at: 205)
    try world.cache.write { _ = try $0.store(late, in: ChannelURL("general"), .messageReceived) }
    #expect(messages(world, feed, as: "bob").contains("message.received 24"), "bob was there")
    let edited = CollectionWorld.message(21, at: 210, text: "other", updatedAt: 240)
    try world.cache.write { _ = try $0.store(edited, in: ChannelURL("general"), .messageUpdated) }
    let told = messages(world, feed)
    #expect(told == ["message.received 22", "message.received 23", "message.changed 21"])
  }

  @Test("B50: who asked before Perch knew of the joining is told of the messages from before that, once")
  func askedBefore() throws {
    let world = try world()
    defer { world.stop() }
    var feed = feed(world)
    try gain(record("general", joined: 200, last: nil), as: "bob", in: world)
    try world.list([20, 21], in: "general")
    let early = world.ask(feed)
    #expect(!early.body.contains("general"))
    feed = "/v1/events?wait=0&since=\(early.text("cursor"))"
    try gain(record("general", joined: 200, last: 21), in: world)
    #expect(messages(world, feed) == ["message.received 20 21"])
    try gain(record("general", joined: 200, last: 21), in: world)
    try world.send(22, in: "general")
    #expect(messages(world, feed) == ["message.received 20 21", "message.received 22"])
  }

  @Test("B50: messages that one commit stores or changes before a joining are received")
  func sameCommit() throws {
    let world = try world()
    defer { world.stop() }
    try gain(record("general", joined: 200, last: nil), as: "bob", in: world)
    try world.list([20, 21], in: "general")
    let (feed, general) = (feed(world), ChannelURL("general"))
    let edited = CollectionWorld.message(21, at: 210, text: "edited", updatedAt: 215)
    let joining = record("general", joined: 200, last: nil)
    try world.cache.write { writer in
      try writer.store(edited, in: general, .messageUpdated)
      try writer.store(CollectionWorld.message(22, at: 220), in: general, .messageReceived)
      _ = try writer.store([joining], of: UserID("alice"), .refresh(.channelChanged))
    }
    #expect(messages(world, feed) == ["message.received 20 21 22"])
  }

  @Test("B50: who leaves and joins again before the next poll is told of each message once")
  func again() throws {
    let world = try world()
    defer { world.stop() }
    try gain(record("general", joined: 200, last: nil), as: "bob", in: world)
    try world.list([20, 21], in: "general")
    let feed = feed(world)
    try gain(record("general", joined: 200, last: nil), in: world)
    try world.leave("alice", "general")
    try gain(record("general", joined: 200, last: nil), in: world)
    #expect(messages(world, feed) == ["message.received 20 21"])
  }

  @Test("B50: a first listing tells of a channel, and then of its new messages that the cache had")
  func listedAfterOthers() throws {
    let world = try CollectionWorld()
    defer { world.stop() }
    try world.cache.write { try $0.acknowledge(UserID("bob")) }
    try gain(record("general", joined: 200, last: nil), as: "bob", in: world)
    try world.list([20, 21], in: "general")
    let feed = feed(world)
    let page = [record("general", joined: 200, last: 20)]
    try world.cache.write { writer in
      try writer.acknowledge(UserID("alice"))
      _ = try writer.store(page, of: UserID("alice"), .listing(sweep: 1))
    }
    let told = world.ask(feed).events.filter { $0.hasPrefix("channel.") || $0.hasPrefix("message.") }
    #expect(told == ["channel.joined general", "message.received 21"])
  }

  @Test("B49 B50: many messages from before Perch knew of the joining come in several events, all of them")
  func manyMissed() throws {
    let world = try world()
    defer { world.stop() }
    try gain(record("general", joined: 200, last: nil), as: "bob", in: world)
    let text = String(repeating: "long ", count: 400)
    for first in stride(from: 20 as Int64, to: 640, by: 100) {
      try world.fill(after: first - 1, through: first + 99, in: "general", text: text)
    }
    var cursor = "\(world.cache.cursor)"
    try gain(record("general", joined: 200, last: nil), in: world)
    var told: [String] = []
    var hasMore = true
    while hasMore {
      let answer = world.ask("/v1/events?wait=0&since=\(cursor)")
      #expect(answer.body.utf8.count < Limits.eventBytes + 64 * 1024)
      told += answer.events.filter { $0.hasPrefix("message.received ") }.flatMap {
        $0.split(separator: " ").dropFirst()
      }
      .map(String.init)
      (cursor, hasMore) = (answer.text("cursor"), answer.body.contains(#""has_more":true"#))
    }
    #expect(told == (20...719).map(String.init))
  }

  @Test("B50: a user who comes first does not make old what is new to one who was in the channel before")
  func cameEarlier() throws {
    let world = try world()
    defer { world.stop() }
    let feed = feed(world)
    try gain(record("general", joined: 300, last: nil), as: "bob", in: world)
    try world.list([25, 31], in: "general")
    try gain(record("general", joined: 200, last: nil), in: world)
    try world.list([25, 26, 31], in: "general")
    #expect(messages(world, feed) == ["message.received 25 31", "message.received 26"])
    #expect(messages(world, feed, as: "bob") == ["message.received 31"])
  }

  @Test("B50: messages from between the invitation and the joining are received with the joining")
  func accepted() throws {
    let world = try world()
    defer { world.stop() }
    var feed = feed(world)
    try gain(record("general", joined: 100, last: nil), as: "bob", in: world)
    var invited = record("general", joined: nil, last: nil, invited: 200)
    invited.membership?.state = .invited
    try gain(invited, in: world)
    for id in [19, 20, 21] as [Int64] { try world.send(id, in: "general") }
    let early = world.ask(feed)
    #expect(early.events.filter { $0.hasPrefix("message.") }.isEmpty)
    feed = "/v1/events?wait=0&since=\(early.text("cursor"))"
    invited.membership?.isMuted = true
    try gain(invited, in: world)
    try gain(record("general", joined: 215, last: 21, invited: 200), in: world)
    try world.send(22, in: "general")
    #expect(messages(world, feed) == ["message.received 20 21", "message.received 22"])
  }

  @Test("B50: a gap of others that is filled after a user's first listing tells that user of no old message")
  func gapOfOthers() throws {
    let world = try world()
    defer { world.stop() }
    try gain(record("general", joined: 100, last: nil), as: "bob", in: world)
    try world.list([20], in: "general")
    try world.cache.write { try $0.acknowledge(UserID("carol")) }
    let feed = feed(world)
    let page = [record("general", joined: 100, last: 30)]
    try world.cache.write { _ = try $0.store(page, of: UserID("carol"), .listing(sweep: 1)) }
    try world.fill(after: 20, through: 30, in: "general")
    try world.send(31, in: "general")
    #expect(messages(world, feed, as: "carol") == ["message.received 31"])
    let bob = messages(world, feed, as: "bob")
    #expect(bob == ["message.received 21 22 23 24 25 26 27 28 29 30", "message.received 31"])
  }

  @Test("B50: a time of joining in the future does not hide what comes after it was known here")
  func futureJoining() throws {
    let world = try world()
    defer { world.stop() }
    try gain(record("general", joined: 200, last: nil), as: "bob", in: world)
    try gain(record("general", joined: 9_000_000_000_000_000, last: nil), in: world)
    let feed = feed(world)
    let message = CollectionWorld.message(20, at: Clock.system.wallMilliseconds() + 1)
    try world.cache.write { _ = try $0.store(message, in: ChannelURL("general"), .messageReceived) }
    #expect(messages(world, feed) == ["message.received 20"])
  }

  @Test("B50: what was said while no user here was in the channel is not received by who joins again")
  func joinedAgain() throws {
    let world = try world()
    defer { world.stop() }
    try gain(record("general", joined: 200, last: nil), in: world)
    try world.list([20, 21], in: "general")
    try world.leave("alice", "general")
    let feed = feed(world)
    try gain(record("general", joined: 230, last: nil), in: world)
    try world.list([20, 21, 22, 23], in: "general")
    #expect(messages(world, feed) == ["message.received 23"])
  }

  @Test("B50: a new message that got another time is received and then changed, also by who asks late")
  func moved() throws {
    let world = try world()
    defer { world.stop() }
    let feed = feed(world)
    try gain(record("general", joined: 100, last: nil), in: world)
    try world.list([20, 21, 22], in: "general")
    let moved = CollectionWorld.message(20, at: 300, updatedAt: 301)
    try world.cache.write { _ = try $0.store(moved, in: ChannelURL("general"), .messageUpdated) }
    #expect(messages(world, feed) == ["message.received 21 22 20", "message.changed 20"])
  }
}
