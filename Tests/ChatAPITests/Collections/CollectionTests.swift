import ChatCache
import ChatCollections
import ChatModel
import Glibc
import Platform
import Testing

@testable import ChatAPI

@Suite struct CollectionTests {
  private func opened(_ world: CollectionWorld, _ extra: String = "", as user: String = "alice") -> Answer {
    world.post("/v1/message-collections", #"{"channel_url":"general"\#(extra)}"#, as: user)
  }

  private func world(_ retention: Retention = Retention()) throws -> CollectionWorld {
    let world = try CollectionWorld(retention: retention)
    try world.join("alice", "general", name: "General")
    try world.list([1, 2, 3, 4, 5], in: "general")
    return world
  }

  @Test("B16: opening answers the cached page at once, and then exactly one answer of the upstream")
  func opening() throws {
    let world = try world()
    defer { world.stop() }
    let open = opened(world, #","previous_size":3"#)
    #expect(open.status == 201 && open.messages == [3, 4, 5])
    let path = "/v1/message-collections/\(open.text("id"))"
    #expect(open["Location"] == path)
    #expect(
      world.syncRequests.wait { if case .opened(let view, true) = $0 { view.isAtNewest } else { false } })
    let (id, url) = (open.text("id"), ChannelURL("general"))
    try world.cache.write { try $0.answered(views: [id], in: url, failure: nil) }
    let poll = world.ask("\(path)/events?since=\(open.text("cursor"))&wait=5")
    #expect(poll.events == ["api_result"], "no message differs")
    let after = world.ask("\(path)/events?since=\(poll.text("cursor"))&wait=0")
    #expect(after.events == [])
    let again = world.ask("\(path)/events?since=\(open.text("cursor"))&wait=0")
    #expect(again.events == ["api_result"], "a lost answer is given again")
  }

  @Test("B16: what the upstream's answer brought is told, and then that the view is right")
  func answered() throws {
    let world = try CollectionWorld()
    defer { world.stop() }
    try world.join("alice", "general", name: "General")
    let url = ChannelURL("general")
    let rows = [4, 5].map { CollectionWorld.message($0, at: $0 * 10) }
    let newest = MessageWindow(.newest, older: 2, newer: 0)
    let asked = world.cache.cursor.sequence
    try world.cache.write {
      try $0.store(
        [MessageListing(window: newest, rows: rows, isWhole: true, askedAt: asked)], in: url,
        ListingContext(source: .apiResult, generation: 1))
    }
    let open = opened(world, #","previous_size":3"#)
    #expect(open.messages == [5])
    try world.list([1, 2, 3, 4, 5], in: "general")
    try world.cache.write { try $0.answered(views: [open.text("id")], in: url, failure: nil) }
    let path = "/v1/message-collections/\(open.text("id"))/events"
    let poll = world.ask("\(path)?since=\(open.text("cursor"))&wait=0")
    #expect(poll.events.filter { !$0.hasPrefix("gap") } == ["messages.added 3 4", "api_result"])
    #expect(poll.body.contains(#""has_previous":true"#))
    try world.send(6, in: "general")
    try world.cache.write { try $0.answered(views: [open.text("id")], in: url, failure: nil) }
    let sent = world.ask("\(path)?since=\(poll.text("cursor"))&wait=0")
    #expect(sent.events.filter { !$0.hasPrefix("channel") } == ["messages.added 6", "api_result"])
    // The service does not remember what a client had at an older cursor.
    _ = world.ask("\(path)?since=\(sent.text("cursor"))&wait=0")
    try world.send(7, in: "general")
    _ = world.ask("\(path)?since=\(sent.text("cursor"))&wait=0")
    let late = world.ask("\(path)?since=\(open.text("cursor"))&wait=0")
    #expect(late.events.filter { $0.hasPrefix("messages") } == ["messages.replaced 3 4 5 6 7"])
  }

  @Test("B17: an edge token gives its page, again where it was lost; a foreign one is a 400")
  func edges() throws {
    let world = try world()
    defer { world.stop() }
    let open = opened(world, #","previous_size":2"#)
    let path = "/v1/message-collections/\(open.text("id"))"
    #expect(open.messages == [4, 5])
    let token = open.text("previous")
    for _ in 0..<2 {
      let page = world.post("\(path)/previous", #"{"before":"\#(token)","limit":2}"#)
      #expect(page.status == 200 && page.messages == [2, 3] && page.text("cursor") == "")
    }
    #expect(world.ask(path).messages == [2, 3, 4, 5])
    let other = opened(world)
    #expect(world.post("\(path)/previous", #"{"before":"\#(other.text("next"))x"}"#).status == 400)
    #expect(world.post("\(path)/previous", "{}").status == 400)
  }

  @Test("B18: added, updated and deleted by what the client knew, one entry each; nothing twice")
  func changes() throws {
    let world = try world()
    defer { world.stop() }
    let open = opened(world)
    let path = "/v1/message-collections/\(open.text("id"))/events"
    try world.send(6, in: "general")
    try world.send(2, in: "general", text: "changed", updatedAt: 99)
    try world.delete(3, in: "general")
    let poll = world.ask("\(path)?since=\(open.text("cursor"))&wait=0")
    #expect(poll.events == ["messages.deleted 3", "messages.added 6", "messages.updated 2"])
    try world.send(7, in: "general")
    try world.delete(7, in: "general")
    let none = world.ask("\(path)?since=\(poll.text("cursor"))&wait=0")
    #expect(none.events == [], "what came and went is nothing")
  }

  @Test("B51: a parked poll is woken by a change of its channel, and by no other's")
  func parked() throws {
    let world = try world()
    defer { world.stop() }
    try world.join("alice", "random")
    try world.list([1], in: "random")
    let open = opened(world)
    let path = "/v1/message-collections/\(open.text("id"))/events?since=\(open.text("cursor"))&wait=10"
    let came = Watched<[String]?>(nil)
    let thread = Thread("poll") { [server = world.server] in
      let events = ask(server, path, headers: ["Perch-User": "alice"]).events
      came.update { $0 = events }
    }
    let end = Clock.system.monotonicNanoseconds() + 5_000_000_000
    while world.collections.subscriptions.count == 0, Clock.system.monotonicNanoseconds() < end {
      usleep(1000)
    }
    try world.send(9, in: "random")
    try world.send(6, in: "general")
    #expect(came.wait(until: end) { $0 } == ["messages.added 6"])
    thread.join()
    #expect(world.collections.subscriptions.count == 0)
  }

  @Test("B69: who lost the channel gets exactly one channel.deleted, and the view is gone")
  func lost() throws {
    let world = try world()
    defer { world.stop() }
    let open = opened(world)
    let path = "/v1/message-collections/\(open.text("id"))"
    try world.send(6, in: "general")
    try world.leave("alice", "general")
    for _ in 0..<2 {
      let poll = world.ask("\(path)/events?since=\(open.text("cursor"))&wait=0")
      #expect(poll.events == ["channel.deleted general"])
      #expect(world.ask("\(path)/events?since=\(poll.text("cursor"))&wait=0").status == 404)
    }
    #expect(world.ask(path).text("code") == "channel_not_found")
  }

  @Test("B23: a floor that rises or falls replaces the window by what the user may see now")
  func floor() throws {
    let world = try world()
    defer { world.stop() }
    let open = opened(world)
    let path = "/v1/message-collections/\(open.text("id"))/events"
    try world.join("alice", "general", floor: 40, name: "General")
    let risen = world.ask("\(path)?since=\(open.text("cursor"))&wait=0")
    #expect(risen.events.filter { $0.hasPrefix("messages") } == ["messages.replaced 4 5"])
    try world.join("alice", "general", floor: 0, name: "General")
    let fallen = world.ask("\(path)?since=\(risen.text("cursor"))&wait=0")
    #expect(fallen.events.filter { $0.hasPrefix("messages") } == ["messages.replaced 1 2 3 4 5"])
  }

  @Test("B1, B22: another user's, a disposed and an unknown collection are alike 404")
  func foreign() throws {
    let world = try world()
    defer { world.stop() }
    try world.join("mallory", "random")
    let open = opened(world)
    let path = "/v1/message-collections/\(open.text("id"))"
    #expect(world.ask(path, as: "mallory").text("code") == "collection_not_found")
    #expect(opened(world, as: "mallory").text("code") == "channel_not_found")
    #expect(world.ask(path, method: "DELETE").status == 204)
    #expect(world.ask(path).text("code") == "collection_not_found")
    #expect(world.ask("/v1/message-collections/none/events").status == 404)
  }

  @Test("B22: a collection outlives a restart with its window, and its cursor goes on")
  func restart() throws {
    let world = try world()
    defer { world.stop() }
    let open = opened(world, #","previous_size":3"#)
    let list = world.post("/v1/channel-collections", "{}")
    try world.send(6, in: "general")
    try world.restart()
    let path = "/v1/message-collections/\(open.text("id"))"
    let poll = world.ask("\(path)/events?since=\(open.text("cursor"))&wait=0")
    #expect(poll.status == 200 && poll.events == ["messages.added 6"])
    #expect(world.ask(path).messages == [3, 4, 5, 6])
    #expect(world.ask("/v1/channel-collections/\(list.text("id"))").status == 200)
  }

  @Test("B29: what was missed comes as messages.added, source message_fill, each message once")
  func filled() throws {
    let world = try world()
    defer { world.stop() }
    let open = opened(world)
    let path = "/v1/message-collections/\(open.text("id"))/events"
    try world.fill(after: 5, through: 305, in: "general")
    var (added, cursor, polls): ([String], String, Int) = ([], open.text("cursor"), 0)
    repeat {
      let poll = world.ask("\(path)?since=\(cursor)&wait=0")
      #expect(poll.status == 200 && !poll.body.contains(#""source":"api_result""#))
      for event in poll.events where event.hasPrefix("messages.") {
        #expect(event.hasPrefix("messages.added ") && poll.body.contains(#""source":"message_fill""#))
        added += event.split(separator: " ").dropFirst().map(String.init)
      }
      cursor = poll.text("cursor")
      polls += 1
      if !poll.body.contains(#""has_more":true"#) { break }
    } while polls < 20
    #expect(added == (6...305).map { "\($0)" })
    #expect(world.ask("\(path)?since=\(cursor)&wait=0").events == [])
  }

  @Test("B52: a cursor of another epoch or beyond the log is a 410 with the link to begin again")
  func expired() throws {
    let world = try world()
    defer { world.stop() }
    let open = opened(world)
    let path = "/v1/message-collections/\(open.text("id"))"
    let epoch = open.text("cursor").prefix(16)
    let beyond = "\(open.text("cursor")).\(Int64.max)"
    for cursor in ["0123456789abcdef.1.1", "\(epoch).1.999999", "\(epoch).9.1", beyond] {
      let poll = world.ask("\(path)/events?since=\(cursor)&wait=0")
      #expect(poll.status == 410 && poll.text("code") == "cursor_expired", "\(cursor)")
      #expect(poll["Link"] == "<\(path)>; rel=\"start\"")
    }
    #expect(world.ask("\(path)/events?since=nonsense").status == 400)
  }

  @Test("B52: a stream whose cursor is of another epoch says reset and ends, for a view, a list and the user")
  func expiredStreams() throws {
    let world = try world()
    defer { world.stop() }
    let open = opened(world)
    let list = world.post("/v1/channel-collections", "{}")
    let paths = [
      "/v1/message-collections/\(open.text("id"))/events",
      "/v1/channel-collections/\(list.text("id"))/events", "/v1/events",
      "/v1/events?collections=\(open.text("id"))",
    ]
    for path in paths {
      let stream = world.ask(
        path, extra: ["Accept": "text/event-stream", "Last-Event-ID": "0123456789abcdef.1.1"])
      #expect(
        stream.status == 200 && stream.body.contains("event: reset\ndata: {\"code\":\"cursor_expired\"}"))
    }
  }

  @Test("B51, B52: a stream that was refused leaves its client with the id of a cursor that can be resumed")
  func resumedAfterReset() throws {
    let world = try world()
    defer { world.stop() }
    let open = opened(world)
    let epoch = open.text("cursor").prefix(16)
    for path in ["/v1/message-collections/\(open.text("id"))/events", "/v1/events"] {
      for cursor in ["0123456789abcdef.1.1", "\(epoch).1.999999", "\(epoch).9.1"] {
        let stream = world.ask(path, extra: ["Accept": "text/event-stream", "Last-Event-ID": cursor])
        let lines = stream.body.split(separator: "\n", omittingEmptySubsequences: false)
        #expect(stream.status == 200 && lines.contains("event: reset"), "\(cursor)")
        let ids = lines.filter { $0.hasPrefix("id: ") }.map { $0.dropFirst(4) }
        #expect(ids.count == 1 && ids != [Substring(cursor)], "\(path) \(cursor)")
        for id in ids { #expect(world.ask("\(path)?since=\(id)&wait=0").status == 200, "\(path) \(id)") }
      }
    }
  }

  @Test("B50: a view that is named twice is followed once")
  func namedTwice() throws {
    let world = try world()
    defer { world.stop() }
    let open = opened(world)
    try world.send(6, in: "general")
    let names = "\(open.text("id")),\(open.text("id"))"
    let poll = world.ask("/v1/events?since=\(open.text("cursor"))&wait=0&collections=\(names)")
    #expect(poll.events == ["messages.added 6"])
  }

  @Test("B52 B53: a cursor older than the kept log is a 410; whoever begins again or kept up goes on")
  func forgotten() throws {
    var retention = Retention()
    retention.events = 5
    let world = try world(retention)
    defer { world.stop() }
    let open = opened(world)
    let path = "/v1/message-collections/\(open.text("id"))"
    for id in Int64(6)...20 { try world.send(id, in: "general") }
    try world.cache.trim()
    let late = world.ask("\(path)/events?since=\(open.text("cursor"))&wait=0")
    #expect(late.status == 410 && late.text("code") == "cursor_expired")
    #expect(late["Link"] == "<\(path)>; rel=\"start\"")
    let cursor = world.cache.cursor.description
    try world.send(21, in: "general")
    let next = world.ask("\(path)/events?since=\(cursor)&wait=0")
    #expect(next.status == 200 && next.events == ["messages.added 21"])
    let stream = ask(
      world.server, "\(path)/events?since=\(open.text("cursor"))",
      headers: ["Perch-User": "alice", "Accept": "text/event-stream"])
    #expect(stream.body.contains("event: reset"))
  }

  @Test("B52 B53: after a 410 a quiet user's feed goes on from the cursor of the connection")
  func forgottenFeed() throws {
    var retention = Retention()
    retention.events = 5
    let world = try world(retention)
    defer { world.stop() }
    let old = world.ask("/v1/events").text("cursor")
    for id in Int64(6)...20 { try world.send(id, in: "general") }
    try world.cache.trim()
    let late = world.ask("/v1/events?since=\(old)&wait=0")
    #expect(late.status == 410 && late.body.contains(#""read_again":["/v1/connection"]"#))
    let cursor = world.ask("/v1/connection").text("cursor")
    try world.send(21, in: "general")
    let next = world.ask("/v1/events?since=\(cursor)&wait=0")
    #expect(next.status == 200 && next.events.contains("message.received 21"), "\(next.events)")
    #expect(!next.events.contains("message.received 20"), "only what came since is told")
  }

  @Test("B9: a list's window is moved by more alone; channels come, change and go by it")
  func channels() throws {
    let world = try CollectionWorld()
    defer { world.stop() }
    for (index, name) in ["a", "b", "c", "d"].enumerated() {
      try world.join("alice", name, last: Int64(100 - index))
    }
    let open = world.post("/v1/channel-collections", #"{"query":{"limit":2}}"#)
    #expect(open.status == 201)
    let path = "/v1/channel-collections/\(open.text("id"))"
    try world.join("alice", "d", last: 200)
    try world.join("alice", "c", name: "below", last: nil)
    let poll = world.ask("\(path)/events?since=\(open.text("cursor"))&wait=0")
    #expect(poll.events == ["channels.added d"])
    try world.leave("alice", "a")
    let next = world.ask("\(path)/events?since=\(poll.text("cursor"))&wait=0")
    #expect(next.events == ["channels.deleted a"])
    let more = world.post("\(path)/more", #"{"after":"\#(open.text("next"))"}"#)
    #expect(more.status == 200 && more.body.contains(#""channel_url":"c""#))
    #expect(world.post("\(path)/more", #"{"after":"x"}"#).status == 400)
  }

  @Test("B50: several views and the user's feed with one cursor, each event saying whose it is")
  func several() throws {
    let world = try world()
    defer { world.stop() }
    let (one, list) = (opened(world), world.post("/v1/channel-collections", "{}"))
    try world.send(6, in: "general")
    let ids = "\(one.text("id")),\(list.text("id"))"
    let poll = world.ask("/v1/events?since=\(one.text("cursor"))&wait=0&collections=\(ids)&user_feed=true")
    #expect(poll.events.contains("messages.added 6") && poll.events.contains("message.received 6"))
    #expect(poll.body.contains(#""collection_id":"\#(one.text("id"))""#))
    #expect(world.ask("/v1/events?since=\(poll.text("cursor"))&wait=0").events == [])
    #expect(world.ask("/v1/events").text("cursor") != "")
  }

  @Test("B54: more parked polls than allowed are a 503 with Retry-After")
  func parkedLimit() throws {
    var settings = Collections.Settings()
    settings.parkedPerUser = 0
    let world = try CollectionWorld(settings: settings)
    defer { world.stop() }
    try world.join("alice", "general")
    let cursor = world.ask("/v1/events?since=now").text("cursor")
    let poll = world.ask("/v1/events?since=\(cursor)&wait=5")
    #expect(poll.status == 503 && poll["Retry-After"] != nil)
  }

  @Test("B51: a ticket follows its own path, and no other")
  func ticket() throws {
    let world = try world()
    defer { world.stop() }
    let ticket = world.post("/v1/events/ticket", #"{"path":"/v1/events"}"#).text("ticket")
    let open = opened(world)
    #expect(ask(world.server, "/v1/events?ticket=\(ticket)").status == 200)
    #expect(ask(world.server, "/v1/events?ticket=\(ticket)").status == 200, "EventSource comes back with it")
    let other = "/v1/message-collections/\(open.text("id"))/events?ticket=\(ticket)"
    #expect(ask(world.server, other).status == 401)
    #expect(world.post("/v1/events/ticket", #"{"path":"/v1/channels"}"#).status == 400)
  }
}
