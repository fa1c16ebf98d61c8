import ChatCache
import ChatCollections
import ChatModel
import Testing

@testable import ChatAPI

/// Windows that grow too large.
@Suite struct WindowBoundTests {
  /// A client as the documentation describes it.
  private struct Client {
    let path: String
    var cursor: String
    var shown: Set<Int64>

    mutating func poll(_ world: CollectionWorld) -> [String] {
      let poll = world.ask("\(path)/events?since=\(cursor)&wait=0")
      for event in poll.events {
        let parts = event.split(separator: " ")
        let ids = parts.dropFirst().compactMap { Int64($0) }
        switch parts.first {
        case "messages.added", "messages.updated": shown.formUnion(ids)
        case "messages.deleted": shown.subtract(ids)
        case "messages.replaced": shown = Set(ids)
        default: break
        }
      }
      cursor = poll.text("cursor")
      return poll.events
    }
  }

  private func world(_ count: Int64) throws -> (CollectionWorld, Client) {
    let world = try CollectionWorld()
    try world.join("alice", "general", name: "General")
    try world.list(Array(1...count), in: "general")
    let open = world.post(
      "/v1/message-collections", #"{"channel_url":"general","previous_size":200,"next_size":200}"#)
    let client = Client(
      path: "/v1/message-collections/\(open.text("id"))", cursor: open.text("cursor"),
      shown: Set(open.messages))
    return (world, client)
  }

  @Test("B22: a window that grows at its newest end lets go of its oldest messages, and says so")
  func newer() throws {
    var (world, client) = try world(200)
    defer { world.stop() }
    for id in Int64(201)...2002 { try world.send(id, in: "general") }
    var told: [String] = []
    for _ in 0..<8 { told += client.poll(world) }
    let trimmed = told.filter { $0.hasPrefix("messages.deleted") }
    #expect(trimmed.count == 1 && trimmed[0].hasPrefix("messages.deleted 2 3 4"))
    #expect(client.shown == Set(103...2002))
    let view = world.ask(client.path)
    #expect(view.messages == Array(103...2002) && view.body.contains(#""has_previous":true"#))
    let page = world.post("\(client.path)/previous", #"{"before":"\#(view.text("previous"))"}"#)
    #expect(page.messages.last == 102, "what was let go can be loaded again")
  }

  @Test("B22: a window that grows inside, by messages that come late, lets go of its oldest ones too")
  func inside() throws {
    var settings = Collections.Settings()
    settings.bound = WindowBound(rows: 5, rowsLeft: 3)
    let world = try CollectionWorld(settings: settings)
    defer { world.stop() }
    try world.join("alice", "general", name: "General")
    try world.list([1, 3, 5, 7, 9], in: "general")
    let open = world.post("/v1/message-collections", #"{"channel_url":"general"}"#)
    let path = "/v1/message-collections/\(open.text("id"))"
    var client = Client(path: path, cursor: open.text("cursor"), shown: Set(open.messages))
    try world.send(4, in: "general")
    #expect(client.poll(world) == ["messages.added 4"])
    #expect(client.poll(world) == ["messages.deleted 1 3 4"])
    #expect(client.shown == Set(world.ask(path).messages))
    // Many messages come without a poll: the view is within its bound at the next request.
    for id in Int64(10)...30 { try world.send(id, in: "general") }
    let view = world.ask(path)
    #expect(view.messages == [28, 29, 30] && view.body.contains(#""has_previous":true"#))
    for _ in 0..<2 { _ = client.poll(world) }
    #expect(client.shown == [28, 29, 30])
  }

  @Test("B22: a poll between a page and its answer cuts the newest end, as the page does")
  func polledMeanwhile() throws {
    var settings = Collections.Settings()
    settings.bound = WindowBound(rows: 5, rowsLeft: 3)
    let world = try CollectionWorld(settings: settings)
    defer { world.stop() }
    try world.join("alice", "general", name: "General")
    try world.list(Array(1...20), in: "general")
    let open = world.post("/v1/message-collections", #"{"channel_url":"general","previous_size":4}"#)
    let path = "/v1/message-collections/\(open.text("id"))"
    let view = try world.collections.messages(open.text("id"), of: UserID("alice"))
    let edge = try view.position(ofEdge: open.text("previous"), "before")
    // The page is read, and its request has not checked the window yet.
    let query = view.pageQuery(beyond: edge, isOlder: true, limit: 3)
    let context = world.collections.viewContext(view.url)
    _ = try world.cache.read { reader in
      try view.more(view.page(query, reader, context), isOlder: true, isCutOff: false, reader, context)
    }
    let poll = world.ask("\(path)/events?since=\(open.text("cursor"))&wait=0")
    #expect(
      poll.body.contains(#""source":"local.window_trimmed""#) && poll.body.contains(#""has_next":true"#))
    #expect(world.ask(path).messages == [14, 15, 16])
  }

  @Test("B22: an edge in a part that was cut meanwhile gives the page at the window's own end")
  func edgeOfCutPart() throws {
    var settings = Collections.Settings()
    settings.bound = WindowBound(rows: 5, rowsLeft: 3)
    let world = try CollectionWorld(settings: settings)
    defer { world.stop() }
    try world.join("alice", "general", name: "General")
    try world.list(Array(1...20), in: "general")
    let open = world.post("/v1/message-collections", #"{"channel_url":"general","previous_size":4}"#)
    let path = "/v1/message-collections/\(open.text("id"))"
    for id in Int64(21)...23 { try world.send(id, in: "general") }
    #expect(world.ask(path).messages == [21, 22, 23])
    let page = world.post("\(path)/previous", #"{"before":"\#(open.text("previous"))","limit":2}"#)
    #expect(page.status == 200 && page.messages == [19, 20])
    let other = world.post("/v1/message-collections", #"{"channel_url":"general"}"#)
    let foreign = world.post("\(path)/previous", #"{"before":"\#(other.text("previous"))"}"#)
    #expect(foreign.status == 400, "an edge of another view")
  }

  @Test("B22: a window that grows at its oldest end lets go of its newest messages; has_next says so")
  func older() throws {
    var (world, client) = try world(2500)
    defer { world.stop() }
    var token = world.ask(client.path).text("previous")
    for _ in 0..<9 {
      let page = world.post("\(client.path)/previous", #"{"before":"\#(token)","limit":200}"#)
      client.shown.formUnion(page.messages)
      token = page.text("previous")
      #expect(!page.body.contains("trimmed"))
    }
    #expect(client.shown.count == 2000)
    #expect(client.poll(world) == [])
    let page = world.post("\(client.path)/previous", #"{"before":"\#(token)","limit":200}"#)
    #expect(page.text("trimmed") == "next" && page.body.contains(#""has_next":true"#))
    client.shown.formUnion(page.messages)
    let poll = world.ask("\(client.path)/events?since=\(client.cursor)&wait=0")
    #expect(
      poll.body.contains(#""source":"local.window_trimmed""#) && poll.body.contains(#""has_next":true"#))
    _ = client.poll(world)
    #expect(client.shown == Set(301...2200))
    #expect(client.shown == Set(world.ask(client.path).messages))
    try world.send(2501, in: "general")
    #expect(client.poll(world) == ["channel.updated general"], "what comes beyond the window is a hint")
    try world.restart()
    #expect(world.ask(client.path).messages == Array(301...2200))
  }
}
