import ChatCache
import ChatCollections
import ChatModel
import Glibc
import MicroHTTP
import Platform
import TestSupport
import Testing

@testable import ChatAPI

/// Answers that are cut, feeds of several views, events of the user feed.
@Suite struct FollowingTests {
  private func world() throws -> CollectionWorld {
    let world = try CollectionWorld()
    try world.join("alice", "general", name: "General")
    try world.list([1, 2, 3, 4, 5], in: "general")
    return world
  }

  /// Follows a path until no more events come. Returns each answer's events in brief.
  private func drained(_ world: CollectionWorld, _ path: String, from cursor: String) -> [[String]] {
    var cursor = cursor
    var answers: [[String]] = []
    for _ in 0..<50 {
      let poll = world.ask("\(path)since=\(cursor)&wait=0")
      guard poll.status == 200 else { return answers + [["status \(poll.status)"]] }
      answers.append(poll.events)
      cursor = poll.text("cursor")
      if !poll.hasMore { return answers }
    }
    return answers
  }

  private func ids(_ events: [String], _ type: String) -> [Int64] {
    events.filter { $0.hasPrefix(type + " ") }
      .flatMap { $0.split(separator: " ").dropFirst().compactMap { Int64($0) } }
  }

  @Test("B49: an answer that is cut goes on where it ended: everything is added once, also from old cursors")
  func cut() throws {
    let world = try world()
    defer { world.stop() }
    let open = world.post("/v1/message-collections", #"{"channel_url":"general"}"#)
    let path = "/v1/message-collections/\(open.text("id"))/events?"
    for id in Int64(6)...1206 { try world.send(id, in: "general") }
    let exact = drained(world, path, from: open.text("cursor"))
    #expect(exact.count >= 3 && exact.allSatisfy { ids($0, "messages.added").count <= 501 })
    #expect(exact.flatMap { ids($0, "messages.added") } == Array(6...1206))
    #expect(exact.flatMap { $0 }.allSatisfy { $0.hasPrefix("messages.added") })
    try world.restart()
    // The service does not remember what the client had: it still sends everything, and nothing twice.
    let old = drained(world, path, from: open.text("cursor"))
    #expect(old.flatMap { ids($0, "messages.added") } == Array(6...1206))
    try world.delete(1206, in: "general")
    #expect(world.ask("\(path)since=\(open.text("cursor"))&wait=0").status == 200)
  }

  @Test("B18: a filtered view whose client's messages are forgotten deletes none that its filters never show")
  func neverShown() throws {
    let world = try world()
    defer { world.stop() }
    func rows(_ text: String) -> [MessageRecord] {
      (Int64(1)...9).map { id in
        var row = CollectionWorld.message(id, at: id * 10, text: text)
        if id == 6 || id == 8 { (row.parentID, row.parentAt) = (3, 30) }
        return row
      }
    }
    try world.list(rows("hello"), in: "general")
    let filters = [#""parent_message_id":"3""#, #""sender_user_ids":["carol"]"#, #""custom_types":["x"]"#]
    let open = filters.map { world.post("/v1/message-collections", #"{"channel_url":"general",\#($0)}"#) }
    // The service forgets what each client has. Then all messages are edited.
    try world.restart()
    try world.list(rows("edited"), in: "general")
    let deleted = open.map { view in
      let path = "/v1/message-collections/\(view.text("id"))/events?"
      return drained(world, path, from: view.text("cursor")).flatMap { ids($0, "messages.deleted") }
    }
    // A custom type can be edited away: a message without it may have had it.
    // A view of the channel does not show replies.
    #expect(deleted == [[], [], [1, 2, 3, 4, 5, 7, 9]])
  }

  @Test("B49, B50: of several views one answer that is cut ends all of them there; nothing is told twice")
  func cutTogether() throws {
    let world = try world()
    defer { world.stop() }
    try world.join("alice", "random", name: "Random")
    try world.list([1], in: "random")
    let one = world.post("/v1/message-collections", #"{"channel_url":"general"}"#)
    let two = world.post("/v1/message-collections", #"{"channel_url":"random"}"#)
    let list = world.post("/v1/channel-collections", "{}")
    for id in Int64(6)...706 {
      try world.send(id, in: "general")
      if id % 70 == 0 { try world.send(id + 10_000, in: "random") }
    }
    let names = [one, two, list].map { $0.text("id") }.joined(separator: ",")
    let path = "/v1/events?user_feed=true&collections=\(names)&"
    let answers = drained(world, path, from: list.text("cursor"))
    #expect(answers.count >= 2)
    let added = answers.flatMap { ids($0, "messages.added") }
    #expect(added.filter { $0 < 10_000 } == Array(6...706))
    #expect(added.filter { $0 > 10_000 } == (1...10).map { $0 * 70 + 10_000 })
    let received = answers.flatMap { ids($0, "message.received") }
    #expect(received.count == Set(received).count && received.count == 711)
  }

  @Test("B50: a poll of several views names the one that there is not, also while it waits")
  func unknownAmongOthers() throws {
    let world = try world()
    defer { world.stop() }
    let (one, two) = (
      world.post("/v1/message-collections", #"{"channel_url":"general"}"#),
      world.post("/v1/channel-collections", "{}")
    )
    let (known, other) = (one.text("id"), two.text("id"))
    let unknown = world.ask("/v1/events?collections=\(known),cnone&wait=0&since=\(one.text("cursor"))")
    #expect(unknown.status == 404 && unknown.text("code") == "collection_not_found")
    #expect(unknown.text("collection_id") == "cnone")
    let held = world.held("/v1/events?collections=\(known),\(other)&wait=20&since=\(world.cache.cursor)")
    #expect(world.waitParked(1))
    #expect(world.ask("/v1/channel-collections/\(other)", method: "DELETE").status == 204)
    #expect(held.answer().text("collection_id") == other)
    #expect(world.ask("/v1/message-collections/cnone").text("collection_id") == "")
  }

  @Test("B11, B50: sync.progress says how far the user's channels are")
  func progress() throws {
    let world = try CollectionWorld()
    defer { world.stop() }
    try world.cache.write { _ = try $0.acknowledge(UserID("alice")) }
    let cursor = world.ask("/v1/events?since=now").text("cursor")
    world.syncRequests.tell {
      $0.connections[UserID("alice")] = UserConnection(
        UserID("alice"), .online, isSynced: false,
        progress: UserConnection.Progress(.channels, channelsDone: 100, channelsTotal: 250))
    }
    try world.join("alice", "general", name: "General")
    let poll = world.ask("/v1/events?since=\(cursor)&wait=0")
    #expect(poll.events.contains("sync.progress"))
    #expect(
      poll.body.contains(#""progress":{"phase":"channels","channels_done":100,"channels_total":250}"#))
  }

  @Test("B22: reset replaces the view in one step: where it fails, the old view stays")
  func reset() throws {
    var settings = Collections.Settings()
    settings.perUser = 1
    let world = try CollectionWorld(settings: settings)
    defer { world.stop() }
    try world.join("alice", "general", name: "General")
    try world.list([1, 2, 3, 4, 5], in: "general")
    let open = world.post("/v1/message-collections", #"{"channel_url":"general"}"#)
    let path = "/v1/message-collections/\(open.text("id"))"
    let reset = world.post("\(path)/reset", #"{"starting_point":20}"#)
    #expect(reset.status == 201 && reset.text("id") != open.text("id"))
    #expect(reset.text("starting_point") == "20")
    #expect(world.ask(path).text("code") == "collection_not_found")
    #expect(world.post("\(path)/reset", "{}").text("code") == "collection_not_found")
    let now = "/v1/message-collections/\(reset.text("id"))"
    try world.leave("alice", "general")
    #expect(world.post("\(now)/reset", "{}").text("code") == "channel_not_found")
    #expect(try world.cache.read { try $0.collections() }.map(\.id) == [reset.text("id")])
  }

  @Test("B51: a stream names what it refuses: a wait, and a Last-Event-ID that is no cursor")
  func refusedStream() throws {
    let world = try world()
    defer { world.stop() }
    let stream = ["Accept": "text/event-stream"]
    let waits = world.ask("/v1/events?wait=1", extra: stream)
    #expect(waits.status == 400 && waits.body.contains(#""field":"wait""#))
    let resumed = world.ask("/v1/events", extra: stream.merging(["Last-Event-ID": "x"]) { $1 })
    #expect(resumed.status == 400 && resumed.body.contains(#""field":"Last-Event-ID""#))
    let since = world.ask("/v1/events?since=x", extra: stream)
    #expect(since.status == 400 && since.body.contains(#""field":"since""#))
  }

  @Test("B26: a gap that is closed is told as closed, by its name and where it was")
  func closedGap() throws {
    let world = try world()
    defer { world.stop() }
    let row = CollectionWorld.message(100, at: 1000)
    let asked = world.cache.cursor.sequence
    try world.cache.write {
      try $0.store(
        [
          MessageListing(
            window: MessageWindow(.newest, older: 1, newer: 0), rows: [row], isWhole: true, askedAt: asked)
        ], in: ChannelURL("general"), ListingContext(source: .messageFill, generation: 1))
    }
    let open = world.post("/v1/message-collections", #"{"channel_url":"general"}"#)
    let path = "/v1/message-collections/\(open.text("id"))/events"
    try world.list(Array(1...5) + [100], in: "general", .messageFill)
    let poll = world.ask("\(path)?since=\(open.text("cursor"))&wait=0")
    #expect(poll.events.contains("gap.changed") && poll.body.contains(#""state":"closed""#))
  }

  @Test("B26 B50: an answer tells each gap, and each channel's state, once")
  func onceEach() throws {
    let world = try world()
    defer { world.stop() }
    func list(_ anchor: MessageWindow.Anchor, _ id: Int64) throws {
      let row = CollectionWorld.message(id, at: id * 10)
      let asked = world.cache.cursor.sequence
      try world.cache.write {
        try $0.store(
          [
            MessageListing(
              window: MessageWindow(anchor, older: 1, newer: 0), rows: [row], isWhole: true, askedAt: asked)
          ], in: ChannelURL("general"), ListingContext(source: .messageFill, generation: 1))
      }
    }
    try list(.newest, 100)
    let open = world.post("/v1/message-collections", #"{"channel_url":"general"}"#)
    let since = "since=\(open.text("cursor"))&wait=0"
    for (step, id) in [Int64](stride(from: 90, through: 60, by: -10)).enumerated() {
      try list(.time((id + 10) * 10 - 1), id)
      try world.join("alice", "general", name: "Name \(step)")
    }
    for path in ["/v1/message-collections/\(open.text("id"))/events", "/v1/events"] {
      let poll = world.ask("\(path)?\(since)")
      let gaps = poll.body.split(separator: #""gap":{"id":""#).dropFirst().map { $0.prefix { $0 != "\"" } }
      #expect(!gaps.isEmpty && Set(gaps).count == gaps.count, "\(path): \(gaps)")
      let channels = poll.events.filter { $0.hasPrefix("channel.") }
      #expect(channels.count == 1 && poll.body.contains("Name 3"), "\(path): \(channels)")
    }
  }

  @Test("B52, B58: a log that is cleared ends parked polls with 410; the view begins anew under its name")
  func cleared() throws {
    let world = try world()
    defer { world.stop() }
    let open = world.post("/v1/message-collections", #"{"channel_url":"general"}"#)
    let list = world.post("/v1/channel-collections", "{}")
    let (view, channels) = (
      "/v1/message-collections/\(open.text("id"))", "/v1/channel-collections/\(list.text("id"))"
    )
    let polls = [
      world.held("\(view)/events?since=\(open.text("cursor"))&wait=20"),
      world.held("\(channels)/events?since=\(open.text("cursor"))&wait=20"),
      world.held("/v1/events?since=\(open.text("cursor"))&wait=20"),
    ]
    #expect(world.waitParked(3))
    try world.cache.write { try $0.clearAll(withUnsent: false) }
    for poll in polls { #expect(poll.answer().text("code") == "cursor_expired") }
    let late = world.ask("\(view)/events?since=\(open.text("cursor"))&wait=0")
    #expect(late.text("code") == "cursor_expired" && late["Link"] == "<\(view)>; rel=\"start\"")
    #expect(world.ask(view).text("code") == "channel_not_found", "it is not listed again yet")
    try world.join("alice", "general", name: "General")
    try world.list([1, 2, 3], in: "general")
    let again = world.ask(view)
    #expect(again.status == 200 && again.messages == [1, 2, 3])
    try world.send(4, in: "general")
    let next = world.ask("\(view)/events?since=\(again.text("cursor"))&wait=0")
    #expect(next.events == ["messages.added 4"])
    #expect(world.ask(channels).status == 200)
    try world.restart()
    #expect(world.ask(view).messages == [1, 2, 3, 4] && world.ask(channels).status == 200)
  }

  @Test("B18, B49: what a parked poll passes over does not make its client's knowledge forgotten")
  func passedOver() throws {
    let world = try world()
    defer { world.stop() }
    let all = world.post("/v1/message-collections", #"{"channel_url":"general"}"#)
    let path = "/v1/message-collections/\(all.text("id"))/events?since=\(all.text("cursor"))&wait=20"
    let poll = world.held(path)
    #expect(world.waitParked(1))
    // Each of these changes wakes the poll, and none makes an event.
    let channel = try #require(
      try world.cache.read { reader -> ChannelKey? in
        guard let user = try reader.userKey(of: UserID("alice")) else { return nil }
        return try reader.view(of: ChannelURL("general"), for: user)?.channel
      })
    for _ in 0..<5 {
      let looks = seen(world)
      _ = try world.cache.write { try $0.append(Change(.unverified, .channelRefresh, channel: channel)) }
      let end = Clock.system.monotonicNanoseconds() + UInt64(patience * 5e9)
      while seen(world) == looks, Clock.system.monotonicNanoseconds() < end { usleep(500) }
    }
    try world.send(2, in: "general", text: "changed", updatedAt: 99)
    #expect(poll.answer().events == ["messages.updated 2"], "it is known that the client has it")
  }

  /// How often a user was admitted.
  private func seen(_ world: CollectionWorld) -> Int {
    world.syncRequests.calls.count { if case .seen = $0 { true } else { false } }
  }
}

extension Answer {
  /// Whether the answer was cut.
  var hasMore: Bool {
    body.contains(#""has_more":true"#) || body.contains(#""has_next":true"#)
  }
}
