import ChatCollections
import ChatModel
import Glibc
import MicroHTTP
import Platform
import Synchronization
import TestSupport
import Testing

@testable import ChatAPI
@testable import ChatCache

/// Conditions on which rights depend, each in a request that no other condition refuses.
@Suite(.timeLimit(.minutes(5))) struct RightsTests {
  private static let secret = "0123456789abcdef0123456789abcdef"

  /// A service with tokens, and a clock that the test sets.
  private final class Tokens: Sendable {
    let now = Atomic<Int64>(Clock.system.wallMilliseconds())
    let secrets: SigningSecrets

    init() throws { secrets = try SigningSecrets(RightsTests.secret) }

    var clock: Clock {
      Clock(
        wallMilliseconds: { self.now.load(ordering: .relaxed) },
        monotonicNanoseconds: Clock.system.monotonicNanoseconds)
    }

    func world() throws -> CollectionWorld {
      let world = try CollectionWorld(gate: Gate(.tokens(Keyring(secrets)), clock: clock), clock: clock)
      for user in ["alice", "bob"] { try world.join(user, "general", name: "General") }
      try world.list([1, 2, 3, 4, 5], in: "general")
      return world
    }

    func headers(_ user: String, _ scopes: Scopes = .chat) -> [String: String] {
      let expires = now.load(ordering: .relaxed) / 1000 + 3600
      let token = BearerToken(user: user, scopes: scopes, expires: expires).signed(with: secrets)
      return ["Authorization": "Bearer \(token)", "Content-Type": "application/json"]
    }

    /// A ticket of alice's for the user feed.
    func ticket(_ world: CollectionWorld) -> String {
      ask(
        world.server, "/v1/events/ticket", method: "POST", headers: headers("alice"),
        body: #"{"path":"/v1/events"}"#
      ).text("ticket")
    }
  }

  /// A world in which bob is in the channel and alice is not yet.
  private func world() throws -> CollectionWorld {
    let world = try CollectionWorld()
    try world.join("bob", "general", name: "General")
    try world.list([1, 2, 3, 4, 5], in: "general")
    return world
  }

  /// Makes alice invited.
  private func invite(_ world: CollectionWorld) throws {
    var record = CollectionWorld.channel("general", floor: 0, name: "General", last: nil)
    record.membership?.state = .invited
    let invited = record
    try world.cache.write { writer in
      try writer.acknowledge(UserID("alice"))
      _ = try writer.store([invited], of: UserID("alice"), .refresh(.memberInvited))
      try writer.endListing(of: UserID("alice"))
    }
  }

  private func feed(_ world: CollectionWorld, _ cursor: String, as user: String = "alice") -> Answer {
    world.ask("/v1/events?since=\(cursor)&wait=0&user_feed=true", as: user)
  }

  @Test("B61: a token opens what its scope says, and nothing else")
  func scopes() throws {
    let tokens = try Tokens()
    let world = try tokens.world()
    defer { world.stop() }
    func status(_ path: String, _ scopes: Scopes) -> Int {
      ask(world.server, path, headers: tokens.headers("alice", scopes)).status
    }
    #expect(status("/v1/admin/users", .chat) == 403 && status("/v1/admin/users", .admin) == 200)
    #expect(status("/v1/channels", .admin) == 403 && status("/v1/channels", .chat) == 200)
  }

  @Test("B58, B61: an operator whose token names no chat user reads the cache's size and clears it")
  func operatorAlone() throws {
    let tokens = try Tokens()
    let world = try tokens.world()
    defer { world.stop() }
    world.syncRequests.tell { $0.admissions[UserID("operator")] = .refused(.userUnknown) }
    func status(_ path: String, _ scopes: Scopes, method: String = "GET") -> Int {
      ask(world.server, path, method: method, headers: tokens.headers("operator", scopes)).status
    }
    let paths = ["/v1/cache", "/v1/cache/channels", "/v1/cache/integrity"]
    for path in paths { #expect(status(path, .admin) == 200, "\(path)") }
    for path in paths { #expect(status(path, [.chat, .admin]) == 403, "\(path)") }
    #expect(status("/v1/cache", .chat) == 403 && status("/v1/cache", []) == 403)
    #expect(status("/v1/cache", [], method: "DELETE") == 403)
    #expect(status("/v1/cache", .chat, method: "DELETE") == 403)
    let epoch = world.cache.cursor.epoch
    #expect(status("/v1/cache", .admin, method: "DELETE") == 204 && world.cache.cursor.epoch != epoch)
  }

  @Test("B51, B61: whoever says who they are is not made another by a ticket")
  func ticketOfAnother() throws {
    let tokens = try Tokens()
    let world = try tokens.world()
    defer { world.stop() }
    let path = "/v1/events?since=now&wait=0&ticket=\(tokens.ticket(world))"
    #expect(ask(world.server, path, headers: tokens.headers("bob")).status == 401)
    #expect(ask(world.server, path, headers: tokens.headers("alice")).status == 200)
    #expect(ask(world.server, path).status == 200)
  }

  @Test("B51: a ticket is first used within a minute")
  func ticketInTime() throws {
    let tokens = try Tokens()
    let world = try tokens.world()
    defer { world.stop() }
    let late = tokens.ticket(world)
    tokens.now.add(1, ordering: .relaxed)
    let used = tokens.ticket(world)
    func status(_ ticket: String) -> Int {
      ask(world.server, "/v1/events?since=now&wait=0&ticket=\(ticket)").status
    }
    #expect(status(used) == 200)
    tokens.now.add(StreamTicket.firstUseMilliseconds + 1000, ordering: .relaxed)
    #expect(status(late) == 401)
    #expect(status(used) == 200, "it was used in time")
  }

  @Test("B1: whoever is invited reads no page, no message and no view, also where it was asked before")
  func invited() throws {
    let world = try world()
    defer { world.stop() }
    try invite(world)
    for _ in 0..<2 {
      for path in ["/v1/channels/general/messages", "/v1/channels/general/messages/3"] {
        let answer = world.ask(path)
        #expect(answer.status == 403 && answer.text("code") == "not_joined", "\(path)")
      }
      let view = world.post("/v1/message-collections", #"{"channel_url":"general"}"#)
      #expect(view.status == 403 && view.text("code") == "not_joined")
    }
    #expect(world.ask("/v1/channels/general").status == 200)
  }

  @Test("B1: a view of messages is told nothing more once its user is only invited")
  func invitedAgain() throws {
    let world = try world()
    defer { world.stop() }
    try world.join("alice", "general", name: "General")
    let view = world.post("/v1/message-collections", #"{"channel_url":"general"}"#)
    let path = "/v1/message-collections/\(view.text("id"))/events"
    try invite(world)
    let now = world.cache.cursor.description
    #expect(world.ask("\(path)?since=\(now)&wait=0").status == 404, "nothing new is no reason to answer")
    #expect(world.held("\(path)?since=\(now)&wait=20").answer().status == 404, "nor one to wait")
    try world.send(6, in: "general", text: "not for alice")
    for since in [now, view.text("cursor")] {
      #expect(!world.ask("\(path)?since=\(since)&wait=0").body.contains("not for alice"))
    }
  }

  @Test("B1, B22: another user's list of channels is there for nobody else, whatever is asked of it")
  func listOfAnother() throws {
    let world = try world()
    defer { world.stop() }
    try world.join("alice", "general", name: "General")
    let path = "/v1/channel-collections/\(world.post("/v1/channel-collections", "{}").text("id"))"
    #expect(world.ask(path, as: "bob").status == 404)
    #expect(world.ask("\(path)/events?since=now&wait=0", as: "bob").status == 404)
    #expect(world.post("\(path)/more", #"{"after":"x"}"#, as: "bob").status == 404)
    #expect(world.ask(path, as: "bob", method: "DELETE").status == 404)
    #expect(world.ask(path).status == 200)
  }

  @Test("B1, B50: the user feed tells no message of a channel that its user is only invited to")
  func feedOfInvited() throws {
    let world = try world()
    defer { world.stop() }
    try invite(world)
    let cursor = feed(world, "now").text("cursor")
    try world.send(6, in: "general", text: "not for alice")
    #expect(!feed(world, cursor).body.contains("message."))
    #expect(feed(world, cursor, as: "bob").events == ["message.received 6"])
  }

  @Test("B23, B50: the user feed tells neither messages nor deletions from before its user's history")
  func feedBelowFloor() throws {
    let world = try world()
    defer { world.stop() }
    try world.join("alice", "general", floor: 35, name: "General")
    let cursor = feed(world, "now").text("cursor")
    let old = CollectionWorld.message(2, at: 20, text: "old", updatedAt: 99)
    let new = CollectionWorld.message(4, at: 40, text: "new", updatedAt: 99)
    try world.cache.write {
      try $0.store(
        UpstreamChanges(updated: [old, new], deleted: [], hasMore: false, next: nil, unreadable: 0),
        in: ChannelURL("general"), .messageChangelog)
    }
    try world.delete(1, in: "general")
    try world.delete(5, in: "general")
    #expect(feed(world, cursor).events == ["message.changed 4", "message.deleted 5"])
    #expect(
      feed(world, cursor, as: "bob").events == [
        "message.changed 2 4", "message.deleted 1", "message.deleted 5",
      ])
  }

  @Test("B23, B50: the user feed tells no gap from before its user's history")
  func feedGapBelowFloor() throws {
    let world = try world()
    defer { world.stop() }
    try world.join("alice", "general", floor: 1015, name: "General")
    let cursor = feed(world, "now").text("cursor")
    try world.listAfterGap([100, 101, 102], missing: 5000, in: "general")
    #expect(feed(world, cursor, as: "bob").body.contains("gap"))
    let answer = feed(world, cursor)
    #expect(answer.status == 200 && !answer.body.contains("gap"))
  }

  @Test("B1, B23: an answer is shared only with who is in the channel, with the same floor and filters")
  func answerKey() throws {
    let world = try world()
    defer { world.stop() }
    let users = ["alice", "bob", "carol", "dave"]
    for user in users { try world.join(user, "general", floor: user == "dave" ? 25 : 0, name: "General") }
    let views = try users.map { user in
      let parts = user == "carol" ? #","include_reactions":true"# : ""
      let open = world.post("/v1/message-collections", #"{"channel_url":"general"\#(parts)}"#, as: user)
      return try world.collections.messages(open.text("id"), of: UserID(user))
    }
    let since = try users.indices.map { index in
      let path = "/v1/message-collections/\(views[index].id)"
      return try #require(EventCursor(world.ask(path, as: users[index]).text("cursor"))).sequence
    }
    #expect(Set(since).count == 1)
    try world.send(6, in: "general")
    let until = world.cache.cursor.sequence
    let viewContext = world.collections.viewContext(ChannelURL("general"))
    let found = try world.cache.read {
      try views[0].changes($0, since: since[0], until: until, viewContext).key
    }
    let key = try #require(found)
    func member(_ index: Int) throws -> PlainMember {
      try #require(try world.cache.plainMember(UserID(users[index]), in: views[index].url))
    }
    #expect(try !key.matches(views[1], member(3)), "another floor")
    #expect(try !key.matches(views[2], member(2)), "it shows reactions")
    #expect(try key.matches(views[1], member(1)))
  }

  @Test("B1: two users' answers have different tags, whatever else is the same")
  func tags() {
    let cursor = EventCursor(epoch: 1, run: 1, sequence: 1)
    #expect(EntityTag(cursor, UserKey(1)).text != EntityTag(cursor, UserKey(2)).text)
  }

  @Test("B1: a question that differs in its last letters alone is another question")
  func lastLetters() throws {
    let world = try world()
    defer { world.stop() }
    try world.join("us1", "general", name: "General")
    let socket = Loopback.connect(port: world.server.port)
    defer { close(socket) }
    // A remembered answer is found by the head's whole words of eight bytes; the user's number comes after
    // them.
    func answer(_ user: String, _ tag: String) -> Answer {
      let start =
        "GET /v1/channels/general/messages?limit=3 HTTP/1.1\r\nHost: x\r\nIf-None-Match: \(tag)\r\nX: "
      let end = "\r\nPerch-User: \(user)\r\n\r\n"
      let missing = (15 - (start.utf8.count + end.utf8.count) % 8) % 8
      return said(socket, start + String(repeating: "x", count: missing) + end)
    }
    let tag = try #require(answer("us1", "\"\"")["ETag"])
    for _ in 0..<3 { #expect(answer("us1", tag).status == 304) }
    #expect(answer("us2", tag).status == 404)
    #expect(answer("us1", tag).status == 304)
  }

  /// Sends a request over a kept connection, and reads one answer.
  private func said(_ socket: Int32, _ request: String) -> Answer {
    _ = send(socket, request, request.utf8.count, Int32(MSG_NOSIGNAL))
    var bytes: [UInt8] = []
    var room = [UInt8](repeating: 0, count: 16_384)
    while case let count = recv(socket, &room, room.count, 0), count > 0 {
      bytes += room[..<count]
      let text = String(decoding: bytes, as: UTF8.self)
      guard let end = text.firstRange(of: "\r\n\r\n") else { continue }
      var answer = Answer()
      answer.head = String(text[..<end.lowerBound])
      answer.body = String(text[end.upperBound...])
      answer.status = answer.head.split(separator: " ").dropFirst().first.flatMap { Int($0) } ?? 0
      if answer.status == 304 || answer["Content-Length"] == "\(answer.body.utf8.count)" { return answer }
    }
    return Answer()
  }
}
