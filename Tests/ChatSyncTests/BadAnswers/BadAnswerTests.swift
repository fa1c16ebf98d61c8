import ChatCache
import ChatModel
import Platform
import TestFolders
import Testing

@testable import ChatSync

/// Answers that cannot be decoded, over real sockets: which users they affect.
@Suite(.timeLimit(.minutes(5)), .serialized)
struct BadAnswerTests {
  /// A worker over real sockets, beside a store in memory.
  private final class Wired: Sendable {
    let server = WireServer()
    let store = MemoryStore()
    let worker: SyncWorker
    private let client: HTTPClient

    init() {
      var limits = HTTPClient.Configuration()
      limits.responseBytes = 1 << 20
      client = HTTPClient(limits)
      let upstream = SendbirdUpstream(.init(base: server.base, token: "t"), client: client)
      worker = SyncWorker(upstream: upstream, store: store, pace: World.pace, seed: 1)
    }

    func garble(_ body: @escaping @Sendable (String) -> RawServer.Answer?) {
      server.garble.withLock { $0 = body }
    }

    /// The states of the link that were told to all users.
    var linkChanges: [ChatSync.Link.State] { store.state.withLock { $0.links } }

    func isSynced(_ user: UserID) -> Bool { store.state.withLock { $0.users[user]?.isSynced ?? false } }

    /// Whether the store has all of the channel's newest messages.
    func agrees(_ url: ChannelURL) -> Bool { World.difference(server.fake, store, url, newest: 50) == nil }

    func stop() async {
      await worker.stop()
      client.close()
      server.raw.close()
    }
  }

