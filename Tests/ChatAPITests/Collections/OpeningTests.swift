import ChatCache
import ChatCollections
import ChatModel
import Glibc
import MicroHTTP
import Platform
import SQLite
import Synchronization
import TestSupport
import Testing

@testable import ChatAPI

/// Openings that are held until the upstream has answered.
@Suite struct OpeningTests {
  private static let headers = [
    "Perch-User": "alice", "Prefer": "wait=20", "Content-Type": "application/json",
  ]
  private static let body = #"{"channel_url":"general"}"#

  private func world(_ settings: Collections.Settings = Collections.Settings()) throws -> CollectionWorld {
    let world = try CollectionWorld(settings: settings)
    try world.join("alice", "general", name: "General")
    try world.list([1, 2, 3], in: "general")
    return world
  }

  private func held(_ world: CollectionWorld) -> HeldAsk {
    world.held("/v1/message-collections", headers: Self.headers, method: "POST", body: Self.body)
  }

  /// Has the cache's writer wait, so that the writes after this one wait, too.
  private func hold(_ cache: Cache, while busy: Watched<Bool>) {
    submit(cache) { _ in _ = busy.wait { $0 ? nil : true } }
  }

  /// Writes without waiting for the commit.
  private func submit(_ cache: Cache, _ body: @escaping @Sendable (CacheWriter) throws -> Void) {
    cache.accept(body, finish: { _ in })
  }

  /// The id of the view that was opened last.
  private func opened(_ world: CollectionWorld) -> String? {
    guard world.syncRequests.wait(for: { if case .opened(_, true) = $0 { true } else { false } }) else {
      return nil
    }
    for call in world.syncRequests.calls.reversed() {
      if case .opened(let view, true) = call { return view.id }
    }
    return nil
  }

  @Test("B16: a held opening gives the cached page and the upstream's answer at once")
  func both() throws {
    let world = try world()
    defer { world.stop() }
    let opening = held(world)
    let id = try #require(opened(world))
    try world.send(4, in: "general")
    try world.cache.write { try $0.answered(views: [id], in: ChannelURL("general"), failure: nil) }
    let answer = opening.answer()
    #expect(answer.status == 201 && answer.messages == [1, 2, 3, 4])
    #expect(answer.text("api_result", "type") == "messages.replaced")
    let poll = world.ask("/v1/message-collections/\(id)/events?since=\(answer.text("cursor"))&wait=0")
    #expect(poll.events == [], "the cursor lies after the upstream's answer")
    #expect(world.collections.subscriptions.count == 0)
  }

  @Test("B16: what a view was promised before a restart it is owed after it, and nothing else")
  func promises() throws {
    let world = try world()
    defer { world.stop() }
    let names = (0..<3).map { _ in world.post("/v1/message-collections", Self.body).text("id") }
    try world.cache.write {
      try $0.answered(views: [names[1]], in: ChannelURL("general"), failure: ("upstream_busy", true))
      try $0.answered(views: [names[2]], in: ChannelURL("general"), failure: nil)
    }
    let before = world.syncRequests.calls.count
    try world.restart()
    var owed: [String: Bool] = [:]
    for call in world.syncRequests.calls.dropFirst(before) {
      if case .opened(let view, true) = call { owed[view.id] = view.wasToldOfFailure }
    }
    #expect(owed == [names[0]: false, names[1]: true])
  }

