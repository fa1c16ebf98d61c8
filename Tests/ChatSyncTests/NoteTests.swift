import ChatModel
import Platform
import TestFolders
import Testing

@testable import ChatCache
@testable import ChatSync

/// Webhook notes over a real cache: each stays until the upstream was asked about it (B34), and none costs a
/// request per member.
@Suite(.timeLimit(.minutes(2)), .serialized)
struct NoteTests {
  /// A worker over real sockets and a real cache.
  private final class Noted {
    let server = WireServer()
    let cache: Cache
    var worker: SyncWorker
    private let client = HTTPClient()
    private let pace: Pace
    static let url = ChannelURL("c0")

    init(pace: Pace = World.pace) throws {
      self.pace = pace
      cache = try Cache(Cache.Configuration(directory: TestFolder.make("notes") + "/data"))
      worker = Noted.worker(server, client, cache, pace)
    }

    private static func worker(
      _ server: WireServer, _ client: HTTPClient, _ cache: Cache, _ pace: Pace
    ) -> SyncWorker {
      SyncWorker(
        upstream: SendbirdUpstream(.init(base: server.base, token: "t"), client: client),
        store: CacheStore(cache), pace: pace, seed: 1)
    }

    func restart() async throws {
      await worker.stop()
      worker = Noted.worker(server, client, cache, pace)
      try await worker.start()
    }

    func connect(_ names: [String]) async throws {
      try await worker.start()
      for name in names { await worker.connect(UserID(name)) }
      let cache = cache
      // If reading fails, wait on.
      #expect(
        await World.wait(seconds: 20) {
          names.allSatisfy { name in (try? cache.read { try $0.isSynced(name) }) == true }
        })
    }

    /// A channel of alice's, whose five messages are all stored.
    static func ofFiveMessages() async throws -> Noted {
      let world = try Noted()
      world.server.fake.join(UserID("alice"), url)
      for number in 0..<5 { world.server.fake.send(url, "m\(number)") }
      try await world.connect(["alice"])
      // If reading fails, wait on.
      #expect(await World.wait { (try? world.cache.read { try $0.storedMessages() }) == 5 })
      return world
    }

    func deliver(_ category: String, _ more: String = "") async {
      let body = #"{"category":"group_channel:\#(category)","channel":{"channel_url":"c0"}\#(more)}"#
      _ = await worker.takeWebhook(Array(body.utf8))
    }

    var notes: [Webhook.Note.Kind]? { try? cache.read { try $0.webhookNotes().map(\.kind) } }

    var noted: Int { (try? cache.read { try $0.webhookNotes().count }) ?? -1 }

    func isIn(_ name: String) -> Bool {
      // If reading fails, wait on.
      (try? cache.read { try $0.connectedMembers(of: Self.url).contains(UserID(name)) }) ?? false
    }

    /// Whether the user has a membership, connected or not.
    func mayRead(_ name: String) -> Bool {
      do { return try cache.view(of: Self.url, for: UserID(name)) != nil } catch { return true }
    }

