import ChatCache
import ChatModel
import Testing

@testable import ChatAPI

/// The optional parts of a message are served as they were stored (B13).
@Suite(.timeLimit(.minutes(5))) struct MessagePartsTests {
  private static let parts =
    #""files":[{"url":"u1","name":"n1","mime":"image/png","size":9,"thumbnails":[]},"#
    + #"{"url":"u2","name":"n2","mime":"text/plain","size":10,"thumbnails":[]}],"#
    + #""poll":{"id":7,"title":"when","options":[{"id":1}]},"extended_payload":{"card":{"rows":[1,2]}}"#

  private static func message(_ id: Int64) -> MessageRecord {
    let plain = CollectionWorld.message(id, at: id * 10)
    return MessageRecord(
      messageID: id, createdAt: id * 10, updatedAt: 0, kind: .file, isSilent: false, isReplyToChannel: false,
      parentID: nil, parentAt: nil, sender: "bob", customType: "", requestID: "", mentions: .nobody,
      body: plain.body + Array((",\(parts)").utf8), parent: nil)
  }

  @Test("B13: files, a poll and an application's own payload are in pages, in views and in their events")
  func served() throws {
    let world = try CollectionWorld()
    defer { world.stop() }
    try world.join("alice", "general", name: "General")
    let asked = world.cache.cursor.sequence
    try world.cache.write {
      _ = try $0.store(
        [
          MessageListing(
            window: MessageWindow(.newest, older: 100, newer: 0), rows: [Self.message(1)], isWhole: true,
            askedAt: asked)
        ], in: ChannelURL("general"), ListingContext(source: .apiResult, generation: 1))
    }
    #expect(world.ask("/v1/channels/general/messages").body.contains(Self.parts))
    #expect(world.ask("/v1/channels/general/messages/1").body.contains(Self.parts))
    let view = world.post("/v1/message-collections", #"{"channel_url":"general"}"#)
    #expect(view.status == 201 && view.body.contains(Self.parts))
    let events = "/v1/message-collections/\(view.text("id"))/events?since=\(view.text("cursor"))&wait=0"
    try world.cache.write { _ = try $0.store(Self.message(2), in: ChannelURL("general"), .messageReceived) }
    let told = world.ask(events)
    #expect(told.events.contains { $0.hasPrefix("messages.added") } && told.body.contains(Self.parts))
  }
}
