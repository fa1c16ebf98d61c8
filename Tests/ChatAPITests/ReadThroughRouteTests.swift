import ChatCache
import ChatModel
import MicroHTTP
import Platform
import TestSupport
import Testing

@testable import ChatAPI

/// Pages of messages that are fetched if they are missing, within a bounded wait (B15): over HTTP, with a
/// scripted sync worker.
@Suite(.timeLimit(.minutes(5))) struct ReadThroughRouteTests {
  private static let url = ChannelURL("general")
  private static let path = "/v1/channels/general/messages"

  /// Messages 4 to 6 are covered up to the newest end. The page was cut at message 3, so that its millisecond
  /// is not covered (B24); older messages were never listed.
  private func world() throws -> CollectionWorld {
    let world = try CollectionWorld()
    try world.join("alice", "general")
    try Self.store(MessageWindow(.newest, older: 4, newer: 0), [3, 4, 5, 6], in: world.cache)
    return world
  }

  private static func store(_ window: MessageWindow, _ ids: [Int64], in cache: Cache) throws {
    let rows = ids.map { CollectionWorld.message($0, at: $0 * 10) }
    let listing = MessageListing(window: window, rows: rows, isWhole: true, askedAt: cache.cursor.sequence)
    try cache.write {
      try $0.store([listing], in: url, ListingContext(source: .apiResult, generation: 1))
    }
  }

  /// An upstream that also has 1 to 3, and no older messages.
  private static func hasOlder(_ cache: Cache) -> @Sendable (MessageSyncRequest) -> SyncOutcome {
    { wanted in
      guard case .older(let position, let rows) = wanted.stretch else {
        return .failed(.failed(reason: "odd"))
      }
      let anchor: MessageWindow.Anchor =
        position.messageID == .min ? .time(position.createdAt) : .message(position)
      let window = MessageWindow(anchor, older: rows, newer: 0, includesAnchor: false)
      let older = [1, 2, 3].filter { Position(createdAt: $0 * 10, messageID: $0) < position }
      do { try store(window, older, in: cache) } catch { return .failed(.storage(reason: "\(error)")) }
      return .stored
    }
  }

  private func page(
    _ world: CollectionWorld, _ query: String = "?limit=5", _ headers: [String: String] = [:]
  ) -> Answer {
    ask(
      world.server, Self.path + query, headers: headers.merging(["Perch-User": "alice"]) { one, _ in one })
  }

  private func ids(_ answer: Answer) -> [String] {
    answer.body.matches(of: #/"message_id":"([0-9]+)"/#).map { String($0.1) }
  }

  private func fetches(_ world: CollectionWorld) -> [MessageSyncRequest.Stretch] {
    world.syncRequests.calls.compactMap { if case .fetch(let wanted, _) = $0 { wanted.stretch } else { nil } }
  }

  @Test("B15: what is covered is answered from the cache, and nobody is asked")
  func hit() throws {
    let world = try world()
    defer { world.stop() }
    let answer = page(world, "?limit=2")
    #expect(answer.status == 200 && ids(answer) == ["5", "6"] && answer["Cache-Status"] == "perch; hit")
    #expect(answer.body.contains(#""complete":true"#) && fetches(world).isEmpty)
  }

  @Test("B14, B15: what is missing is fetched and stored first; has_previous is false only with proof")
  func miss() throws {
    let world = try world()
    defer { world.stop() }
    world.syncRequests.tell { $0.onFetch = Self.hasOlder(world.cache) }
    let answer = page(world, "?limit=50")
    #expect(ids(answer) == ["1", "2", "3", "4", "5", "6"])
    #expect(answer["Cache-Status"] == "perch; fwd=miss; stored")
    #expect(answer.body.contains(#""has_previous":false,"has_next":false,"complete":true,"gaps":[]"#))
    #expect(fetches(world).count == 2, "a short page proves nothing, an empty one that nothing is older")
    #expect(page(world, "?limit=50")["Cache-Status"] == "perch; hit", "the second finds it")
  }

  @Test("B14, B15: where it cannot be fetched the page ends at the gap and says so, and how it came about")
  func failing() throws {
    let world = try world()
    defer { world.stop() }
    let cases: [(SyncOutcome, String)] = [
      (.failed(.unreachable(.unreachable, retryAfter: 1000)), "perch; hit; detail=offline"),
      (.failed(.rejected(code: 400_201, message: "no")), "perch; fwd=partial"),
      (.late, "perch; fwd=partial"),
    ]
    for (outcome, status) in cases {
      world.syncRequests.tell { $0.onFetch = { _ in outcome } }
      let answer = page(world)
      #expect(answer.status == 200 && ids(answer) == ["4", "5", "6"])
      #expect(answer["Cache-Status"] == status, "\(outcome)")
      #expect(answer.body.contains(#""has_previous":true"#) && answer.body.contains(#""complete":false"#))
      #expect(answer.body.contains(#""reason":"never_loaded""#))
      let goesOn = outcome == .late
      #expect(answer.body.contains(#""previous":null"#) != goesOn)
      #expect((answer["Retry-After"] == nil) == goesOn)
    }
  }

  @Test("B14: a client that has the page of an outage gets the page with its edge when the link is back")
  func backAgain() throws {
    let world = try world()
    defer { world.stop() }
    world.syncRequests.tell { $0.link = LinkStatus(.offline(.unreachable), generation: 2) }
    let tag = try #require(page(world)["ETag"])
    world.syncRequests.tell { script in
      script.link = LinkStatus(.online, generation: 2)
      script.onFetch = { _ in .late }
    }
    let again = page(world, "?limit=5", ["If-None-Match": tag])
    #expect(again.status == 200 && again.body.contains(#""previous":"0"#))
  }

  @Test("B15: while the link is down a page that misses something is answered at once, and says so")
  func missingWhileOffline() throws {
    let world = try world()
    defer { world.stop() }
    world.syncRequests.tell {
      $0.link = LinkStatus(.offline(.unreachable), generation: 2, retryAfter: 2_100)
    }
    let answer = page(world)
    #expect(answer.status == 200 && ids(answer) == ["4", "5", "6"])
    #expect(answer["Cache-Status"] == "perch; hit; detail=offline")
    #expect(answer.body.contains(#""has_previous":true"#) && answer.body.contains(#""complete":false"#))
    #expect(fetches(world).isEmpty, "nobody is asked who cannot be reached")
    #expect(answer["Retry-After"] == "3" && answer["Link"] == nil)
    #expect(answer.body.contains(#""previous":null,"next":null"#), "no page would give more now")
    #expect(page(world, "?limit=2").body.contains(#""previous":"0"#), "what is cached is there to be read")
    let gone = SyncOutcome.failed(.unreachable(.unreachable, retryAfter: 1000))
    world.syncRequests.tell { $0.onFetch = { _ in gone } }
    #expect(page(world, "?limit=5", ["Cache-Control": "no-cache"])["Cache-Status"] == answer["Cache-Status"])
    #expect(fetches(world).count == 1, "a client that insists is heard")
  }

  @Test("B12: a page that begins within a gap leads back to its own anchor, and over no message again")
  func withinAGap() throws {
    let world = try world()
    defer { world.stop() }
    let headers = ["Cache-Control": "only-if-cached"]
    let anchor = Position(createdAt: 20, messageID: 2)
    let older = page(world, "?limit=5&before=\(anchor)", headers)
    #expect(older.status == 200 && ids(older) == [] && older.text("previous") == anchor.description)
    let newer = page(world, "?limit=5&after=\(anchor)", headers)
    #expect(newer.status == 200 && newer.text("next") == anchor.description)
    let around = page(world, "?limit=5&around=20", headers)
    let back = Position(around.text("previous"))
    #expect(back.map { $0.createdAt <= 20 } ?? true, "\(around.body)")
  }

  @Test("B15: a page that the client has is confirmed at once while the link is down, and says so")
  func knownWhileOffline() throws {
    let world = try world()
    defer { world.stop() }
    let gone = SyncOutcome.failed(.unreachable(.unreachable, retryAfter: 1000))
    world.syncRequests.tell { $0.onFetch = { _ in gone } }
    world.syncRequests.tell { $0.link = LinkStatus(.offline(.unreachable), generation: 2) }
    let tag = try #require(page(world)["ETag"])
    let asked = fetches(world).count
    let answer = page(world, "?limit=5", ["If-None-Match": tag])
    #expect(answer.status == 304 && answer["Cache-Status"] == "perch; hit; detail=offline")
    #expect(fetches(world).count == asked, "nobody is asked who cannot be reached")
    let insisted = page(world, "?limit=5", ["If-None-Match": tag, "Cache-Control": "no-cache"])
    #expect(insisted.status == 304 && fetches(world).count == asked + 1)
    #expect(page(world, "?limit=5", ["If-None-Match": "\"other\""]).status == 200)
  }

  @Test("B15: the wait is bounded, by Prefer where it names one, and says that it was")
  func bounded() throws {
    let world = try world()
    defer { world.stop() }
    world.syncRequests.tell { $0.isHolding = true }
    let began = Clock.system.monotonicNanoseconds()
    let answer = page(world, "?limit=5", ["Prefer": "respond-async, wait=1"])
    let seconds = Double(Clock.system.monotonicNanoseconds() - began) / 1e9
    #expect(answer.status == 200 && ids(answer) == ["4", "5", "6"] && (1..<5).contains(seconds))
    #expect(answer["Preference-Applied"] == "wait=1" && answer["Cache-Status"] == "perch; fwd=partial")
    let asked = world.syncRequests.calls.last { if case .fetch = $0 { true } else { false } }
    guard case .fetch(_, let within)? = asked else {
      Issue.record("nothing was asked")
      return
    }
    #expect((900...1000).contains(within))
    world.syncRequests.release()
  }

  @Test(
    "a preference that says nothing is not heeded, however it is written",
    arguments: [
      "", ";", ",", "=", ";;,=;", "wait", "wait=", "wait=;1", "wait=-1", "wait=x", ";wait=1", " , ;",
    ])
  func oddPreferences(header: String) throws {
    let world = try world()
    defer { world.stop() }
    let answer = page(world, "?limit=1", ["Prefer": header])
    #expect(answer.status == 200 && answer["Preference-Applied"] == nil)
  }

  @Test("B15: only-if-cached never asks; no-cache asks although all is covered")
  func cacheControl() throws {
    let world = try world()
    defer { world.stop() }
    #expect(ids(page(world, "?limit=5", ["Cache-Control": "only-if-cached"])) == ["4", "5", "6"])
    #expect(fetches(world).isEmpty)
    let fresh = page(world, "?limit=2", ["Cache-Control": "no-cache"])
    #expect(fresh["Cache-Status"] == "perch; fwd=miss; stored" && fetches(world).count == 1)
  }

  @Test("B15: at most three upstream pages are asked for one request")
  func share() throws {
    let world = try world()
    defer { world.stop() }
    #expect(page(world).status == 200)
    #expect(fetches(world).count == ChatModel.Limits.upstreamPagesPerRequest)
  }

  @Test("B15: a known tag never stands in the way of fresh data: what may be missing is fetched first")
  func tagOfTheStale() throws {
    let world = try world()
    defer { world.stop() }
    let tag = try #require(page(world, "?limit=2")["ETag"])
    #expect(page(world, "?limit=2", ["If-None-Match": tag]).status == 304 && fetches(world).isEmpty)
    world.syncRequests.tell { script in
      script.link = LinkStatus(.online, generation: 2)
      script.onFetch = { _ in .late }
    }
    let stale = page(world, "?limit=2", ["If-None-Match": tag])
    #expect(stale.status == 200 && stale.body.contains(#""state":"stale""#) && fetches(world) == [.newest])
    let same = page(world, "?limit=2", ["If-None-Match": try #require(stale["ETag"])])
    #expect(same.status == 304 && fetches(world).count == 2, "asked again, and nothing came")
  }

  @Test("B15: one message that is not here is fetched; B23: below the floor there is none")
  func one() throws {
    let world = try world()
    defer { world.stop() }
    world.syncRequests.tell { script in
      script.onFetch = { [cache = world.cache] wanted in
        guard case .message(let id) = wanted.stretch, id == 2 else { return .stored }
        let row = CollectionWorld.message(2, at: 20)
        do { _ = try cache.write { try $0.store(row, in: Self.url, .apiResult) } } catch { return .late }
        return .stored
      }
    }
    let found = page(world, "/2")
    #expect(found.status == 200 && found["Cache-Status"] == "perch; fwd=miss; stored")
    #expect(page(world, "/2")["Cache-Status"] == "perch; hit")
    #expect(page(world, "/1").text("code") == "message_not_found")
    #expect(page(world, "/9", ["Cache-Control": "only-if-cached"]).text("code") == "not_cached")
    let asked = fetches(world)
    try world.join("alice", "general", floor: 40)
    #expect(page(world, "/2").status == 404 && fetches(world).count == asked.count + 1)
  }

  @Test(
    "B15: only the upstream can say that there is no message: whoever cannot ask it is told to ask again",
    arguments: ["GET", "DELETE"])
  func oneThatIsNotTold(method: String) throws {
    let world = try world()
    defer { world.stop() }
    let outcomes: [(SyncOutcome, String)] = [
      (.failed(.notSynced(retryAfter: 1000)), "not_synced"), (.late, "upstream_failed"),
      (.failed(.unreachable(.unreachable, retryAfter: 1000)), "upstream_unreachable"),
      (.failed(.busy(retryAfter: 1000)), "busy"), (.failed(.failed(reason: "HTML")), "upstream_failed"),
      (.failed(.storage(reason: "full")), "storage_unavailable"),
      (.failed(.rejected(code: 400_201, message: "no")), "message_not_found"),
      (.stored, "message_not_found"),
    ]
    for (outcome, code) in outcomes {
      world.syncRequests.tell { $0.onFetch = { _ in outcome } }
      let answer = world.ask("/v1/channels/general/messages/99", method: method)
      #expect(answer.text("code") == code, "\(outcome)")
      #expect((answer.status == 503) == (answer["Retry-After"] != nil))
    }
    world.syncRequests.tell { $0.onFetch = { _ in .late } }
    let cached = page(world, "/5", ["Cache-Control": "no-cache"])
    #expect(cached.status == 200 && cached["Cache-Status"] == "perch; fwd=partial")
  }

  @Test(
    "B58: a message that was fetched, and cleared before the request sees it, is no message that is not there",
    arguments: ["GET", "DELETE"], [false, true])
  func oneThatIsClearedMeanwhile(method: String, clearsAll: Bool) throws {
    let world = try world()
    defer { world.stop() }
    world.syncRequests.tell { script in
      script.onFetch = { [cache = world.cache] _ in
        do {
          _ = try cache.write { try $0.store(CollectionWorld.message(2, at: 20), in: Self.url, .apiResult) }
          try cache.write { writer in
            if clearsAll { try writer.clearAll(withUnsent: false) } else { try writer.clear(Self.url) }
          }
        } catch { return .failed(.storage(reason: "\(error)")) }
        return .stored
      }
    }
    let answer = world.ask("/v1/channels/general/messages/2", method: method)
    #expect(answer.status == 503 && answer.text("code") == "not_synced" && answer["Retry-After"] != nil)
    guard !clearsAll else { return }
    world.syncRequests.tell { $0.onFetch = { _ in .stored } }
    #expect(world.ask("/v1/channels/general/messages/2", method: method).text("code") == "message_not_found")
  }

  @Test("B11: while the first sync runs, a page of channels is read through and not complete")
  func channels() throws {
    let world = try world()
    defer { world.stop() }
    try world.cache.write { try $0.acknowledge(UserID("bob")) }
    let first = ask(world.server, "/v1/channels", headers: ["Perch-User": "bob"])
    #expect(first.status == 200 && first.body.contains(#""complete":false"#))
    #expect(first["Cache-Status"] == "perch; fwd=miss; stored")
    let requests = world.syncRequests.calls.filter { if case .fetchChannels = $0 { true } else { false } }
    #expect(requests == [.fetchChannels(UserID("bob"), within: Preferences.readThroughMilliseconds)])
    try world.join("bob", "general")
    let later = ask(world.server, "/v1/channels?include_empty=true", headers: ["Perch-User": "bob"])
    #expect(later["Cache-Status"] == "perch; hit" && later.body.contains(#""complete":true"#))
  }
}
