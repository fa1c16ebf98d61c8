import ChatModel
import Platform
import SQLite
import Testing

@testable import ChatAPI
@testable import ChatCache

/// `GET /v1/cache/integrity` over a real cache and real sockets.
@Suite struct IntegrityRouteTests {
  @Test("B64: a sound cache is told so")
  func sound() throws {
    let world = try CollectionWorld()
    defer { world.stop() }
    try world.join("alice", "general")
    try world.list([1, 2, 3], in: "general")
    let answer = world.ask("/v1/cache/integrity")
    #expect(answer.status == 200 && answer["Cache-Control"] == "no-store")
    #expect(answer.body.contains(#""sound":true,"well":true,"channels":1"#), "\(answer.body)")
    #expect(world.ask("/v1/cache/integrity?deep=1").status == 400)
    #expect(!world.syncRequests.calls.contains(.healed))
  }

  @Test(
    "B64: a broken channel is put right while others are read, its views hear of it, and it is fetched again")
  func broken() throws {
    let world = try CollectionWorld()
    defer { world.stop() }
    try world.join("alice", "general")
    try world.join("alice", "random")
    try world.list([1, 2, 3], in: "general")
    try world.list([1, 2, 3], in: "random")
    let other = world.ask("/v1/channels/random/messages").body
    let view = world.post("/v1/message-collections", #"{"channel_url":"general"}"#)
    let (id, since) = (view.text("id"), view.text("cursor"))
    let feed = world.ask("/v1/events?since=now").text("cursor")
    try Connection(path: world.directory + "/perch.db", mode: .readWrite).execute(
      "UPDATE segment SET hi_at = hi_at + 5 WHERE channel = 1 AND kind = 0")
    let answer = world.ask("/v1/cache/integrity")
    #expect(answer.body.contains(#""sound":false,"well":true,"channels":2"#), "\(answer.body)")
    #expect(
      answer.body.contains(#""fault":"coverage_broken","channel_url":"general","#)
        && answer.body.contains(#""healed":true"#), "\(answer.body)")
    #expect(world.syncRequests.calls.contains(.healed))
    let heard = world.ask("/v1/message-collections/\(id)/events?since=\(since)&wait=0").body
    #expect(heard.contains("gap.changed") && !heard.contains("messages.deleted"), "\(heard)")
    let told = world.ask("/v1/events?since=\(feed)&wait=0").body
    #expect(told.contains("cache.cleared") && told.contains("gap.changed"), "\(told)")
    #expect(world.ask("/v1/channels/random/messages").body == other)
    try world.list([1, 2, 3], in: "general")
    #expect(world.ask("/v1/cache/integrity").body.contains(#""sound":true"#))
    let page = world.ask("/v1/channels/general/messages").body
    #expect(page.contains(#""message_id":"3""#), "\(page)")
  }
}
