import ChatCache
import ChatModel
import JSON
import Platform
import TestSupport
import Testing

@testable import ChatAPI

/// What users are told of messages that may be the answer to a send under way, and that are withheld from
/// their sender for up to 10 s (B38).
@Suite struct WithheldTests {
  private let wall: Guarded<Int64>
  private let world: CollectionWorld

  init() throws {
    let wall = Guarded(Clock.system.wallMilliseconds())
    self.wall = wall
    world = try CollectionWorld(
      clock: Clock(
        wallMilliseconds: { wall.withLock { $0 } },
        monotonicNanoseconds: Clock.system.monotonicNanoseconds))
    for user in ["alice", "bob"] { try world.join(user, "general") }
    try world.list([1, 2, 3], in: "general")
    #expect(world.send("r1").status == 202)
    try world.dispatch("r1", newest: Position(createdAt: 30, messageID: 3))
  }

  /// A message of alice's that does not name its request.
  private func own(_ id: Int64) -> MessageRecord {
    var message = CollectionWorld.message(id, at: id * 10)
    message.sender = "alice"
    return message
  }

  private func passTenSeconds() throws {
    wall.withLock { $0 += Limits.withheldMilliseconds + 1 }
    _ = try world.cache.accept { try $0.keepUpOutbox() }
  }

  @Test(
    "B38 B49: a channel's last message that is not listed yet is shown to its sender after 10 s, with events")
  func unlisted() throws {
    defer { world.stop() }
    let opened = world.post("/v1/channel-collections", "{}")
    let list = "/v1/channel-collections/\(opened.text("id"))"
    func isLast(_ id: Int64, in answer: Answer) -> Bool {
      answer.body.contains(#""last_message":{"message_id":"\#(id)""#)
    }
    var record = CollectionWorld.channel("general", floor: 0, name: "", last: nil)
    record.lastMessage = .message(own(4))
    let answered = record
    try world.cache.write { _ = try $0.store([answered], of: UserID("bob"), .refresh(.channelChangelog)) }
    #expect(isLast(3, in: world.ask(list)))
    #expect(isLast(3, in: world.ask("/v1/channels/general")))
    #expect(isLast(4, in: world.ask("/v1/channels/general", as: "bob")))
    let before = world.ask("\(list)/events?since=\(opened.text("cursor"))&wait=0")
    #expect(!isLast(4, in: before))
    try passTenSeconds()
    let after = world.ask("\(list)/events?since=\(before.text("cursor"))&wait=0")
    #expect(after.events == ["channels.updated general"] && isLast(4, in: after), "\(after.body)")
    #expect(isLast(4, in: world.ask(list)))
  }

  @Test(
    "B38 B50: a message that was shown after 10 s and then found to be a send's is received once, then changed"
  )
  func shownThenAnswered() throws {
    defer { world.stop() }
    var cursors = ["alice": world.cache.cursor, "bob": world.cache.cursor].mapValues { "\($0)" }
    func told(_ user: String) -> [String] {
      let answer = world.ask("/v1/events?wait=0&since=\(cursors[user] ?? "")", as: user)
      cursors[user] = answer.text("cursor")
      return answer.events.filter { $0.hasPrefix("message.") }
    }
    let sent = own(4)
    try world.cache.write { _ = try $0.store(sent, in: ChannelURL("general"), .messageReceived) }
    #expect(told("alice").isEmpty && told("bob") == ["message.received 4"])
    try passTenSeconds()
    #expect(told("alice") == ["message.received 4"] && told("bob").isEmpty)
    try world.answer("r1", with: sent)
    #expect(told("alice") == ["message.changed 4"] && told("bob") == ["message.changed 4"])
  }

  @Test("B38 B39: the sender's own message from before the send is shown at once")
  func fromBefore() throws {
    defer { world.stop() }
    let page = "/v1/channels/general/messages?limit=100"
    for id in [20, 4] as [Int64] {
      var old = own(id)
      old.createdAt = id == 20 ? 25 : 40
      let stored = old
      try world.cache.write { _ = try $0.store(stored, in: ChannelURL("general"), .messageReceived) }
    }
    #expect(world.ask(page, extra: ["Cache-Control": "only-if-cached"]).messages == [1, 2, 20, 3])
  }

  @Test("B38 B50: a message that is answered while it is withheld is received once by its sender")
  func answeredWhileWithheld() throws {
    defer { world.stop() }
    let feed = "/v1/events?wait=0&since=\(world.cache.cursor)"
    let sent = own(4)
    try world.cache.write { _ = try $0.store(sent, in: ChannelURL("general"), .messageReceived) }
    let prompt = world.ask(feed).text("cursor")
    try world.answer("r1", with: sent)
    for since in [feed, "/v1/events?wait=0&since=\(prompt)"] {
      let told = world.ask(since).events.filter { $0.hasPrefix("message.") }
      #expect(told == ["message.received 4"], "\(told)")
    }
  }
}