  private static let garbage: [(name: String, answer: RawServer.Answer)] = [
    ("HTML", RawServer.ok("<html><body>Welcome</body></html>", headers: "Content-Type: text/html\r\n")),
    ("cut JSON", RawServer.ok(#"{"channels":[{"channel_url":"c0","na"#)),
    ("an array", RawServer.ok("[]")),
    ("a number", RawServer.ok("7")),
    ("another object", RawServer.ok(#"{"messages":[]}"#)),
    ("nothing", RawServer.ok("")),
    ("deep nesting", RawServer.ok(String(repeating: #"{"channels":["#, count: 40_000))),
    (
      "a number of two megabytes",
      RawServer.ok("{\"channels\":[" + String(repeating: "9", count: 2 << 20) + "]}")
    ),
    (
      "a number of half a megabyte",
      RawServer.ok("{\"channels\":[" + String(repeating: "9", count: 1 << 19) + "]}")
    ),
    ("two fields of one name", RawServer.ok(#"{"channels":7,"channels":[]}"#)),
    (
      "invalid UTF-8",
      .bytes(Array("HTTP/1.1 200 OK\r\nContent-Length: 15\r\n\r\n{\"channels\":\"".utf8) + [0xFF, 0xC0])
    ),
    ("a page that is not there", .text("HTTP/1.1 404 Not Found\r\nContent-Length: 6\r\n\r\n<html>")),
  ]

  @Test(
    "B35: one user's list that cannot be decoded changes the link never and keeps nobody else waiting",
    arguments: garbage.map(\.name))
  func oneUser(_ name: String) async throws {
    let answer = try #require(Self.garbage.first { $0.name == name }?.answer)
    let world = Wired()
    let (alice, bob, carol) = (UserID("alice"), UserID("bob"), UserID("carol"))
    let (shared, own) = (ChannelURL("c0"), ChannelURL("c1"))
    for user in [alice, carol] { world.server.fake.join(user, shared) }
    world.server.fake.join(bob, own)
    for number in 0..<5 { world.server.fake.send(shared, "m\(number)") }
    world.garble { $0.contains("/users/bob/my_group_channels") ? answer : nil }
    try await world.worker.start()
    for user in [bob, alice, carol] { await world.worker.connect(user) }
    await world.worker.open(OpenView(id: "v", channel: shared, isAtNewest: true), isNew: true)
    #expect(await World.wait { world.isSynced(alice) && world.isSynced(carol) && world.agrees(shared) })
    // Long enough for many of bob's requests to fail.
    for number in 0..<40 {
      world.server.fake.send(shared, "live \(number)")
      #expect(await World.wait { world.agrees(shared) }, "others stay live")
    }
    #expect(world.linkChanges == [.online], "the link came up once and stayed")
    #expect(!world.isSynced(bob))
    world.garble { _ in nil }
    #expect(await World.wait { world.isSynced(bob) }, "bob is served as soon as the answer is good")
    #expect(world.linkChanges == [.online])
    await world.stop()
  }

  @Test("B3: HTML on every path is the upstream's absence: offline, and online again when it is gone")
  func portal() async throws {
    let world = Wired()
    let (alice, url) = (UserID("alice"), ChannelURL("c0"))
    world.server.fake.join(alice, url)
    try await world.worker.start()
    await world.worker.connect(alice)
    #expect(await World.wait { world.isSynced(alice) })
    world.garble { _ in RawServer.ok("<html>log in</html>") }
    #expect(await World.wait { world.linkChanges.last == .offline(.unreachable) })
    world.garble { _ in nil }
    #expect(await World.wait { world.linkChanges.last == .online })
    await world.stop()
  }

  @Test("B3: 502 with HTML on every path takes the link down as before")
  func badGateway() async throws {
    let world = Wired()
    let alice = UserID("alice")
    world.server.fake.join(alice, ChannelURL("c0"))
    try await world.worker.start()
    await world.worker.connect(alice)
    #expect(await World.wait { world.isSynced(alice) })
    world.garble { _ in .text("HTTP/1.1 502 Bad Gateway\r\nContent-Length: 6\r\n\r\n<html>") }
    #expect(await World.wait { world.linkChanges.last == .offline(.unreachable) })
    await world.stop()
  }

  @Test("B35: a changelog of a channel that cannot be decoded does not keep its new messages away")
  func messageChangelog() async throws {
    let world = Wired()
    let (alice, url) = (UserID("alice"), ChannelURL("c0"))
    world.server.fake.join(alice, url)
    for number in 0..<5 { world.server.fake.send(url, "m\(number)") }
    try await world.worker.start()
    await world.worker.connect(alice)
    await world.worker.open(OpenView(id: "v", channel: url, isAtNewest: true), isNew: true)
    #expect(await World.wait { world.agrees(url) })
    world.garble { $0.contains("/messages/changelogs") ? RawServer.ok("<html>") : nil }
    world.server.fake.edit(url, 2, "edited")
    world.server.fake.send(url, "new")
    let newest = world.server.fake.state.withLock { $0.channels[url]!.messages.last!.id }
    #expect(await World.wait { world.store.state.withLock { $0.channels[url]?.rows[newest] != nil } })
    world.garble { _ in nil }
    #expect(await World.wait { world.agrees(url) }, "the edit is found when the changelog can be read again")
    #expect(world.linkChanges == [.online])
    await world.stop()
  }

  @Test("B35: a channel that cannot be read as one member sees it is refreshed for all the others")
  func refresh() async throws {
    let world = Wired()
    let (bob, url) = (UserID("bob"), ChannelURL("c0"))
    let others = (0..<7).map { UserID("u\($0)") }
    for user in others + [bob] { world.server.fake.join(user, url) }
    try await world.worker.start()
    for user in others + [bob] { await world.worker.connect(user) }
    #expect(await World.wait { (others + [bob]).allSatisfy { world.isSynced($0) } })
    world.garble {
      $0.contains("/group_channels/c0?") && $0.contains("user_id=bob") ? RawServer.ok("<p>") : nil
    }
    let webhook = #"{"category":"group_channel:remove","channel":{"channel_url":"c0"}}"#
    _ = await world.worker.takeWebhook(Array(webhook.utf8))
    // In any order, each user's request comes once before bob's comes again.
    func firstRound() -> [String] {
      var round: [String] = []
      for request in world.server.raw.requests.withLock({ $0 }) where request.contains("/group_channels/c0?")
      {
        guard let user = request.split(separator: "user_id=").last?.prefix(while: { $0 != " " }) else {
          continue
        }
        if user == "bob", round.contains("bob") { return round }
        round.append(String(user))
      }
      return []
    }
    #expect(await World.wait { !firstRound().isEmpty })
    #expect(Set(firstRound()) == Set((others + [bob]).map(\.text)))
    #expect(try world.store.webhookNotes().count == 1, "what bob could not be told stays noted")
    world.garble { _ in nil }
    #expect(await World.wait { (try? world.store.webhookNotes().isEmpty) ?? false })
    #expect(world.linkChanges == [.online])
    await world.stop()
  }

  @Test("B35: an entry of a channel changelog that cannot be read is asked for by its name")
  func channelChangelogEntry() async throws {
    let world = Wired()
    let (alice, url) = (UserID("alice"), ChannelURL("c1"))
    world.server.fake.join(alice, ChannelURL("c0"))
    try await world.worker.start()
    await world.worker.connect(alice)
    #expect(await World.wait { world.isSynced(alice) })
    let asked = Guarded(0)
    world.garble { target in
      if target.contains("/my_group_channels/changelogs") {
        // The first answer after the change gives the channel an invalid floor.
        return asked.withLock {
          $0 += 1; return $0 == 1
        } ? RawServer.ok(Self.badEntry) : nil
      }
      return nil
    }
    world.server.fake.state.withLock { $0.channels[url] = .init(members: [alice]) }
    #expect(
      await World.wait { world.store.state.withLock { $0.users[alice]?.channels[url] != nil } },
      "only asking for the channel itself finds it: no later entry names it")
    await world.stop()
  }

  @Test("B31, B35: an entry of a message changelog that cannot be read is noted before the token moves on")
  func messageChangelogEntry() async throws {
    let world = Wired()
    let (alice, url) = (UserID("alice"), ChannelURL("c0"))
    world.server.fake.join(alice, url)
    for number in 0..<150 { world.server.fake.send(url, "m\(number)") }
    try await world.worker.start()
    await world.worker.connect(alice)
    #expect(await World.wait { world.isSynced(alice) })
    await world.worker.open(OpenView(id: "v", channel: url, isAtNewest: true), isNew: true)
    #expect(await World.wait { World.difference(world.server.fake, world.store, url, newest: 150) == nil })
    // The message is far below the newest page, and in no later changelog: only a webhook note leads to it.
    let id = world.server.fake.state.withLock { state in
      state.clock += 1
      state.channels[url]!.messages[3].text = "changed"
      state.channels[url]!.messages[3].updatedAt = state.clock
      return state.channels[url]!.messages[3].id
    }
    let asked = Guarded(0)
    world.garble { target in
      guard target.contains("/messages/changelogs") else { return nil }
      let isFirst = asked.withLock {
        $0 += 1
        return $0 == 1
      }
      let entry =
        #"{"updated":[{"message_id":\#(id),"created_at":-5}],"deleted":[],"has_more":false,"next":""}"#
      return isFirst ? RawServer.ok(entry) : nil
    }
    #expect(await World.wait { World.difference(world.server.fake, world.store, url, newest: 150) == nil })
    #expect(world.linkChanges == [.online])
    await world.stop()
  }

  private static let badEntry =
    #"{"updated":[{"channel_url":"c1","member_state":"joined","ts_message_offset":"x"}],"deleted":[],"#
    + #""has_more":false,"next":""}"#

  @Test(
    "B24, B35: a page ends at a message that cannot be read, and is not called complete until it can be")
  func page() async throws {
    let cache = try Cache(Cache.Configuration(directory: TestFolder.make("bad-page") + "/data"))
    defer { cache.close() }
    let (alice, url) = (UserID("alice"), ChannelURL("c0"))
    let server = WireServer()
    server.fake.join(alice, url)
    for number in 0..<9 { server.fake.send(url, "m\(number)") }
    let client = HTTPClient()
    let worker = SyncWorker(
      upstream: SendbirdUpstream(.init(base: server.base, token: "t"), client: client),
      store: CacheStore(cache), pace: World.pace, seed: 1)
    let raw = server.raw
    let fake = server.fake
    // The fifth message has an invalid time in every list.
    let bad = fake.state.withLock { $0.channels[url]!.messages[4] }
    server.garble.withLock {
      $0 = { target in
        guard target.contains("/messages?") else { return nil }
        let rows = fake.state.withLock { $0.channels[url]!.messages }.map {
          #"{"message_id":\#($0.id),"type":"MESG","message":"\#($0.text)","user":{"user_id":"x"},"created_at":"#
            + ($0.id == bad.id ? "-5" : "\($0.at)") + "}"
        }
        return RawServer.ok("{\"messages\":[\(rows.joined(separator: ","))]}")
      }
    }
    try await worker.start()
    await worker.connect(alice)
    // If reading fails, wait on.
    #expect(await World.wait { (try? cache.read { try $0.line(of: url) != nil }) ?? false })
    await worker.open(OpenView(id: "v", channel: url, isAtNewest: true), isNew: true)
    func shown() throws -> (count: Int, isComplete: Bool) {
      try cache.read { reader in
        guard let user = try reader.cachedUser(alice), let view = try reader.view(of: url, for: user.key)
        else { return (0, true) }
        let query = MessagePageQuery()
        let link = LinkStatus(.online, generation: 1)
        let ground = try reader.ground(query.anchor, in: view, link: link, interval: 3_600_000, now: 0)
        let page = try reader.page(query, in: view, on: ground)
        return (page.count, page.gaps.isEmpty && !page.isUnverified)
      }
    }
    // If reading fails, wait on.
    #expect(await World.wait { (try? shown().count) == 4 }, "those after it are served")
    #expect(try !shown().isComplete, "nobody is told that these are all")
    let isStored = await World.wait { (try? cache.read { try $0.storedMessages() }) == 9 }
    #expect(isStored, "those before it are there, and it was asked for by its id")
    server.garble.withLock { $0 = { _ in nil } }
    // If reading fails, wait on.
    let isWhole = await World.wait { (try? shown()).map { $0.count == 9 && $0.isComplete } ?? false }
    let left = try shown()
    #expect(isWhole, "\(left)")
    await worker.stop()
    client.close()
    raw.close()
  }
}
