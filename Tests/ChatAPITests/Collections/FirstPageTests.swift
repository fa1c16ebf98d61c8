import ChatCache
import ChatModel
import TestSupport
import Testing

@testable import ChatAPI

/// The first page of a view whose client did not get the event of the upstream's answer.
@Suite struct FirstPageTests {
  private let general = ChannelURL("general")

  /// A view of a channel that was cleared and is known again.
  private func cleared() throws -> (world: CollectionWorld, path: String) {
    let world = try CollectionWorld()
    try world.join("alice", "general", name: "General")
    try world.list([1, 2, 3], in: "general")
    let id = world.post("/v1/message-collections", #"{"channel_url":"general"}"#).text("id")
    try answer(world, id)
    try world.cache.write { try $0.clearAll(withUnsent: false) }
    try world.join("alice", "general", name: "General")
    return (world, "/v1/message-collections/\(id)")
  }

  private func answer(_ world: CollectionWorld, _ id: String, failure: (String, Bool)? = nil) throws {
    try world.cache.write { try $0.answered(views: [id], in: general, failure: failure) }
  }

  private func id(_ path: String) -> String { String(path.split(separator: "/").last ?? "") }

  private func poll(_ world: CollectionWorld, _ path: String, _ cursor: String) -> Answer {
    world.ask("\(path)/events?since=\(cursor)&wait=0")
  }

  /// Whether one event of the answer names these messages.
  private func names(_ ids: [Int64], _ answer: Answer) -> Bool {
    let names = ids.map(String.init).joined(separator: " ")
    return answer.events.contains { $0.hasSuffix(" " + names) }
  }

  @Test("B16, B58: a cleared view that is read again after the upstream's answer has its first page")
  func readAgain() throws {
    let (world, path) = try cleared()
    defer { world.stop() }
    let empty = world.ask(path)
    #expect(empty.messages == [] && empty.text("status") == "")
    try world.list([1, 2, 3], in: "general")
    try answer(world, id(path))
    let whole = world.ask(path)
    #expect(whole.messages == [1, 2, 3])
    try world.send(4, in: "general")
    #expect(poll(world, path, whole.text("cursor")).events == ["messages.added 4"])
    #expect(names([1, 2, 3, 4], poll(world, path, empty.text("cursor"))))
    try world.restart()
    #expect(world.ask(path).messages == [1, 2, 3, 4])
  }

  @Test("B16, B49: a client that was told of less than the first page is told when somebody reads it again")
  func short() throws {
    let (world, path) = try cleared()
    defer { world.stop() }
    try world.send(3, in: "general")
    #expect(world.ask(path).messages == [3])
    try world.list([1, 2, 3], in: "general")
    try answer(world, id(path))
    // After a start the log has no event of the answer.
    let cursor = world.cache.cursor.description
    try world.restart()
    #expect(poll(world, path, cursor).events == [])
    #expect(world.ask(path).messages == [1, 2, 3])
    for _ in 0..<2 { #expect(poll(world, path, cursor).events == ["messages.replaced 1 2 3"]) }
    let last = world.ask(path)
    #expect(poll(world, path, last.text("cursor")).events == [])
  }

  @Test(
    "B16, B49: a view whose upstream refused for good is told its first page when there is one",
    arguments: [false, true])
  func refused(isOneOfMany: Bool) throws {
    let (world, path) = try cleared()
    defer { world.stop() }
    let empty = world.ask(path)
    try answer(world, id(path), failure: ("forbidden", false))
    let failed = poll(world, path, empty.text("cursor"))
    #expect(failed.events == ["api_failed"])
    let cursor = failed.text("cursor")
    #expect(poll(world, path, cursor).events == [])
    let many = "/v1/events?collections=\(id(path))&user_feed=true&since=\(cursor)&wait=20"
    let held = world.held(isOneOfMany ? many : "\(path)/events?since=\(cursor)&wait=20")
    #expect(world.waitParked(1))
    try world.list([1, 2, 3], in: "general")
    #expect(names([1, 2, 3], held.answer()))
    // The answer may have been lost.
    #expect(names([1, 2, 3], poll(world, path, cursor)))
    #expect(world.ask(path).messages == [1, 2, 3])
  }

  @Test("B16: a view that is owed its first page is not told it by a read, but by its next event")
  func owed() throws {
    let (world, path) = try cleared()
    defer { world.stop() }
    _ = world.ask(path)
    try world.list([1, 2, 3], in: "general")
    let early = world.ask(path)
    #expect(early.messages == [] && early.body.contains(#""has_previous":true"#))
    #expect(early.body.contains(#""tail":{"state":"live"}"#) && early.body.contains(#""gaps":[]"#))
    #expect(early.body.contains(#""complete":false"#), "the channel is not empty")
    try answer(world, id(path))
    #expect(poll(world, path, early.text("cursor")).events == ["messages.replaced 1 2 3"])
  }

  @Test("B16: after a restart only a view of whose channel nothing is known is owed an answer again")
  func restarted() throws {
    let world = try CollectionWorld()
    defer { world.stop() }
    var ids: [String: Bool] = [:]
    for channel in ["empty", "unknown"] {
      try world.join("alice", channel, name: channel)
      let open = world.post("/v1/message-collections", #"{"channel_url":"\#(channel)"}"#)
      #expect(open.status == 201, "\(open.body)")
      ids[open.text("id")] = channel == "unknown"
      if channel == "empty" { try world.list([] as [Int64], in: channel) }
      try world.cache.write { writer in
        try writer.answered(views: [open.text("id")], in: ChannelURL(channel), failure: nil)
      }
      _ = poll(world, "/v1/message-collections/\(open.text("id"))", open.text("cursor"))
    }
    let before = world.syncRequests.calls.count
    try world.restart()
    var owed: [String: Bool] = [:]
    for call in world.syncRequests.calls.dropFirst(before) {
      if case .opened(let view, let isOwed) = call { owed[view.id] = isOwed }
    }
    #expect(owed == ids)
  }

  @Test(
    "B28: a view that was opened before anything was known of its channel ends at a huge gap, like any other",
    arguments: [[], [1, 2, 3]], [false, true])
  func hugeGap(first: [Int64], isRestarted: Bool) throws {
    let world = try CollectionWorld()
    defer { world.stop() }
    try world.join("alice", "general", name: "General")
    let open = world.post("/v1/message-collections", #"{"channel_url":"general"}"#)
    let path = "/v1/message-collections/\(open.text("id"))"
    #expect(open.messages == [])
    try world.list(first, in: "general")
    try answer(world, id(path))
    var cursor = poll(world, path, open.text("cursor")).text("cursor")
    if first.isEmpty {
      try world.list([1], in: "general", .messageReceived)
      cursor = poll(world, path, cursor).text("cursor")
    }
    if isRestarted { try world.restart() }
    let before = world.ask(path).messages
    try world.listAfterGap(Array(1000...1010), missing: 700, in: "general")
    let told = poll(world, path, cursor)
    #expect(told.events.contains("huge_gap.detected") && told.body.contains(#""has_next":true"#))
    #expect(told.body.contains(#""gaps":[{"#) && !told.body.contains(#""next":null"#), "it goes on from here")
    #expect(!told.events.contains { $0.hasPrefix("messages.added") }, "\(told.events)")
    #expect(world.ask(path).messages == before)
    #expect(before == (first.isEmpty ? [1] : first))
  }
}
