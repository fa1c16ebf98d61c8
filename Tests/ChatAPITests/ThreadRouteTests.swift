import ChatCache
import ChatModel
import MicroHTTP
import Platform
import TestSupport
import Testing

@testable import ChatAPI

/// Threads over HTTP, with a scripted sync worker: pages and views of a thread far back request the thread.
@Suite(.timeLimit(.minutes(5))) struct ThreadRouteTests {
  private static let url = ChannelURL("general")

  /// The newest messages are covered; message 1 and its replies 2 to 6 lie before a gap.
  private func world() throws -> CollectionWorld {
    let world = try CollectionWorld()
    try world.join("alice", "general")
    let rows = (100...110).map { CollectionWorld.message($0, at: $0 * 10) }
    let listing = MessageListing(
      window: MessageWindow(.newest, older: 11, newer: 0), rows: rows, isWhole: true,
      askedAt: world.cache.cursor.sequence)
    try world.cache.write {
      try $0.store([listing], in: Self.url, ListingContext(source: .apiResult, generation: 1))
    }
    let cache = world.cache
    world.syncRequests.tell { script in
      script.onFetch = { wanted in
        guard let thread = wanted.thread else { return .failed(.failed(reason: "the line is not asked for")) }
        do { try Self.store(thread, cache) } catch { return .failed(.storage(reason: "\(error)")) }
        return .stored
      }
    }
    return world
  }

  private static func store(_ parent: Int64, _ cache: Cache) throws {
    let rows = (2...6).map { (id: Int64) in
      var reply = CollectionWorld.message(id, at: id * 10, text: "reply")
      reply.parentID = parent
      reply.parentAt = 10
      return reply
    }
    let windows = [
      MessageWindow(.newest, older: 100, newer: 0), MessageWindow(.time(0), older: 0, newer: 200),
    ]
    let asked = cache.cursor.sequence
    try cache.write { writer in
      _ = try writer.store(
        windows.map { MessageListing(window: $0, rows: rows, isWhole: true, askedAt: asked) },
        ofThread: parent, in: url, ListingContext(source: .apiResult, generation: 1))
    }
  }

  private func ids(_ answer: Answer) -> [String] {
    answer.body.matches(of: #/"message_id":"([0-9]+)"/#).map { String($0.1) }
  }

  private func threads(_ world: CollectionWorld) -> [Int64?] {
    world.syncRequests.calls.compactMap { call -> Int64?? in
      if case .fetch(let wanted, _) = call { .some(wanted.thread) } else { nil }
    }
  }

  @Test("B12, B15: a page of a thread far back asks for the thread once, and is a hit afterwards")
  func page() throws {
    let world = try world()
    defer { world.stop() }
    let path = "/v1/channels/general/messages?parent_message_id=1&limit=30"
    let first = ask(world.server, path, headers: ["Perch-User": "alice"])
    #expect(first.status == 200 && ids(first) == ["2", "3", "4", "5", "6"])
    #expect(first["Cache-Status"] == "perch; fwd=miss; stored")
    #expect(first.body.contains(#""has_previous":false"#) && first.body.contains(#""complete":true"#))
    #expect(threads(world) == [1])
    let tag = try #require(first["ETag"])
    let again = ask(world.server, path, headers: ["Perch-User": "alice", "If-None-Match": tag])
    #expect(again.status == 304 && threads(world) == [1])
    let line = ask(
      world.server, "/v1/channels/general/messages?limit=50",
      headers: ["Perch-User": "alice", "Cache-Control": "only-if-cached"])
    #expect(!ids(line).contains("2") && line.body.contains(#""complete":false"#), "the line has its gap")
  }

  @Test("B16, B17: a view of a thread says so to the sync worker, and its load calls ask for the thread")
  func view() throws {
    let world = try world()
    defer { world.stop() }
    let headers = ["Perch-User": "alice", "Content-Type": "application/json"]
    let opened = ask(
      world.server, "/v1/message-collections", method: "POST", headers: headers,
      body: #"{"channel_url":"general","parent_message_id":"1","previous_size":3}"#)
    #expect(opened.status == 201, "\(opened.body)")
    #expect(
      world.syncRequests.calls.contains {
        if case .opened(let view, _) = $0 { view.thread == 1 } else { false }
      })
    let id = try #require(opened.body.firstMatch(of: #/"id":"([^"]+)"/#)).1
    let edge = try #require(opened.body.firstMatch(of: #/"previous":"([^"]+)"/#)).1
    let older = ask(
      world.server, "/v1/message-collections/\(id)/previous", method: "POST", headers: headers,
      body: #"{"before":"\#(edge)","limit":3}"#)
    #expect(older.status == 200 && ids(older) == ["4", "5", "6"], "\(older.body)")
    #expect(threads(world).allSatisfy { $0 == 1 } && !threads(world).isEmpty)
    let snapshot = ask(world.server, "/v1/message-collections/\(id)", headers: ["Perch-User": "alice"])
    #expect(ids(snapshot).suffix(3) == ["4", "5", "6"])
  }
}
