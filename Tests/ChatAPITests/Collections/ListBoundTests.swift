import ChatCache
import ChatCollections
import ChatModel
import JSON
import Testing

@testable import ChatAPI

/// Lists of channels that grow too large, and the edges of lists.
@Suite struct ListBoundTests {
  /// A client as the documentation describes it.
  private struct Client {
    let path: String
    var cursor: String
    var shown: Set<String>
    var next: String
    var hasMore: Bool

    init(_ open: Answer) throws {
      path = "/v1/channel-collections/\(open.text("id"))"
      cursor = open.text("cursor")
      shown = Set(try Client.urls(open))
      next = open.text("next")
      hasMore = open.hasMore
    }

    static func urls(_ answer: Answer) throws -> [String] {
      try JSONParser().parse(answer.body) { json in
        ((json["channels"] ?? json["items"])?.items).map { $0.compactMap { $0["channel_url"]?.string } } ?? []
      }
    }

    mutating func more(_ world: CollectionWorld) throws -> Int {
      let page = world.post("\(path)/more", #"{"after":"\#(next)"}"#)
      let urls = try Client.urls(page)
      #expect(page.status == 200 && shown.isDisjoint(with: urls))
      shown.formUnion(urls)
      (next, hasMore) = (page.text("next"), page.hasMore)
      return urls.count
    }

    mutating func poll(_ world: CollectionWorld) throws -> String {
      let poll = world.ask("\(path)/events?since=\(cursor)&wait=0")
      #expect(poll.status == 200)
      for event in poll.events {
        let urls = event.split(separator: " ").dropFirst().map(String.init)
        if event.hasPrefix("channels.deleted") { shown.subtract(urls) } else { shown.formUnion(urls) }
      }
      if poll.body.contains("local.window_trimmed") {
        let events = try JSONParser().parse(poll.body) { json -> (String, Bool)? in
          guard let event = json["events"]?.items.first(where: { $0["has_next"] != nil }) else { return nil }
          return (event["next"]?.string ?? "", event["has_next"]?.bool ?? false)
        }
        if let events { (next, hasMore) = events }
      }
      cursor = poll.text("cursor")
      return poll.body
    }
  }

  /// Alice's channels `c1` … `c<count>`, the last one newest.
  private func join(_ world: CollectionWorld, _ numbers: ClosedRange<Int>) throws {
    let records = numbers.map {
      CollectionWorld.channel("c\($0)", floor: 0, name: "", last: Int64($0))
    }
    try world.cache.write { writer in
      try writer.acknowledge(UserID("alice"))
      _ = try writer.store(records, of: UserID("alice"), .refresh(.channelChanged))
      try writer.endListing(of: UserID("alice"))
    }
  }

  private func names(_ numbers: ClosedRange<Int>) -> Set<String> { Set(numbers.map { "c\($0)" }) }

  @Test("B22: a list holds at most 2 000 channels, and says that more there are and that it takes none")
  func full() throws {
    let world = try CollectionWorld()
    defer { world.stop() }
    try join(world, 1...2150)
    var client = try Client(world.post("/v1/channel-collections", #"{"query":{"limit":100}}"#))
    for _ in 0..<19 { #expect(try client.more(world) == 100) }
    #expect(client.shown.count == 2000 && client.hasMore && client.next == "")
    let view = world.ask(client.path)
    let whole = Set(try Client.urls(view))
    #expect(whole == names(151...2150) && view.hasMore && view.text("next") == "")
    try join(world, 2151...2151)
    let told = try client.poll(world)
    #expect(told.contains(#""source":"local.window_trimmed""#) || told.contains("channels.added"))
    _ = try client.poll(world)
    #expect(client.shown == names(252...2151) && client.hasMore, "its end was let go of")
    #expect(client.shown == Set(try Client.urls(world.ask(client.path))))
    #expect(try client.more(world) == 100, "what was let go of can be loaded again")
    #expect(client.shown == names(152...2151))
  }

  @Test("B22: a list whose end was reached and that grows without end stays within its bound, also unasked")
  func growing() throws {
    var settings = Collections.Settings()
    settings.bound = WindowBound(rows: 20, rowsLeft: 15)
    let world = try CollectionWorld(settings: settings)
    defer { world.stop() }
    try join(world, 1...10)
    var client = try Client(world.post("/v1/channel-collections", "{}"))
    #expect(!client.hasMore)
    for number in 11...60 {
      try join(world, number...number)
      if number % 7 == 0 { _ = try client.poll(world) }
      let count = try Client.urls(world.ask(client.path)).count
      #expect(count <= 20 && count >= min(number, 15))
    }
    let lost = client
    for _ in 0..<2 { _ = try client.poll(world) }
    let fresh = Set(try Client.urls(world.ask(client.path)))
    #expect(client.hasMore && client.shown == fresh)
    // The service does not remember what a client had at that cursor: the client still gets everything.
    var late = lost
    for _ in 0..<2 { _ = try late.poll(world) }
    #expect(late.hasMore && late.shown == client.shown)
  }

  @Test("B17: an edge of another list, and one that leads to what was let go of, is a 400 naming the field")
  func foreignEdges() throws {
    var settings = Collections.Settings()
    settings.bound = WindowBound(rows: 8, rowsLeft: 4)
    let world = try CollectionWorld(settings: settings)
    defer { world.stop() }
    try join(world, 1...12)
    let query = #"{"query":{"limit":4}}"#
    var client = try Client(world.post("/v1/channel-collections", query))
    let other = try Client(world.post("/v1/channel-collections", query))
    for edge in [other.next, "x", "", String(client.next.prefix(8)), "\(client.next)x"] {
      let more = world.post("\(client.path)/more", #"{"after":"\#(edge)"}"#)
      #expect(more.status == 400 && more.body.contains(#""field":"after""#), "\(edge)")
    }
    let first = client.next
    let page = try client.more(world)
    #expect(page == 4 && client.next == "")
    let full = world.post("\(client.path)/more", #"{"after":"\#(first)"}"#)
    let again = try Client.urls(full).count
    #expect(again == 4 && full.text("next") == "", "the same token gives the same page")
    try join(world, 13...14)
    for _ in 0..<2 { _ = try client.poll(world) }
    #expect(client.shown == names(11...14))
    #expect(world.post("\(client.path)/more", #"{"after":"\#(first)"}"#).status == 400)
    let last = try client.more(world)
    #expect(last == 4 && client.shown == names(7...14))
  }

  @Test("B9, B17: a list that was opened before any channel was known has an edge to load from")
  func openedEmpty() throws {
    let world = try CollectionWorld()
    defer { world.stop() }
    try world.cache.write { _ = try $0.acknowledge(UserID("alice")) }
    var client = try Client(
      world.ask(
        "/v1/channel-collections", method: "POST", body: "{}", extra: ["Cache-Control": "only-if-cached"]))
    #expect(client.shown.isEmpty && client.hasMore && client.next != "")
    try join(world, 1...3)
    _ = try client.poll(world)
    let page = try client.more(world)
    #expect(page == 3 && !client.hasMore)
    #expect(client.shown == Set(try Client.urls(world.ask(client.path))))
  }
}
