import ChatCache
import ChatModel
import Testing

@testable import ChatAPI

/// B49: an answer has at most 256 KiB of events and 500 entries, whatever one commit changed.
@Suite(.timeLimit(.minutes(5))) struct AnswerSizeTests {
  /// Bytes of one answer, with the JSON around its events.
  private static let mostBytes = 256 * 1024 + 512
  private static let large = String(repeating: "x", count: 2200)

  private func world() throws -> CollectionWorld {
    let world = try CollectionWorld()
    try world.join("alice", "general", name: "General")
    try world.list([1, 2, 3, 4, 5], in: "general")
    return world
  }

  private func opened(_ world: CollectionWorld, _ more: String = "") -> Answer {
    world.post("/v1/message-collections", #"{"channel_url":"general"\#(more)}"#)
  }

  /// Polls until no more events follow, and checks the bounds of each answer. Returns the messages by the
  /// type of their event.
  private func drained(
    _ world: CollectionWorld, _ path: String, since: String, restarting: Bool = false
  ) throws -> [String: [String]] {
    var (told, cursor): ([String: [String]], String) = ([:], since)
    for _ in 0..<60 {
      let poll = world.ask("\(path)since=\(cursor)&wait=0")
      try #require(poll.status == 200)
      #expect(poll.body.utf8.count <= Self.mostBytes, "\(path): \(poll.body.utf8.count) bytes")
      var entries = 0
      for event in poll.events {
        let parts = event.split(separator: " ").map(String.init)
        entries += max(1, parts.count - 1)
        told[parts[0], default: []] += parts.dropFirst()
      }
      #expect(entries <= 500, "\(path): \(entries) entries")
      cursor = poll.text("cursor")
      if !poll.hasMore { return told }
      if restarting { try world.restart() }
    }
    Issue.record("it never ended")
    return told
  }

  private func ids(_ range: ClosedRange<Int64>) -> [String] { range.map { "\($0)" } }

  @Test("B49: a commit of 1.1 MB is told in answers of at most 256 KiB: to a view, the feed, several at once")
  func largeCommit() throws {
    let world = try world()
    defer { world.stop() }
    let views = (0..<3).map { _ in opened(world).text("id") }
    let since = world.cache.cursor.description
    try world.fill(after: 6, through: 505, in: "general", text: Self.large)
    let expected = ids(6...505)
    let path = "/v1/message-collections/\(views[0])/events?"
    #expect(try drained(world, path, since: since)["messages.added"] == expected)
    #expect(try drained(world, "/v1/events?", since: since)["message.received"] == expected)
    let all = "/v1/events?collections=\(views.joined(separator: ","))&user_feed=true&"
    let together = try drained(world, all, since: since)
    #expect(together["message.received"] == expected)
    // The first view got its events by its own polls; the service remembers only two cursors of its client.
    #expect((together["messages.added"] ?? []).count + (together["messages.updated"] ?? []).count == 1500)
  }

  @Test("B49: several lists and the feed share an answer: each gets its part of the room")
  func lists() throws {
    let world = try CollectionWorld()
    defer { world.stop() }
    let names = (0..<100).map { "room-\($0)" }
    for name in names { try world.join("alice", name, name: "before") }
    let lists = (0..<5).map { _ in
      world.post("/v1/channel-collections", #"{"query":{"limit":100,"include_empty":true}}"#).text("id")
    }
    var cursor = world.cache.cursor.description
    for name in names { try world.join("alice", name, name: String(repeating: "n", count: 900)) }
    let path = "/v1/events?collections=\(lists.joined(separator: ","))&user_feed=true"
    var (answers, bytes, hasMore) = (0, 0, true)
    while hasMore, answers < 100 {
      let poll = world.ask("\(path)&since=\(cursor)&wait=0")
      #expect(poll.body.utf8.count <= Self.mostBytes)
      (cursor, hasMore) = (poll.text("cursor"), poll.hasMore)
      (answers, bytes) = (answers + 1, bytes + poll.body.utf8.count)
    }
    #expect(bytes > 600_000)
    // On average an answer has at least half of the bound.
    #expect(answers <= bytes / (Self.mostBytes / 2) + 1, "\(answers) answers for \(bytes) bytes")
  }

  @Test("B49: small messages of one commit are told in answers of at most 500 entries")
  func manyEntries() throws {
    let world = try world()
    defer { world.stop() }
    let view = opened(world).text("id")
    let since = world.cache.cursor.description
    try world.fill(after: 6, through: 1805, in: "general", text: "")
    let expected = ids(6...1805)
    let path = "/v1/message-collections/\(view)/events?"
    #expect(try drained(world, path, since: since)["messages.added"] == expected)
    #expect(try drained(world, "/v1/events?", since: since)["message.received"] == expected)
  }

  @Test("B49: messages that were stored before and that a closing gap uncovers are told in bounded answers")
  func uncovered() throws {
    let world = try world()
    defer { world.stop() }
    let view = opened(world)
    try world.listAfterGap([600, 601], missing: nil, in: "general")
    for id in Int64(100)..<400 { try world.send(id, in: "general", text: Self.large) }
    let path = "/v1/message-collections/\(view.text("id"))"
    #expect(world.ask(path).messages.allSatisfy { $0 < 6 || $0 > 599 }, "the gap hides them")
    let since = world.cache.cursor.description
    try world.fill(after: 5, through: 599, in: "general", text: Self.large)
    let told = try drained(world, path + "/events?", since: since)
    #expect(Set(told["messages.added"] ?? []).isSuperset(of: ids(100...399)))
    #expect((told["messages.added"] ?? []).count == Set(told["messages.added"] ?? []).count)
    // A service that does not remember its client sends no message twice either.
    try world.restart()
    let again = try drained(world, path + "/events?", since: since, restarting: true)
    #expect(Set(again["messages.added"] ?? []).isSuperset(of: ids(100...399)))
    #expect((again["messages.added"] ?? []).count == Set(again["messages.added"] ?? []).count)
  }

  @Test("B49: a list of channels is told in answers of at most 256 KiB, each channel once")
  func channels() throws {
    let world = try world()
    defer { world.stop() }
    let list = world.post("/v1/channel-collections", "{}")
    let names = (10..<40).map { "channel-\($0)" }
    for (at, name) in names.enumerated() {
      try world.join("alice", name, name: String(repeating: "n", count: 20_000), last: Int64(1000 + at))
    }
    let path = "/v1/channel-collections/\(list.text("id"))/events?"
    let told = try drained(world, path, since: list.text("cursor"))
    #expect(told["channels.added"] == names, "\(told)")
  }

  @Test("B49: an answer ends before the message that does not fit; one that fits nowhere is told alone")
  func oversized() throws {
    let world = try world()
    defer { world.stop() }
    let view = opened(world).text("id")
    let since = world.cache.cursor.description
    for id in Int64(6)...15 {
      try world.send(id, in: "general", text: String(repeating: "y", count: 100_000))
    }
    let path = "/v1/message-collections/\(view)/events?"
    #expect(try drained(world, path, since: since)["messages.added"] == ids(6...15))
    #expect(try drained(world, "/v1/events?", since: since)["message.received"] == ids(6...15))
    let later = world.cache.cursor.description
    try world.send(16, in: "general", text: "small")
    try world.send(17, in: "general", text: String(repeating: "z", count: 300_000))
    try world.send(18, in: "general", text: "small")
    for path in [path, "/v1/events?"] {
      var (cursor, answers): (String, [[String]]) = (later, [])
      repeat {
        let poll = world.ask("\(path)since=\(cursor)&wait=0")
        answers.append(poll.events.filter { $0.hasPrefix("message") })
        cursor = poll.text("cursor")
        if !poll.hasMore { break }
      } while answers.count < 9
      #expect(answers.map(\.count) == [1, 1, 1], "\(path) \(answers)")
    }
  }
}