    func stop() async {
      await worker.stop()
      client.close()
      server.raw.close()
      cache.close()
    }
  }

  private static let limited = RawServer.Answer.text(
    "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 0\r\nContent-Length: 0\r\n\r\n")

  @Test("B34: a join note outlives a 429 and a restart, and the user it names comes in")
  func join() async throws {
    let world = try Noted()
    world.server.fake.join(UserID("alice"), Noted.url)
    world.server.fake.join(UserID("bob"), ChannelURL("c9"))
    try await world.connect(["alice", "bob"])
    world.server.garble.withLock {
      $0 = { $0.contains("/group_channels/c0?") || $0.contains("my_group_channels") ? Self.limited : nil }
    }
    // By now the earlier requests have their answers.
    try await Task.sleep(for: .milliseconds(100))
    world.server.fake.join(UserID("bob"), Noted.url)
    await world.deliver("join", #","users":[{"user_id":"bob"}]"#)
    try await Task.sleep(for: .milliseconds(300))
    #expect(world.noted == 1 && !world.isIn("bob"))
    try await world.restart()
    try await Task.sleep(for: .milliseconds(300))
    #expect(world.noted == 1 && !world.isIn("bob"))
    world.server.garble.withLock { $0 = { $0.contains("my_group_channels") ? Self.limited : nil } }
    #expect(await World.wait { world.isIn("bob") && world.noted == 0 })
    await world.stop()
  }

  @Test("B1 B34: a webhook ends what a user who left may read, though no answer says it and no poll comes")
  func leave() async throws {
    let world = try Noted()
    for name in ["alice", "bob"] { world.server.fake.join(UserID(name), Noted.url) }
    try await world.connect(["alice", "bob"])
    world.server.garble.withLock { $0 = { $0.contains("my_group_channels") ? Self.limited : nil } }
    world.server.fake.join(UserID("bob"), Noted.url, leaves: true)
    await world.deliver("leave", #","users":[{"user_id":"bob"}]"#)
    #expect(await World.wait { !world.isIn("bob") && world.noted == 0 })
    #expect(world.isIn("alice"))
    await world.stop()
  }

  @Test("B4 B34: a webhook ends what a disconnected user who left may read; one refusal holds no others")
  func leaveOfDisconnected() async throws {
    let world = try Noted()
    for name in ["alice", "bob", "carol"] { world.server.fake.join(UserID(name), Noted.url) }
    try await world.connect(["alice", "bob", "carol"])
    try await world.worker.disconnect(UserID("bob"))
    let refusal = #"{"error":true,"code":400301,"message":""}"#
    let refused = RawServer.Answer.text(
      "HTTP/1.1 400 Bad Request\r\nContent-Length: \(refusal.utf8.count)\r\n\r\n\(refusal)")
    world.server.garble.withLock {
      $0 = {
        if $0.contains("my_group_channels") { return Self.limited }
        return $0.contains("/group_channels/c0?") && $0.contains("user_id=alice") ? refused : nil
      }
    }
    for name in ["bob", "carol"] { world.server.fake.join(UserID(name), Noted.url, leaves: true) }
    await world.deliver(
      "leave", #","users":[{"user_id":"alice"},{"user_id":"bob"},{"user_id":"carol"}]"#)
    #expect(await World.wait { !world.isIn("carol") && !world.mayRead("bob") })
    #expect(world.isIn("alice") && world.noted == 1, "it is asked for again as alice")
    await world.stop()
  }

  @Test("B34: who declines an invitation is named by `invitee`, alone")
  func declined() throws {
    let body =
      #"{"category":"group_channel:decline_invite","channel":{"channel_url":"c0"},"#
      + #""inviter":{"user_id":"alice"},"invitee":{"user_id":"eve"}}"#
    let notes = try Array(body.utf8).withUnsafeBytes { try Webhook.notes($0) }
    #expect(notes.map(\.users) == [[UserID("eve")]])
  }

  @Test("B34: what is noted again while it is looked into stays noted")
  func again() async throws {
    let cache = try Cache(Cache.Configuration(directory: TestFolder.make("notes") + "/data"))
    defer { cache.close() }
    func joined(_ user: String) -> Webhook.Note {
      Webhook.Note(kind: .channel, channel: Noted.url, source: .memberJoined, users: [UserID(user)])
    }
    let (first, second) = (joined("bob"), joined("carol"))
    try cache.accept { try $0.note([first]) }
    let read = try #require(try cache.read { try $0.webhookNotes() }.first)
    try cache.accept { try $0.note([second]) }
    try await CacheStore(cache).settled(read)
    let left = try cache.read { try $0.webhookNotes() }
    #expect(left.map(\.users) == [[UserID("bob"), UserID("carol")]])
  }

  @Test("B34: a new message that a webhook named is asked for by its id where the listing lacks it")
  func lagging() async throws {
    let world = try await Noted.ofFiveMessages()
    let listed = world.server.fake.state.withLock { $0.channels[Noted.url]!.messages }.map {
      #"{"message_id":\#($0.id),"type":"MESG","message":"","user":{"user_id":"x"},"created_at":\#($0.at)}"#
    }
    let old = RawServer.ok("{\"messages\":[\(listed.joined(separator: ","))]}")
    world.server.garble.withLock {
      $0 = { $0.contains("/messages?") ? old : $0.contains("my_group_channels") ? Self.limited : nil }
    }
    world.server.fake.send(Noted.url, "new")
    let id = world.server.fake.state.withLock { $0.channels[Noted.url]!.messages.last!.id }
    await world.deliver("message_send", #","payload":{"message_id":\#(id)}"#)
    #expect(await World.wait { (try? world.cache.read { try $0.storedMessages() }) == 6 })
    #expect(await World.wait { world.noted == 0 })
    await world.stop()
  }

  @Test(
    "B34: the new messages of a channel that nobody has open are four notes at most where listings have replies",
    arguments: [true, false])
  func summed(haveReplies: Bool) async throws {
    let world = try Noted()
    try world.cache.write { try $0.learn(.replyListing, isOffered: haveReplies) }
    world.server.fake.join(UserID("alice"), Noted.url)
    try await world.connect(["alice"])
    world.server.garble.withLock {
      $0 = { $0.contains("/messages") || $0.contains("my_group_channels") ? Self.limited : nil }
    }
    for number in 0..<20 {
      world.server.fake.send(Noted.url, "new \(number)")
      let id = world.server.fake.state.withLock { $0.channels[Noted.url]!.messages.last!.id }
      await world.deliver("message_send", #","payload":{"message_id":\#(id)}"#)
    }
    #expect(world.noted == (haveReplies ? 4 : 20))
    world.server.garble.withLock { $0 = { $0.contains("my_group_channels") ? Self.limited : nil } }
    #expect(await World.wait { (try? world.cache.read { try $0.storedMessages() }) == 20 })
    #expect(await World.wait { world.noted == 0 })
    await world.stop()
  }

  @Test("B16: a message that is sent while a new view's newest page is listed is joined to that page at once")
  func sentMeanwhile() async throws {
    var pace = World.pace
    pace.openPoll = 600_000
    pace.prefetchMessages = 0
    let world = try Noted(pace: pace)
    let (server, cache) = (world.server, world.cache)
    server.fake.join(UserID("alice"), Noted.url)
    for number in 0..<2 { server.fake.send(Noted.url, "m\(number)") }
    let (refusals, asked) = (Guarded(0), Guarded<[String]>([]))
    server.garble.withLock {
      $0 = { target in
        guard target.contains("/messages") else { return nil }
        refusals.withLock { $0 += 1 }
        return Self.limited
      }
    }
    try await world.connect(["alice"])
    await world.worker.open(OpenView(id: "v", channel: Noted.url, isAtNewest: true), isNew: true)
    // The check that is answered next began after the view was opened.
    let before = refusals.withLock { $0 }
    #expect(await World.wait { refusals.withLock { $0 } > before + 1 })
    server.garble.withLock {
      $0 = { target in
        if target.contains("my_group_channels") { return Self.limited }
        guard target.contains("/messages") else { return nil }
        let isFirst = asked.withLock { asked in
          asked.append(target)
          return asked.count == 1
        }
        guard isFirst else { return nil }
        @Sendable func all() -> [MessageRecord] {
          server.fake.state.withLock { $0.channels[Noted.url]!.messages.map(FakeUpstream.record) }
        }
        let listed = all().map(WireServer.json)
        server.fake.send(Noted.url, "sent meanwhile")
        do {
          try cache.write {
            _ = try $0.store(all()[2], in: Noted.url, .messageSent, askedAt: 0)
          }
        } catch { Issue.record(error) }
        return RawServer.ok("{\"messages\":[\(listed.joined(separator: ","))]}")
      }
    }
    // If reading fails, wait on.
    #expect(await World.wait { (try? cache.read { try $0.line(of: Noted.url)?.rows }) == 3 })
    // The next check would begin with the changelog.
    let targets = asked.withLock { $0 }
    #expect(targets.prefix(2).allSatisfy { $0.contains("/messages?") }, "\(targets)")
    await world.stop()
  }

  @Test("B11: after a list of channels that came empty the user is polled at once, which brings the channels")
  func emptyList() async throws {
    var pace = World.pace
    pace.userPoll = 600_000
    let world = try Noted(pace: pace)
    try world.cache.write { try $0.learn(.channelChangelog, isOffered: true) }
    world.server.fake.join(UserID("alice"), Noted.url)
    world.server.garble.withLock {
      $0 = { $0.contains("/my_group_channels?") ? RawServer.ok("{\"channels\":[],\"next\":\"\"}") : nil }
    }
    try await world.connect(["alice"])
    #expect(await World.wait { world.isIn("alice") })
    await world.stop()
  }

  @Test("B27: in a channel without messages no message is asked for")
  func emptyChannel() async throws {
    let world = try Noted()
    let asked = Guarded<[String]>([])
    world.server.garble.withLock {
      $0 = { path in
        asked.withLock { $0.append(path) }
        return nil
      }
    }
    world.server.fake.join(UserID("alice"), Noted.url)
    try await world.connect(["alice"])
    #expect(await World.wait { asked.withLock { $0.contains { $0.contains("/c0/messages?") } } })
    #expect(await World.wait { await world.worker.plan.channels[Noted.url]?.isPrefetched == true })
    let single = asked.withLock { $0.filter { $0.contains("/messages/0") } }
    #expect(single.isEmpty, "\(single)")
    await world.stop()
  }

  @Test(
    "B34, B35: a new message that is refused or cannot be read by its id holds up neither its channel nor others",
    arguments: [
      #"HTTP/1.1 400 Bad Request\r\nContent-Length: 52\r\n\r\n{"error":true,"code":400108,"message":"no permission"}"#,
      "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
    ])
  func refusedMessage(answer: String) async throws {
    let refusal = RawServer.Answer.text(answer.replacing(#"\r\n"#, with: "\r\n"))
    let world = try await Noted.ofFiveMessages()
    world.server.garble.withLock { $0 = { $0.contains("/messages/999999") ? refusal : nil } }
    await world.deliver("message_send", #","payload":{"message_id":999999}"#)
    #expect(await World.wait { world.notes == [.message] }, "it waits by itself")
    for number in 0..<3 {
      world.server.fake.send(Noted.url, "later \(number)")
      let id = world.server.fake.state.withLock { $0.channels[Noted.url]!.messages.last!.id }
      await world.deliver("message_send", #","payload":{"message_id":\#(id)}"#)
      #expect(await World.wait { (try? world.cache.read { try $0.storedMessages() }) == 6 + Int64(number) })
    }
    await world.stop()
  }

  @Test("B33, B34: in a channel whose messages were all evicted, the note of a new message is settled, too")
  func evicted() async throws {
    let world = try await Noted.ofFiveMessages()
    #expect(await World.wait { await world.worker.plan.channels[Noted.url]?.isPrefetched == true })
    // Only the webhook tells of the new message.
    world.server.garble.withLock {
      $0 = { $0.contains("my_group_channels") || $0.contains("/group_channels/c0?") ? Self.limited : nil }
    }
    world.cache.usage.set(CacheLimit(exactly: 1))
    try world.cache.evict()
    world.cache.usage.set(CacheLimit(exactly: 1 << 30))
    #expect(try world.cache.read { try $0.line(of: Noted.url) }?.evictedEnd != nil)
    world.server.fake.send(Noted.url, "new")
    let id = world.server.fake.state.withLock { $0.channels[Noted.url]!.messages.last!.id }
    await world.deliver("message_send", #","payload":{"message_id":\#(id)}"#)
    #expect(await World.wait { (try? world.cache.read { try $0.unknown([id], in: Noted.url) }) == [] })
    #expect(await World.wait { world.noted == 0 })
    await world.stop()
  }

  @Test("B34: a read note does not replace a join note that waits")
  func joinThenRead() throws {
    let cache = try Cache(Cache.Configuration(directory: TestFolder.make("notes") + "/data"))
    defer { cache.close() }
    for source in [ChangeSource.memberJoined, .read] {
      try cache.accept {
        try $0.note([
          Webhook.Note(kind: .channel, channel: Noted.url, source: source, users: [UserID("bob")])
        ])
      }
    }
    #expect(try cache.read { try $0.webhookNotes() }.map(\.source) == [.memberJoined, .read])
  }

  @Test("B34: a note is settled although members read on while it is looked into; the reads stay noted")
  func readMeanwhile() async throws {
    let cache = try Cache(Cache.Configuration(directory: TestFolder.make("notes") + "/data"))
    defer { cache.close() }
    func note(_ source: ChangeSource, _ users: [UserID] = []) throws {
      try cache.accept {
        try $0.note([Webhook.Note(kind: .channel, channel: Noted.url, source: source, users: users)])
      }
    }
    try note(.memberJoined, [UserID("bob")])
    try note(.read)
    let notes = try cache.read { try $0.webhookNotes() }
    try note(.read, [UserID("carol")])
    for one in notes { try await CacheStore(cache).settled(one) }
    let left = try cache.read { try $0.webhookNotes() }
    #expect(left.map(\.source) == [.read] && left.map(\.users) == [[UserID("carol")]])
  }

  @Test("B34: a note about one reader or a changed name costs a request, not one per member")
  func cost() async throws {
    let world = try Noted()
    let names = (0..<30).map { "u\($0)" }
    for name in names { world.server.fake.join(UserID(name), Noted.url) }
    try await world.connect(names)
    for (category, more) in [
      ("message_read", #","read_updates":[{"user_id":"u3","read_ts":5}]"#), ("changed", ""),
    ] {
      let before = world.server.raw.requests.withLock { $0.count { $0.contains("/group_channels/c0?") } }
      await world.deliver(category, more)
      #expect(await World.wait { world.noted == 0 })
      let asked = world.server.raw.requests.withLock { $0.filter { $0.contains("/group_channels/c0?") } }
      #expect(asked.count - before == 1, "\(category)")
      if category == "message_read" { #expect(asked.last?.contains("user_id=u3") == true) }
    }
    await world.stop()
  }
}

extension CacheReader {
  /// Whether all channels of the user have been listed.
  fileprivate func isSynced(_ name: String) throws -> Bool {
    try knownUsers().contains { $0.id == UserID(name) && $0.isSynced }
  }
}
