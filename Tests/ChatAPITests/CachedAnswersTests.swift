import ChatModel
import MicroHTTP
import Platform
import TestFolders
import Testing

@testable import ChatAPI
@testable import ChatCache

/// The promises of reading over HTTP beside the rows: tags, links, names of messages, limits.
@Suite struct CachedAnswersTests {
  private func world(_ channels: [String] = ["one", "two", "three"]) throws -> CollectionWorld {
    let world = try CollectionWorld()
    for (index, name) in channels.enumerated() {
      try world.join("alice", name, name: "named \(name)", last: Int64(100 - index))
    }
    return world
  }

  private func ask(
    _ world: CollectionWorld, _ path: String, tag: String? = nil, as user: String = "alice"
  ) -> Answer {
    var headers = ["Perch-User": user]
    headers["If-None-Match"] = tag
    return ChatAPITests.ask(world.server, path, headers: headers)
  }

  @Test("a list's tag holds until something of the user's own changes, and is told without reading a row")
  func listTags() throws {
    let world = try world()
    defer { world.stop() }
    try world.join("bob", "elsewhere")
    let first = ask(world, "/v1/channels")
    let tag = try #require(first["ETag"])
    #expect(first.status == 200 && ask(world, "/v1/channels", tag: tag).status == 304)
    #expect(ask(world, "/v1/channels", tag: tag)["ETag"] == tag)
    #expect(ask(world, "/v1/channels", tag: "\"x\", W/\(tag)").status == 304)
    try world.send(7, in: "elsewhere")
    #expect(ask(world, "/v1/channels", tag: tag).status == 304, "another's channel changes nothing")
    #expect(ask(world, "/v1/channels?limit=2", tag: tag).status == 200, "another query is another list")
    #expect(ask(world, "/v1/channels", tag: tag, as: "bob").status == 200)
    try world.send(8, in: "two")
    let second = ask(world, "/v1/channels", tag: tag)
    #expect(second.status == 200 && second["ETag"] != tag && second.body != first.body)
    let next = try #require(second["ETag"])
    try world.leave("alice", "three")
    #expect(ask(world, "/v1/channels", tag: next).status == 200)
    for bad in ["\"", "\"\"", "\"-.\"", "\(tag.dropLast())zzzzzzzzzzzz\"", "\(tag.dropLast())-1\""] {
      #expect(ask(world, "/v1/channels", tag: bad).status == 200, "\(bad)")
    }
  }

  @Test("B22: reading a page of its messages notes when a channel was used, also where the page is known")
  func pageStamps() throws {
    let world = try world()
    defer { world.stop() }
    try world.send(7, in: "two")
    func accessedAt() throws -> Int64? {
      try world.cache.storeAccess()
      return try world.cache.read { reader in
        try reader.cachedChannels(of: nil, by: .accessedAt, isDescending: true, limit: 1).first?.accessedAt
      }
    }
    #expect(try accessedAt() == 0)
    let page = ask(world, "/v1/channels/two/messages")
    let first = try #require(try accessedAt())
    #expect(page.status == 200 && first > 0)
    #expect(ask(world, "/v1/channels/two/messages", tag: page["ETag"]).status == 304)
    #expect(try accessedAt() ?? 0 >= first)
  }

  @Test("B55: readiness says while the cache is over its limit with nothing left that may go")
  func full() throws {
    let world = try world()
    defer { world.stop() }
    world.cache.usage.set(CacheLimit(exactly: 1))
    try world.cache.evict()
    #expect(ask(world, "/readyz").body.contains(#""cache_full""#))
    // Cached messages are served, and new ones are stored.
    try world.send(7, in: "two")
    #expect(ask(world, "/v1/channels/two/messages").status == 200)
    world.cache.usage.set(CacheLimit())
    try world.cache.evict()
    #expect(!ask(world, "/readyz").body.contains(#""cache_full""#))
  }

