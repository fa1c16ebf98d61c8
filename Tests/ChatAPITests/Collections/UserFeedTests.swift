import ChatModel
import Testing

@testable import ChatAPI
@testable import ChatCache

/// The events of the user feed about messages that a client's request or the prefetch brought.
@Suite struct UserFeedTests {
  private func world() throws -> (CollectionWorld, feed: String) {
    let world = try CollectionWorld()
    try world.join("alice", "general")
    return (world, "/v1/events?wait=0&since=\(world.cache.cursor)")
  }

  private func messages(_ world: CollectionWorld, _ feed: String) -> [String] {
    world.ask(feed).events.filter { $0.hasPrefix("message.") }
  }

  @Test("B50: messages that are cached for the first time are told if they came after the newest known one")
  func ages() throws {
    let (world, feed) = try world()
    defer { world.stop() }
    try world.list([4, 5], in: "general")
    #expect(messages(world, feed).isEmpty, "the channel's first messages were there before")
    try world.list([2, 3, 4, 5, 6, 7], in: "general")
    #expect(messages(world, feed) == ["message.received 6 7"], "2 and 3 were there before")
    try world.list([2, 3, 4, 5, 6, 7], in: "general")
    #expect(messages(world, feed) == ["message.received 6 7"], "nothing differs")
  }

  @Test("B50: the first messages of a channel that had none are told")
  func afterNone() throws {
    let (world, feed) = try world()
    defer { world.stop() }
    try world.list([] as [Int64], in: "general")
    try world.list([4, 5], in: "general")
    #expect(messages(world, feed) == ["message.received 4 5"])
  }

  @Test("B50: a message that was cached and differs is told, whoever fetched it")
  func changed() throws {
    let (world, feed) = try world()
    defer { world.stop() }
    try world.list([4, 5], in: "general")
    let rows = [
      CollectionWorld.message(3, at: 30), CollectionWorld.message(4, at: 40, text: "other", updatedAt: 41),
      CollectionWorld.message(5, at: 50),
    ]
    try world.list(rows, in: "general")
    #expect(messages(world, feed) == ["message.changed 4"])
  }

  @Test("B50: a new message that changed before the client asked is received, and then changed")
  func receivedThenChanged() throws {
    let (world, feed) = try world()
    defer { world.stop() }
    try world.list([1], in: "general")
    try world.send(2, in: "general")
    let prompt = world.ask(feed).text("cursor")
    let edited = CollectionWorld.message(2, at: 20, text: "other", updatedAt: 21)
    try world.cache.write { _ = try $0.store(edited, in: ChannelURL("general"), .messageUpdated) }
    #expect(messages(world, feed) == ["message.received 2", "message.changed 2"])
    #expect(messages(world, "/v1/events?wait=0&since=\(prompt)") == ["message.changed 2"])
  }

  @Test("B50: a new message that names its request is received, although another user has unsent messages")
  func besideUnsent() throws {
    let (world, feed) = try world()
    defer { world.stop() }
    try world.join("carol", "other")
    let path = "/v1/channels/other/messages"
    #expect(world.post(path, #"{"message":"mine","request_id":"mine-1"}"#, as: "carol").status == 202)
    try world.list([1], in: "general")
    var named = CollectionWorld.message(2, at: 20)
    named.requestID = "bob-1"
    try world.list([CollectionWorld.message(1, at: 10), named], in: "general")
    #expect(messages(world, feed) == ["message.received 2"])
  }

  @Test("B50: a message that an older program stored is not received again when it changes")
  func storedByOlderProgram() throws {
    let (world, feed) = try world()
    defer { world.stop() }
    try world.list([1, 2], in: "general")
    try world.cache.write { try $0.db.run("UPDATE message SET first_version = 0") }
    let edited = CollectionWorld.message(1, at: 10, text: "other", updatedAt: 21)
    try world.cache.write { _ = try $0.store(edited, in: ChannelURL("general"), .messageReceived) }
    #expect(messages(world, feed) == ["message.changed 1"])
  }

  @Test(
    "B50: a new message of which only a change was heard is received",
    arguments: [
      ChangeSource.messageUpdated, .reactionUpdated, .threadUpdated,
    ])
  func heardOfItsChange(source: ChangeSource) throws {
    let (world, feed) = try world()
    defer { world.stop() }
    try world.list([2], in: "general")
    for id in [1, 3] as [Int64] {
      let message = CollectionWorld.message(id, at: id * 10, updatedAt: 31)
      try world.cache.write { _ = try $0.store(message, in: ChannelURL("general"), source) }
    }
    #expect(messages(world, feed) == ["message.changed 1", "message.received 3"])
  }

  @Test("B50: the user's own message is told, even if the channel's first listing shows it before the answer")
  func own() throws {
    let (world, feed) = try world()
    defer { world.stop() }
    let sent = world.post("/v1/channels/general/messages", #"{"message":"mine","request_id":"mine-1"}"#)
    #expect(sent.status == 202)
    var mine = CollectionWorld.message(2, at: 20)
    (mine.sender, mine.requestID) = ("alice", "mine-1")
    let rows = [CollectionWorld.message(1, at: 10), mine]
    try world.list(rows, in: "general")
    #expect(messages(world, feed).contains { $0.hasPrefix("message.") && $0.hasSuffix(" 2") })
    #expect(world.ask("/v1/outbox").body.contains(#""items":[]"#))
  }

  @Test("B47 B50: the user's own read mark is one event with the counts, without the channel")
  func ownRead() throws {
    let (world, _) = try world()
    defer { world.stop() }
    try world.list([1], in: "general")
    try world.send(2, in: "general")
    let view = world.post("/v1/message-collections", #"{"channel_url":"general"}"#)
    let since = "wait=0&since=\(world.cache.cursor)"
    #expect(world.ask("/v1/channels/general").body.contains(#""unread_message_count":2"#))
    #expect(world.post("/v1/channels/general/read", "").status == 200)
    let poll = world.ask("/v1/events?\(since)")
    #expect(poll.events.filter { $0.hasPrefix("channel.") } == ["channel.read"])
    let event = """
      "channel_url":"general","user_id":"alice","read_at":20,"unread_message_count":0,"unread_mention_count":0}
      """
    #expect(poll.body.contains(event), "\(poll.body)")
    let shown = world.ask("/v1/message-collections/\(view.text("id"))/events?\(since)")
    #expect(shown.events.contains("channel.updated general"), "a view gets the channel")
    // The upstream sends the mark to all members, and the counts to the user.
    var record = CollectionWorld.channel("general", floor: 0, name: "", last: nil)
    record.readReceipts = ["alice": 30]
    record.membership?.lastReadAt = 30
    let later = "wait=0&since=\(world.cache.cursor)"
    let told = record
    _ = try world.cache.write { try $0.store([told], of: UserID("alice"), .refresh(.read)) }
    let again = world.ask("/v1/events?\(later)")
    #expect(again.events == ["channel.read"], "\(again.body)")
    #expect(again.body.contains(#""read_at":30,"unread_message_count":0"#))
  }
}
