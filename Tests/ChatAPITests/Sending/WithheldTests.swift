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
    try world.dispatch("r1")
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
}