  @Test("more happened since than is looked through: the list is read again")
  func manyEvents() throws {
    let world = try world()
    defer { world.stop() }
    try world.join("bob", "elsewhere")
    let tag = try #require(ask(world, "/v1/channels")["ETag"])
    let rows = (1...ListTag.eventsLookedAt + 1).map { CollectionWorld.message($0, at: $0) }
    try world.cache.write { writer in
      for row in rows { try writer.store(row, in: ChannelURL("elsewhere"), .messageReceived) }
    }
    #expect(ask(world, "/v1/channels", tag: tag).status == 200)
  }

  @Test("a page's links keep its query but for where a page begins, whatever way their names are written")
  func links() throws {
    let world = try world()
    defer { world.stop() }
    let first = ask(world, "/v1/channels?limit=1&name_contains=named%20t&order=channel_name_alphabetical")
    let token = first.text("next")
    let link =
      "<?limit=1&name_contains=named%20t&order=channel_name_alphabetical&after=\(token)>; rel=\"next\""
    #expect(first["Link"] == link)
    let second = ask(world, "/v1/channels?limit=1&%61fter=\(ask(world, "/v1/channels?limit=1").text("next"))")
    #expect(second.status == 200 && second.text("next") != "")
    #expect(second["Link"] == "<?limit=1&after=\(second.text("next"))>; rel=\"next\"")
  }

  @Test("a page that was asked for with a long query has no links, and its body has the token")
  func leavesLinksOut() throws {
    let world = try world()
    defer { world.stop() }
    for values in [0, 5, 10, 15, 20] {
      let others = (0..<values).map { "\($0)-" + String(repeating: "u", count: 90) }
      let query = (["one", "two"] + others.dropLast(2)).joined(separator: ",")
      let path = "/v1/channels?limit=1&channel_urls=\(query)"
      let page = ask(world, path)
      #expect(page.status == 200 && page.text("next") != "", "\(path.utf8.count) bytes")
      #expect((page["Link"] != nil) == (query.utf8.count < 1_000), "\(path.utf8.count) bytes")
    }
  }

