import ChatCache
import ChatCollections
import ChatModel
import TestSupport
import Testing

@testable import ChatAPI

/// The events of views about the user's connection and the newest end, when the link to the upstream is lost
/// and comes back.
@Suite struct LinkEventTests {
  private static let feed = "/v1/events"

  private func world() throws -> CollectionWorld {
    let world = try CollectionWorld()
    try world.join("alice", "general", name: "General")
    try world.list([1, 2, 3], in: "general")
    return world
  }

  private func lose(_ world: CollectionWorld) throws {
    turn(world, LinkStatus(.offline(.unreachable), generation: 2), .offline)
    try world.cache.write { try $0.announce(link: "upstream_unreachable") }
  }

  private func comeBack(_ world: CollectionWorld) throws {
    turn(world, LinkStatus(.online, generation: 2), .online)
    try world.cache.write { try $0.announce(link: "online") }
  }

  private func turn(_ world: CollectionWorld, _ link: LinkStatus, _ state: UserConnection.State) {
    world.syncRequests.tell {
      $0.link = link
      $0.connections[UserID("alice")] = UserConnection(UserID("alice"), state, isSynced: true)
    }
  }

  private func open(_ world: CollectionWorld, _ body: String = #"{"channel_url":"general"}"#) -> Answer {
    world.post("/v1/message-collections", body)
  }

  private func path(_ view: Answer) -> String { "/v1/message-collections/\(view.text("id"))/events" }

  private func poll(_ world: CollectionWorld, _ path: String, since cursor: Answer) -> Answer {
    world.ask("\(path)\(path.contains("?") ? "&" : "?")since=\(cursor.text("cursor"))&wait=0")
  }

  @Test("B3 B25 B50: a chat view tells that the link is lost and back, and when its newest end is confirmed")
  func messages() throws {
    let world = try world()
    defer { world.stop() }
    let view = open(world)
    try lose(world)
    let lost = poll(world, path(view), since: view)
    #expect(lost.events == ["connection.changed", "tail.changed"])
    #expect(lost.body.contains(#""connection":{"state":"offline","link":"upstream_unreachable"}"#))
    #expect(lost.body.contains(#""tail":{"state":"offline""#))
    try comeBack(world)
    let back = poll(world, path(view), since: lost)
    #expect(back.events == ["connection.changed", "tail.changed"])
    #expect(back.body.contains(#""tail":{"state":"stale""#), "nobody looked at the channel yet")
    try world.list([1, 2, 3], in: "general", .messageFill, generation: 2)
    let confirmed = poll(world, path(view), since: back)
    #expect(confirmed.events == ["tail.changed"] && confirmed.body.contains(#""tail":{"state":"live"}"#))
    try world.list([1, 2, 3], in: "general", .messageFill, generation: 2)
    #expect(poll(world, path(view), since: confirmed).events == [], "it was confirmed already")
    #expect(poll(world, path(view), since: view).events == ["connection.changed", "tail.changed"])
  }

  @Test("B51: the link wakes parked polls of views, and one user's connection those of that user alone")
  func parked() throws {
    let world = try world()
    defer { world.stop() }
    try world.join("bob", "general")
    let mine = open(world)
    let his = world.post("/v1/message-collections", #"{"channel_url":"general"}"#, as: "bob")
    let list = world.post("/v1/channel-collections", "{}")
    func hold(_ path: String, _ view: Answer, _ user: String) -> HeldAsk {
      world.held("\(path)?since=\(view.text("cursor"))&wait=10", headers: ["Perch-User": user])
    }
    let polls = [
      hold(path(mine), mine, "alice"), hold(path(his), his, "bob"),
      hold("/v1/channel-collections/\(list.text("id"))/events", list, "alice"),
    ]
    #expect(world.waitParked(3))
    try world.cache.write { try $0.stop(UserID("alice")) }
    #expect(polls[0].answer().events == ["connection.changed"])
    #expect(polls[2].answer().events == ["connection.changed"])
    #expect(world.waitParked(1), "bob's connection is as it was")
    try lose(world)
    #expect(polls[1].answer().events == ["connection.changed", "tail.changed"])
  }

  @Test("B50: where several feeds are followed one of them tells of the connection; each view of its tail")
  func several() throws {
    let world = try world()
    defer { world.stop() }
    let (one, two) = (open(world), open(world))
    let list = world.post("/v1/channel-collections", "{}")
    let names = [list, one, two].map { $0.text("id") }.joined(separator: ",")
    try lose(world)
    let both = poll(world, "\(Self.feed)?user_feed=true&collections=\(names)", since: list)
    #expect(both.events.sorted() == ["connection.changed", "tail.changed", "tail.changed"])
    let views = poll(world, "\(Self.feed)?collections=\(names)", since: list)
    #expect(views.events.sorted() == ["connection.changed", "tail.changed", "tail.changed"])
  }

  @Test("B18: a view that ends before the newest message has no tail to tell of")
  func notAtTheEnd() throws {
    let world = try world()
    defer { world.stop() }
    let view = open(
      world, #"{"channel_url":"general","starting_point":10,"previous_size":1,"next_size":1}"#)
    #expect(view.body.contains(#""has_next":true"#))
    try lose(world)
    #expect(poll(world, path(view), since: view).events == ["connection.changed"])
  }

  @Test("the log has no row for a confirmation that no view shows")
  func unseen() throws {
    let world = try world()
    defer { world.stop() }
    let before = world.cache.cursor.sequence
    try world.list([1, 2, 3], in: "general", .messageFill, generation: 2)
    #expect(world.cache.cursor.sequence == before)
  }
}
