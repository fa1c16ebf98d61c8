import ChatCache
import ChatModel
import Glibc
import TestSupport
import Testing

@testable import ChatAPI

/// What is answered to a user whose changes are not known (B1).
@Suite struct UnknownChangesRouteTests {
  private static let alice = UserID("alice")
  private static let chat = "/v1/message-collections"
  private static let list = "/v1/channel-collections"

  private func world() throws -> CollectionWorld {
    let world = try CollectionWorld()
    try world.join("alice", "general", name: "General")
    try world.list([1, 2, 3], in: "general")
    return world
  }

  /// From now on alice's changes are not known, until a request waits for them.
  private func hold(_ world: CollectionWorld, untilAsked: Bool = true) throws {
    try world.cache.holdRights(of: [Self.alice])
    guard untilAsked else { return }
    let cache = world.cache
    world.syncRequests.tell { script in
      script.onAwaitChanges = { user in
        do { try cache.releaseRights(of: user) } catch { Issue.record(error) }
      }
    }
  }

  private func asked(_ world: CollectionWorld) -> Int {
    world.syncRequests.calls.count { if case .awaitChanges = $0 { true } else { false } }
  }

  @Test("B1, B51: polls of a view, a list and the feed tell news as soon as the changes are known")
  func polls() throws {
    for path in ["chat", "list", "feed"] {
      let world = try world()
      defer { world.stop() }
      let opened =
        path == "list" ? world.post(Self.list, "{}") : world.post(Self.chat, #"{"channel_url":"general"}"#)
      let id = opened.text("id")
      let events =
        switch path {
        case "chat": "\(Self.chat)/\(id)/events"
        case "list": "\(Self.list)/\(id)/events"
        default: "/v1/events"
        }
      let cursor = opened.text("cursor")
      try hold(world)
      try world.send(4, in: "general")
      let early = world.ask("\(events)?since=\(cursor)&wait=0")
      #expect(early.status == 200 && early.events == [] && early.text("cursor") == cursor, "\(path)")
      let poll = world.ask("\(events)?since=\(cursor)&wait=5")
      #expect(!poll.events.isEmpty && asked(world) == 1, "\(path)")
    }
  }

  @Test("B1: a view that is opened meanwhile is answered at once, and its poll tells the rest")
  func opened() throws {
    let world = try world()
    defer { world.stop() }
    let before = world.cache.cursor
    try hold(world)
    try world.send(4, in: "general")
    let opened = world.post(Self.chat, #"{"channel_url":"general"}"#)
    #expect(opened.status == 201 && opened.messages == [1, 2, 3] && asked(world) == 0)
    #expect(opened.text("cursor") == before.knowingConnection(upTo: world.cache.cursor.sequence).description)
    let events = "\(Self.chat)/\(opened.text("id"))/events"
    let poll = world.ask("\(events)?since=\(opened.text("cursor"))&wait=5")
    #expect(poll.body.contains("messages.added") && poll.body.contains("\"message_id\":\"4\""))
    let again = world.ask("\(events)?since=\(poll.text("cursor"))&wait=0")
    #expect(again.events == [])
  }

  @Test("B1, B16: an opening that is held waits for the changes, too, and ends with the page of before")
  func heldOpening() throws {
    let world = try world()
    defer { world.stop() }
    try hold(world, untilAsked: false)
    let headers = ["Perch-User": "alice", "Prefer": "wait=1", "Content-Type": "application/json"]
    let opening = world.held(
      Self.chat, headers: headers, method: "POST", body: #"{"channel_url":"general"}"#)
    let isOpened = world.syncRequests.wait { if case .opened(_, true) = $0 { true } else { false } }
    #expect(isOpened)
    try world.send(4, in: "general")
    let answer = opening.answer()
    #expect(answer.status == 201 && answer.messages == [1, 2, 3])
    #expect(world.collections.subscriptions.count == 0)
  }

  @Test("B1, B46: a change of a message that changed meanwhile waits for the changes, or is refused")
  func changes() throws {
    let world = try world()
    defer { world.stop() }
    try hold(world, untilAsked: false)
    try world.send(4, in: "general")
    let path = "/v1/channels/general/messages/4/reactions/up"
    let now = ["Perch-User": "alice", "Prefer": "wait=0"]
    let refused = ask(world.server, path, method: "PUT", headers: now)
    #expect(refused.status == 503 && refused.text("code") == "not_synced" && refused["Retry-After"] == "1")
    let known = "/v1/channels/general/messages/3/reactions/up"
    #expect(ask(world.server, known, method: "PUT", headers: now).status == 202)
    try hold(world)
    #expect(ask(world.server, path, method: "PUT", headers: ["Perch-User": "alice"]).status == 202)
    #expect(asked(world) == 1)
  }

  @Test("B1, B37: a message that was sent meanwhile is not said to be gone: its answer waits for the changes")
  func sent() throws {
    let world = try CollectionWorld.forSending()
    defer { world.stop() }
    try hold(world, untilAsked: false)
    #expect(world.send("r").status == 202)
    try world.put(9, from: "alice", answering: "r")
    let early = world.send("r")
    #expect(early.status == 503 && early.text("code") == "not_synced" && early["Retry-After"] == "1")
    #expect(early.text("request_id") == "r" && early.body.ranges(of: "\"request_id\"").count == 1)
    let path = "/v1/channels/general/messages"
    let reply = #"{"message":"hi","request_id":"p","parent_message_id":"9"}"#
    let refused = world.ask(path, method: "POST", body: reply, extra: ["Prefer": "wait=0"])
    #expect(refused.status == 503 && refused.text("code") == "not_synced")
    try hold(world)
    let body = #"{"message":"hi","request_id":"r"}"#
    let sent = world.ask(path, method: "POST", body: body, extra: ["Prefer": "wait=5"])
    #expect(sent.status == 201 && sent.text("message_id") == "9" && asked(world) == 1)
    #expect(world.collections.subscriptions.count == 0)
  }

  @Test("B1: a service that stops ends a request that waits for the changes")
  func stopping() throws {
    let world = try world()
    try hold(world, untilAsked: false)
    try world.send(4, in: "general")
    let path = "/v1/channels/general/messages/4/reactions/up"
    let waiting = world.held(path, headers: ["Perch-User": "alice", "Prefer": "wait=30"], method: "PUT")
    let isWaiting = world.syncRequests.wait { if case .awaitChanges = $0 { true } else { false } }
    #expect(isWaiting)
    let began = ContinuousClock.now
    world.stop()
    #expect(ContinuousClock.now - began < .seconds(2 * patience))
    #expect(waiting.answer().status == 503)
  }

  @Test("B1: while the upstream cannot be asked no request waits")
  func offline() throws {
    let world = try world()
    defer { world.stop() }
    try hold(world, untilAsked: false)
    try world.send(4, in: "general")
    world.syncRequests.tell { script in
      script.connections[Self.alice] = UserConnection(Self.alice, .offline, isSynced: true)
    }
    let path = "/v1/channels/general/messages/4/reactions/up"
    #expect(ask(world.server, path, method: "PUT", headers: ["Perch-User": "alice"]).status == 503)
    #expect(asked(world) == 0)
  }

  @Test("B1: the tag of an answer that left something out is no other answer's tag")
  func tags() throws {
    let world = try world()
    defer { world.stop() }
    try hold(world, untilAsked: false)
    try world.send(4, in: "general")
    let paths = ["/v1/channels/general/messages", "/v1/channels/general", "/v1/channels"]
    for (id, path) in zip(Int64(5)..., paths) {
      let part = world.ask(path)
      try world.cache.releaseRights(of: Self.alice)
      let headers = ["Perch-User": "alice", "If-None-Match": part["ETag"] ?? ""]
      #expect(ask(world.server, path, headers: headers).status == 200, "\(path)")
      try world.cache.holdRights(of: [Self.alice])
      try world.send(id, in: "general")
    }
  }

  @Test("B1: the cursor of now lies before what the user is not shown")
  func now() throws {
    let world = try world()
    defer { world.stop() }
    let id = world.post(Self.chat, #"{"channel_url":"general"}"#).text("id")
    try hold(world)
    let before = world.cache.cursor
    try world.send(4, in: "general")
    let now = before.knowingConnection(upTo: world.cache.cursor.sequence).description
    for path in ["/v1/connection", "/v1/events", "\(Self.chat)/\(id)/events?since=now"] {
      #expect(world.ask(path).text("cursor") == now, "\(path)")
    }
    let told = world.ask("/v1/events?since=\(now)&wait=5")
    #expect(told.events.contains("message.received 4"), "\(told.events)")
    #expect(world.ask("/v1/events").text("cursor") == world.cache.cursor.description)
  }

  @Test("B1, B3: who is told no news is told that the connection changed, and once")
  func connection() throws {
    for path in ["chat", "list", "feed", "all"] {
      let world = try world()
      defer { world.stop() }
      let (chat, list) = (world.post(Self.chat, #"{"channel_url":"general"}"#), world.post(Self.list, "{}"))
      let all = "/v1/events?collections=\(chat.text("id")),\(list.text("id"))&"
      let paths = [
        "chat": "\(Self.chat)/\(chat.text("id"))/events?", "list": "\(Self.list)/\(list.text("id"))/events?",
        "feed": "/v1/events?", "all": all,
      ]
      let events = try #require(paths[path])
      let cursor = world.ask("/v1/events").text("cursor")
      try hold(world, untilAsked: false)
      try world.send(4, in: "general")
      try world.cache.write { try $0.announce(link: "upstream_unreachable") }
      let lost = world.ask("\(events)since=\(cursor)&wait=0")
      #expect(lost.events == ["connection.changed"], "\(path)")
      #expect(lost.body.contains("upstream_unreachable") && lost.body.contains("\"4\"") == false)
      #expect(lost.body.contains("\"collection_id\"") == (path == "all"), "\(lost.body)")
      let waiting = world.held("\(events)since=\(lost.text("cursor"))&wait=20")
      #expect(world.waitParked(1))
      try world.cache.write { try $0.announce(link: "online") }
      let back = waiting.answer()
      #expect(back.events == ["connection.changed"] && back.body.contains("online"), "\(path)")
      let none = world.ask("\(events)since=\(back.text("cursor"))&wait=0")
      #expect(none.events == [] && none.text("cursor") == back.text("cursor"), "\(path)")
      try world.cache.releaseRights(of: Self.alice)
      let told = world.ask("\(events)since=\(back.text("cursor"))&wait=0")
      #expect(!told.events.isEmpty && !told.events.contains("connection.changed"), "\(path) \(told.events)")
      #expect(told.text("cursor") == world.ask("/v1/events").text("cursor"), "\(path)")
    }
  }

  @Test("B1, B3: a stream that tells no news tells that the connection changed, with a cursor of its own")
  func connectionOfStream() throws {
    let world = try world()
    defer { world.stop() }
    let opened = world.post(Self.chat, #"{"channel_url":"general"}"#)
    try hold(world, untilAsked: false)
    let stream = try self.stream(world, opened)
    defer { close(stream) }
    try world.send(4, in: "general")
    try world.cache.write { try $0.announce(link: "upstream_unreachable") }
    let lost = read(stream, until: "connection.changed")
    #expect(!lost.contains("messages.added"))
    let id = lost.split(separator: "\n").last { $0.hasPrefix("id: ") }.map { String($0.dropFirst(4)) } ?? ""
    #expect(id.hasPrefix(opened.text("cursor") + "."), "\(lost)")
    try world.cache.releaseRights(of: Self.alice)
    try world.send(5, in: "general")
    let told = read(stream, until: "\"5\"")
    #expect(told.contains("messages.added") && !told.contains("connection.changed"), "\(told)")
  }

  @Test("B1, B51: a stream tells news as soon as the changes are known")
  func stream() throws {
    let world = try world()
    defer { world.stop() }
    let opened = world.post(Self.chat, #"{"channel_url":"general"}"#)
    let stream = try self.stream(world, opened)
    defer { close(stream) }
    try hold(world)
    try world.send(4, in: "general")
    #expect(read(stream, until: "messages.added").contains("messages.added"))
    #expect(asked(world) >= 1)
  }

  private func stream(_ world: CollectionWorld, _ opened: Answer) throws -> Int32 {
    let socket = Loopback.connect(port: world.server.port)
    let request = """
      GET \(Self.chat)/\(opened.text("id"))/events?since=\(opened.text("cursor")) HTTP/1.1\r
      Host: x\r\nPerch-User: alice\r\nAccept: text/event-stream\r\n\r\n
      """
    #expect(Glibc.send(socket, request, request.utf8.count, Int32(MSG_NOSIGNAL)) == request.utf8.count)
    #expect(world.waitParked(1))
    return socket
  }

  private func read(_ stream: Int32, until end: String) -> String {
    var text = ""
    var room = [UInt8](repeating: 0, count: 4096)
    // The event's last line is empty.
    var isWhole: Bool { text.split(separator: end, maxSplits: 1).last?.contains("\n\n") ?? false }
    while !text.contains(end) || !isWhole, case let count = recv(stream, &room, room.count, 0), count > 0 {
      text += String(decoding: room[..<count].filter { $0 != UInt8(ascii: "\r") }, as: UTF8.self)
    }
    return text
  }
}