  @Test("a message of one's own is found by its request_id: unsent as it stands, then as what it became")
  func byRequest() throws {
    let world = try world()
    defer { world.stop() }
    try world.join("bob", "one")
    try world.list([1, 2], in: "one")
    let path = "/v1/channels/one/messages/request_id:draft-1"
    #expect(ask(world, path).text("code") == "message_not_found")
    let user = try #require(try world.cache.read { try $0.userKey(of: UserID("alice")) })
    let laneKey = OutboxLaneKey(user: user, channel: ChannelURL("one"))
    var request = UnsentRequest(
      requestID: try #require(RequestID("draft-1")), kind: .message,
      content: OutboxContent(
        params: Array(#"{"message":"soon"}"#.utf8),
        body: Array(#""request_id":"draft-1","message":"soon","type":"user""#.utf8)),
      contentHash: [1])
    request.lifetime = 60_000
    let wanted = request
    _ = try world.cache.accept { try $0.accept(wanted, in: laneKey) }
    let pending = ask(world, path)
    #expect(pending.status == 200 && pending.text("sending_status") == "pending")
    #expect(pending.text("params", "message") == "soon")
    #expect(ask(world, path, tag: pending["ETag"]).status == 304)
    #expect(ask(world, path, as: "bob").text("code") == "message_not_found", "it is alice's")
    #expect(ask(world, "/v1/channels/two/messages/request_id:draft-1").status == 404)
    _ = try world.cache.write { writer in
      try writer.changeLane(laneKey) { lane in
        let row = try #require(lane.rows.first)
        return lane.confirm(row.id, message: 2, now: 1)
      }
    }
    #expect(ask(world, path).text("message_id") == "2")
    #expect(ask(world, path, as: "bob").status == 404)
    #expect(ask(world, "/v1/channels/one/messages/request_id:").status == 404)
  }

  @Test("what differs by the caller says by which header: with names instead of tokens it is Perch-User")
  func vary() throws {
    let world = try world()
    defer { world.stop() }
    try world.list([1], in: "one")
    for path in [
      "/v1/channels", "/v1/channels/one", "/v1/channels/one/members", "/v1/channels/one/messages",
      "/v1/channels/one/messages/1", "/v1/channels/one/gaps", "/v1/unread", "/v1/cache", "/v1/cache/channels",
    ] {
      #expect(ask(world, path)["Vary"] == "Perch-User", "\(path)")
    }
  }

  @Test(
    "answers kept for many stay within their bytes: old ones go first, then all, and a huge one never comes")
  func sharedAnswers() {
    func answer(_ count: Int) -> SharedResponse {
      var body = ByteBuffer(capacity: count)
      for _ in 0..<count { body.append(0x20 as UInt8) }
      return SharedResponse(body: body)
    }
    let shared = SharedAnswers(mostAnswers: 3, mostBytes: 1000)
    let start = EventCursor(epoch: 1, run: 1, sequence: 0)
    shared.keep(answer(400), "a", since: start, head: 1)
    shared.keep(answer(400), "b", since: start, head: 2)
    shared.keep(answer(300), "c", since: start, head: 2)
    #expect(shared.bytes == 700 && shared.find("a", since: start, head: 1) == nil)
    #expect(shared.find("b", since: start, head: 2) != nil)
    shared.keep(answer(500), "d", since: start, head: 2)
    #expect(shared.bytes == 500 && shared.find("b", since: start, head: 2) == nil)
    shared.keep(answer(1001), "e", since: start, head: 3)
    #expect(shared.find("e", since: start, head: 3) == nil)
    shared.keep(answer(100), "d", since: start, head: 3)
    #expect(shared.bytes == 100, "an answer replaces its forerunner")
    for name in ["f", "g", "h"] { shared.keep(answer(1), name, since: start, head: 3) }
    #expect(shared.find("h", since: start, head: 3) != nil && shared.bytes == 1)
  }

  @Test("B1, B56: a user of whom nothing is cached is told nothing of what others have cached")
  func cacheOfUnknown() throws {
    let keyring = try Keyring(file: SecretFile(inDataDirectory: TestFolder.make("secret")))
    let world = try CollectionWorld(gate: Gate(.tokens(keyring)))
    defer { world.stop() }
    try world.join("alice", "one")
    try world.list([1, 2], in: "one")
    func body(_ path: String, _ user: String) -> String {
      let expires = Clock.system.wallMilliseconds() / 1000 + 60
      let token = BearerToken(user: user, scopes: .chat, expires: expires)
      let headers = ["Authorization": "Bearer \(token.signed(with: keyring.now.secrets))"]
      return ChatAPITests.ask(world.server, path, headers: headers).body
    }
    #expect(body("/v1/cache", "alice").contains(#""channels":1,"messages":2,"unsent":0"#))
    #expect(body("/v1/cache", "zoe").contains(#""channels":0,"messages":0,"unsent":0"#))
    #expect(body("/v1/cache/channels", "zoe") == #"{"items":[]}"#)
  }

  @Test("B55, B56: the cache tells its limit and what goes first; a setting that cannot be granted is said")
  func cacheLimit() throws {
    let world = try world()
    defer { world.stop() }
    let body = ask(world, "/v1/cache").body
    #expect(body.contains(#""max_size_bytes":268435456"#))
    #expect(
      body.contains(
        #""clear_order":[{"field":"accessed_at","direction":"asc"},"#
          + #"{"field":"last_message_at","direction":"asc"}]"#))
    let custom = CacheLimit(bytes: 100 << 20, order: "cached_bytes:desc,accessed_at")
    #expect(custom.bytes == 100 << 20 && custom.warnings.isEmpty)
    #expect(custom.order == [.init(.bytes, isDescending: true), .init(.accessedAt)])
    let small = CacheLimit(bytes: 1, order: CacheLimit.accessOrder)
    #expect(small.bytes == 64 << 20 && small.warnings.count == 1)
    for order in ["", "custom", "size", "accessed_at:up", "accessed_at,accessed_at", "accessed_at,"] {
      let wrong = CacheLimit(bytes: 64 << 20, order: order)
      #expect(wrong.order == CacheLimit().order && wrong.warnings.count == 1, "\(order)")
    }
  }
}