  @Test("B1, B58: a view's channel that is not known again after a clear is asked for")
  func cleared() throws {
    let world = try world()
    defer { world.stop() }
    let name = world.post("/v1/message-collections", Self.body).text("id")
    try world.cache.write { try $0.clearAll(withUnsent: false) }
    world.syncRequests.tell { $0.onFind = { _, _ in .failure(.notSynced(retryAfter: 1000)) } }
    let view = "/v1/message-collections/\(name)"
    let polls = [
      "\(view)/events", "\(view)/events?since=now", "/v1/events?collections=\(name)&user_feed=true",
    ]
    for path in [view] + polls { #expect(world.ask(path).text("code") == "not_synced", "\(path)") }
    let cache = world.cache
    world.syncRequests.tell {
      $0.onFind = { url, user in
        let record = CollectionWorld.channel(url.text, floor: 0, name: "General", last: nil)
        // A failure leaves the channel unknown, and the test fails below.
        _ = try? cache.write { _ = try $0.store([record], of: user, .refresh(.channelRefresh)) }
        return .success(true)
      }
    }
    for path in polls.map({ $0 + ($0.contains("?") ? "&" : "?") + "wait=0" }) + [view] {
      try world.cache.write { try $0.clearAll(withUnsent: false) }
      #expect(world.ask(path).status == 200, "\(path)")
    }
    world.syncRequests.tell { $0.onFind = { _, _ in .success(false) } }
    try world.cache.write { try $0.clearAll(withUnsent: false) }
    for path in [view] + polls { #expect(world.ask(path).text("code") == "channel_not_found", "\(path)") }
  }

  @Test("B58: a request whose channel is cleared before its commit is told to ask again: it is no 404")
  func clearedMeanwhile() throws {
    let world = try world()
    defer { world.stop() }
    let busy = Watched(true)
    defer { busy.update { $0 = false } }
    let cache = world.cache
    for (path, body) in [
      ("/v1/message-collections", Self.body), ("/v1/channels/general/messages", #"{"message":"hi"}"#),
    ] {
      try world.join("alice", "general", name: "General")
      busy.update { $0 = true }
      hold(cache, while: busy)
      submit(cache) { try $0.clearAll(withUnsent: false) }
      let asked = world.held(
        path, headers: Self.headers.merging(["Prefer": "wait=0"]) { $1 }, method: "POST", body: body)
      try #require(until { world.server.counts.parked == 1 }, "it waits for its commit")
      busy.update { $0 = false }
      let answer = asked.answer()
      #expect(answer.status == 503 && answer.text("code") == "not_synced", "\(path)")
      #expect(answer["Retry-After"] != nil)
    }
    let sought = world.syncRequests.calls.contains { if case .find = $0 { true } else { false } }
    #expect(!sought, "the channel was there when the requests came")
  }

  @Test("B58: of two requests that begin a view anew, the later one changes nothing that is stored")
  func begunTwice() throws {
    let world = try world()
    defer { world.stop() }
    let name = world.post("/v1/message-collections", Self.body).text("id")
    try world.cache.write { try $0.clearAll(withUnsent: false) }
    try world.join("alice", "general", name: "General")
    try world.list([1, 2, 3], in: "general")
    let view = try world.collections.messages(name, of: UserID("alice"))
    let busy = Watched(true)
    defer { busy.update { $0 = false } }
    let left = Watched(2)
    let cache = world.cache
    hold(cache, while: busy)
    for isFirst in [true, false] {
      try world.collections.makeReady(view) { _ in left.update { $0 -= 1 } }
      guard isFirst else { continue }
      submit(cache) {
        try $0.setLoaded([7], of: name)
        try $0.answered(views: [name], in: ChannelURL("general"), failure: nil)
      }
    }
    busy.update { $0 = false }
    let end = Clock.system.monotonicNanoseconds() + UInt64(patience * 5e9)
    #expect(left.wait(until: end) { $0 == 0 ? true : nil } == true)
    let stored = try #require(try cache.read { try $0.collections() }.first { $0.id == name })
    #expect(stored.loaded == [7] && stored.owes == .nothing)
    #expect(stored.channel != nil)
  }

  @Test("B22, B58: views that were opened before everything was cleared go on after a restart")
  func clearedAndRestarted() throws {
    let world = try world()
    defer { world.stop() }
    let paths = ["/v1/message-collections", "/v1/channel-collections"].map {
      "\($0)/\(world.post($0, $0.contains("message") ? Self.body : "{}").text("id"))"
    }
    let cursors = paths.map { world.ask($0).text("cursor") }
    try world.cache.write { try $0.clearAll(withUnsent: false) }
    let before = world.syncRequests.calls.count
    for _ in 0..<2 { try world.restart() }
    let opened = world.syncRequests.calls.dropFirst(before).contains {
      if case .opened = $0 { true } else { false }
    }
    #expect(!opened, "the channel is not known yet")
    try world.join("alice", "general")
    for (path, cursor) in zip(paths, cursors) {
      #expect(world.ask("\(path)/events?since=\(cursor)&wait=0").status == 410, "\(path)")
      let again = world.ask(path)
      #expect(again.status == 200 && path.hasSuffix("/" + again.text("id")), "\(path)")
      #expect(world.ask("\(path)/events?since=\(again.text("cursor"))&wait=0").status == 200)
    }
    try world.restart()
    for path in paths { #expect(world.ask(path).status == 200, "\(path)") }
  }

  @Test("B54: an opening whose reading fails while it is held waits for nothing any more, and leaves no view")
  func readingFails() throws {
    let world = try world()
    defer { world.stop() }
    let opening = held(world)
    let id = try #require(opened(world))
    #expect(world.waitParked(1))
    try world.leave("alice", "general")
    #expect(opening.answer().text("code") == "channel_not_found")
    #expect(world.waitParked(0))
    #expect(world.ask("/v1/message-collections/\(id)").text("code") == "collection_not_found")
  }

  @Test("B54: an opening that cannot be held since too many wait is a 503, and nothing is opened")
  func full() throws {
    var settings = Collections.Settings()
    settings.parkedPerUser = 0
    let world = try world(settings)
    defer { world.stop() }
    let answer = held(world).answer()
    #expect(answer.status == 503 && answer["Retry-After"] != nil)
    #expect(try world.cache.read { try $0.collections() }.isEmpty)
  }

  @Test("B54: a client that leaves while its opening is held leaves no view")
  func hungUp() throws {
    let world = try world()
    defer { world.stop() }
    let socket = Loopback.connect(port: world.server.port)
    let head = Self.headers.map { "\($0.key): \($0.value)\r\n" }.joined()
    let text =
      "POST /v1/message-collections HTTP/1.1\r\nHost: x\r\n\(head)"
      + "Content-Length: \(Self.body.utf8.count)\r\n\r\n\(Self.body)"
    _ = send(socket, text, text.utf8.count, Int32(MSG_NOSIGNAL))
    let id = try #require(opened(world))
    #expect(world.waitParked(1))
    close(socket)
    #expect(world.waitParked(0))
    #expect(world.syncRequests.wait { if case .closed(id, _) = $0 { true } else { false } })
  }

  @Test("B22: a client that leaves while its list of channels is fetched leaves no view and no row")
  func listHungUp() throws {
    let world = try CollectionWorld()
    defer { world.stop() }
    try world.cache.write { _ = try $0.acknowledge(UserID("alice")) }
    world.syncRequests.tell { $0.isHolding = true }
    let socket = Loopback.connect(port: world.server.port)
    let text =
      "POST /v1/channel-collections HTTP/1.1\r\nHost: x\r\nPerch-User: alice\r\n"
      + "Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
    _ = send(socket, text, text.utf8.count, Int32(MSG_NOSIGNAL))
    try #require(world.syncRequests.wait { if case .fetchChannels = $0 { true } else { false } })
    try #require(until { world.server.counts.parked == 1 })
    close(socket)
    try #require(until { world.server.counts.parked == 0 })
    world.syncRequests.release()
    // The submitted commit comes, and another commit undoes it.
    usleep(300_000)
    #expect(until { (try? world.cache.read { try $0.collections().isEmpty }) ?? false })
  }

  private func until(_ condition: () -> Bool) -> Bool {
    let end = Clock.system.monotonicNanoseconds() + UInt64(patience * 5e9)
    while !condition() {
      guard Clock.system.monotonicNanoseconds() < end else { return false }
      usleep(1000)
    }
    return true
  }

  @Test(
    "B11: a channel collection opened while the first listing runs asks upstream first, at most three pages")
  func channelList() throws {
    let world = try CollectionWorld()
    defer { world.stop() }
    try world.cache.write { _ = try $0.acknowledge(UserID("alice")) }
    let pages = Guarded(0)
    world.syncRequests.tell {
      $0.onFetchChannels = { [cache = world.cache] user in
        let page = pages.withLock { pages in
          pages += 1
          return pages
        }
        do {
          try cache.write {
            let record = CollectionWorld.channel("page-\(page)", floor: 0, name: "", last: 1000 - Int64(page))
            _ = try $0.store([record], of: user, .refresh(.channelChanged))
          }
          return .stored
        } catch { return .failed(.failed(reason: "\(error)")) }
      }
    }
    let open = world.post("/v1/channel-collections", #"{"query":{"limit":1}}"#)
    #expect(open.status == 201 && open.body.contains("page-1") && open.body.contains(#""complete":false"#))
    #expect(pages.withLock { $0 } == 1)
    let path = "/v1/channel-collections/\(open.text("id"))"
    let more = world.post("\(path)/more", #"{"after":"\#(open.text("next"))"}"#)
    #expect(more.body.contains("page-2") && pages.withLock { $0 } == 2)
    let wide = world.post("/v1/channel-collections", #"{"query":{"limit":100}}"#)
    #expect(wide.status == 201 && pages.withLock { $0 } == 5, "no more than three pages for one request")
    let cached = world.ask(
      "/v1/channel-collections", method: "POST", body: "{}", extra: ["Cache-Control": "only-if-cached"])
    #expect(cached.status == 201 && pages.withLock { $0 } == 5)
    try world.cache.write { try $0.endListing(of: UserID("alice")) }
    #expect(world.post("/v1/channel-collections", "{}").status == 201 && pages.withLock { $0 } == 5)
  }

  @Test("B22: of the views' times only those are written down that changed")
  func accessTimes() throws {
    let wall = Atomic<Int64>(1_800_000_000_000)
    let clock = Clock(
      wallMilliseconds: { wall.load(ordering: .relaxed) },
      monotonicNanoseconds: { Clock.system.monotonicNanoseconds() })
    let world = try CollectionWorld(clock: clock)
    defer { world.stop() }
    try world.join("alice", "general", name: "General")
    let ids = (0..<4).map { _ in world.post("/v1/message-collections", Self.body).text("id") }
    let other = try Connection(path: world.directory + "/perch.db", mode: .readWrite)
    try other.execute(
      """
      CREATE TABLE written (id TEXT NOT NULL) STRICT;
      CREATE TRIGGER written AFTER UPDATE ON collection
      BEGIN INSERT INTO written VALUES (new.id); END;
      """)
    func written() throws -> Set<String> {
      world.collections.disposeIdle()
      // Waits until the writes before this one are stored.
      try world.cache.write { _ in }
      let ids = try other.read { try $0.all("SELECT id FROM written") { $0.string(0) } }
      try other.execute("DELETE FROM written")
      return Set(ids)
    }
    _ = try written()
    let quiet = try written()
    #expect(quiet.isEmpty, "nobody asked for any: \(quiet)")
    wall.add(5_000, ordering: .relaxed)
    #expect(world.ask("/v1/message-collections/\(ids[2])").status == 200)
    let changed = try written()
    #expect(changed == [ids[2]], "\(changed)")
  }
}
