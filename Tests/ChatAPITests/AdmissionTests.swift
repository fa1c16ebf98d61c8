import ChatCache
import ChatModel
import MicroHTTP
import Platform
import TestSupport
import Testing

@testable import ChatAPI

/// Which users are answered, and what the answer is for unknown channels: over HTTP, with a scripted sync
/// worker.
@Suite(.timeLimit(.minutes(5))) struct AdmissionTests {
  private static let alice = UserID("alice")

  private func world() throws -> CollectionWorld {
    let world = try CollectionWorld()
    try world.join("alice", "general")
    return world
  }

  @Test("B2: whoever is not known waits for the upstream's word; its three outcomes, on every endpoint alike")
  func outcomes() throws {
    let world = try world()
    defer { world.stop() }
    let paths = ["/v1/connection", "/v1/unread", "/v1/channels", "/v1/channels/general", "/v1/cache"]
    world.syncRequests.tell { $0.admissions = [Self.alice: .undecided] }
    for path in paths { #expect(world.ask(path).status == 200, "\(path)") }
    let waits = world.syncRequests.calls.filter { if case .admit = $0 { true } else { false } }
    #expect(waits == paths.map { _ in .admit(Self.alice, within: RouteContext.firstWordMilliseconds) })
    for (error, status, code) in [
      (SyncError.userUnknown, 403, "user_unknown"),
      (.unreachable(.unreachable, retryAfter: 2500), 503, "upstream_unreachable"),
    ] {
      for isDecided in [false, true] {
        world.syncRequests.tell { script in
          script.admissions = [Self.alice: isDecided ? .refused(error) : .undecided]
          script.refusals = [Self.alice: error]
        }
        for path in paths {
          let answer = world.ask(path)
          #expect(answer.status == status && answer.text("code") == code, "\(path)")
          #expect(answer["Retry-After"] == (status == 503 ? "3" : nil))
        }
      }
    }
  }

  /// The last call of the worker, other than `seen`.
  private func asked(_ world: CollectionWorld) -> ScriptedSync.Call? {
    world.syncRequests.calls.last { if case .seen = $0 { false } else { true } }
  }

  @Test("B2: connecting waits only where the upstream's word is wanted, and tells an error beside the user")
  func connecting() throws {
    let world = try world()
    defer { world.stop() }
    #expect(world.ask("/v1/connection", method: "PUT").text("state") == "online")
    #expect(asked(world) == .connect(Self.alice, within: 0))
    let waited = ask(
      world.server, "/v1/connection", method: "PUT", headers: ["Perch-User": "alice", "Prefer": "wait=3"])
    #expect(waited["Preference-Applied"] == "wait=3")
    #expect(asked(world) == .connect(Self.alice, within: 3000))
    world.syncRequests.tell { script in
      let loss = SyncError.unreachable(.unreachable, retryAfter: 1000)
      script.connections = [Self.alice: UserConnection(Self.alice, .offline, error: loss, isSynced: true)]
    }
    let offline = world.ask("/v1/connection", method: "PUT")
    #expect(offline.status == 200 && offline.text("state") == "offline")
    #expect(offline.text("error", "code") == "upstream_unreachable")
    #expect(offline.text("error", "detail").contains("answers come from the cache"))
    world.syncRequests.tell { script in
      script.connections = [Self.alice: UserConnection(Self.alice, .stopped, error: .userUnknown)]
    }
    _ = world.ask("/v1/connection", method: "PUT")
    #expect(asked(world) == .connect(Self.alice, within: 5000), "B5: the upstream's word decides")
    _ = world.ask("/v1/connection", as: "nobody-yet", method: "PUT")
    #expect(asked(world) == .connect(UserID("nobody-yet"), within: 5000), "nothing is cached")
  }

  @Test("B4: disconnecting keeps the cache, clearing has it removed, and not with unsent messages unasked")
  func disconnecting() throws {
    let world = try world()
    defer { world.stop() }
    #expect(world.ask("/v1/connection", method: "DELETE").status == 204)
    #expect(world.ask("/v1/connection").text("state") == "stopped")
    #expect(world.ask("/v1/channels/general").status == 200, "the cache answers on")
    world.syncRequests.tell { $0.onForget = { _, isForced in .success(isForced ? 0 : 2) } }
    let refused = world.ask("/v1/connection?clear=true", method: "DELETE")
    #expect(refused.status == 409 && refused.text("code") == "unsent_messages")
    #expect(refused.body.contains(#""unsent":2"#))
    #expect(world.ask("/v1/connection?clear=true&force=true", method: "DELETE").status == 204)
    #expect(world.syncRequests.calls.last == .forget(Self.alice, isForced: true))
    #expect(world.ask("/v1/connection?force=yes", method: "DELETE").text("code") == "invalid_request")
  }

  @Test("B4: with a user's data the user's views go, also when the user comes back and all is cleared")
  func viewsOfTheForgotten() throws {
    let world = try world()
    defer { world.stop() }
    let message = world.post("/v1/message-collections", #"{"channel_url":"general"}"#).text("id")
    let list = world.post("/v1/channel-collections", "{}").text("id")
    try world.cache.accept { try $0.remove(Self.alice) }
    try world.join("alice", "general")
    let other = world.post("/v1/channel-collections", "{}").text("id")
    try world.cache.accept { try $0.clearAll(withUnsent: true) }
    try world.join("alice", "general")
    for path in ["/v1/message-collections/\(message)", "/v1/channel-collections/\(list)"] {
      for (method, tail) in [("GET", ""), ("GET", "/events?since=now"), ("DELETE", "")] {
        let answer = world.ask(path + tail, method: method)
        #expect(answer.text("code") == "collection_not_found", "\(method) \(path)")
      }
    }
    #expect([200, 404].contains(world.ask("/v1/channel-collections/\(other)").status))
  }

  @Test("a field that is null is of a wrong type")
  func nullFields() throws {
    let world = try world()
    defer { world.stop() }
    for field in ["previous_size", "include_reactions", "custom_types", "starting_point", "message_type"] {
      let body = #"{"channel_url":"general","\#(field)":null}"#
      let answer = world.post("/v1/message-collections", body)
      #expect(answer.status == 400 && answer.body.contains(#""field":"\#(field)""#))
    }
  }

  @Test("B1: an unknown channel is asked for upstream; what is not found is not there, as if it never were")
  func unknownChannel() throws {
    let world = try world()
    defer { world.stop() }
    for path in ["", "/members", "/messages", "/messages/1", "/gaps"] {
      #expect(world.ask("/v1/channels/secret\(path)").text("code") == "channel_not_found")
    }
    world.syncRequests.tell { $0.onFind = { _, _ in .failure(.notSynced(retryAfter: 1000)) } }
    let later = world.ask("/v1/channels/secret")
    #expect(later.status == 503 && later.text("code") == "not_synced" && later["Retry-After"] == "1")
    world.syncRequests.tell { script in
      script.onFind = { _, _ in .success(true) }
      script.isHolding = true
    }
    let came = Watched<Answer?>(nil)
    let thread = Thread("asks") { [server = world.server] in
      let answer = ask(server, "/v1/channels/found", headers: ["Perch-User": "alice"])
      came.update { $0 = answer }
    }
    #expect(world.syncRequests.wait { if case .find(ChannelURL("found"), _, _) = $0 { true } else { false } })
    try world.join("alice", "found")
    world.syncRequests.release()
    thread.join()
    #expect(came.read { $0 }?.text("channel_url") == "found")
    let long = String(repeating: "x", count: 101)
    #expect(world.ask("/v1/channels/\(long)").text("code") == "channel_not_found")
    #expect(!world.syncRequests.calls.contains(.find(ChannelURL(long), as: Self.alice, within: 5000)))
  }

  @Test("B28: a gap is filled and left on request; one that is gone is not found")
  func filling() throws {
    let world = try world()
    defer { world.stop() }
    let rows = [CollectionWorld.message(4, at: 40)]
    try world.cache.write { writer in
      try writer.store(
        [
          MessageListing(
            window: MessageWindow(.newest, older: 1, newer: 0), rows: rows, isWhole: true, askedAt: 0)
        ], in: ChannelURL("general"), ListingContext(source: .apiResult, generation: 1))
    }
    let gaps = world.ask("/v1/channels/general/gaps").body
    let id = try #require(gaps.firstMatch(of: #/"id":"([0-9]+)"/#)?.1)
    let path = "/v1/channels/general/gaps/\(id)/fill"
    #expect(world.post(path, "").status == 202)
    #expect(world.ask(path, method: "DELETE").status == 204)
    let number = try #require(Int64(id))
    #expect(world.syncRequests.calls.contains(.fill(number, ChannelURL("general"))))
    #expect(world.syncRequests.calls.contains(.stopFilling(number, ChannelURL("general"))))
    #expect(world.post("/v1/channels/general/gaps/999/fill", "").text("code") == "gap_not_found")
    try world.join("alice", "general", floor: 41)
    #expect(world.post(path, "").status == 404, "B23: below the floor there is no gap")
  }
}
