import ChatCache
import ChatCollections
import ChatModel
import Glibc
import JSON
import MicroHTTP
import Platform
import TestSupport
import Testing

@testable import ChatAPI

/// The followers of a chat are woken together, in waves, if they are many.
@Suite struct ManyFollowersTests {
  /// A chat in which these users are many followers. `perFollower`: ms, of a machine that is not slow.
  private func world(_ users: [String], perFollower: UInt64) throws -> CollectionWorld {
    var settings = Collections.Settings()
    settings.waves.fewest = users.count
    settings.waves.perFollower = UInt64(patience * 1e6) * perFollower
    let world = try CollectionWorld(settings: settings)
    for user in users { try world.join(user, "general", name: "General") }
    try world.list([1, 2, 3], in: "general")
    return world
  }

  /// A view of each user, all with the same cursor. All count as followers from now on.
  private func open(_ world: CollectionWorld, _ users: [String]) throws -> [(path: String, cursor: String)] {
    let paths = users.map { user in
      let view = world.post("/v1/message-collections", #"{"channel_url":"general"}"#, as: user)
      return "/v1/message-collections/\(view.text("id"))"
    }
    let views = zip(paths, users).map { ($0, world.ask($0, as: $1).text("cursor")) }
    #expect(Set(views.map { $0.1 }).count == 1)
    for (path, user) in zip(paths, users) {
      let view = try world.collections.messages(
        String(path.split(separator: "/").last ?? ""), of: UserID(user))
      let subscriptions = world.collections.subscriptions
      subscriptions.unsubscribe(
        try #require(subscriptions.subscribe(Nobody(), to: view.topics, isOnce: true)))
    }
    return views
  }

  private final class Nobody: Wakeable { func wake() {} }

  private func poll(_ world: CollectionWorld, _ path: String, _ since: String, as user: String) -> HeldAsk {
    world.held("\(path)/events?since=\(since)&wait=20", headers: ["Perch-User": user])
  }

  /// Sends message 4, which begins a wave. Returns the answers of those who poll.
  private func tellFour(
    _ world: CollectionWorld, _ views: [(path: String, cursor: String)], _ users: [String]
  ) throws -> [Answer] {
    let polls = zip(views, users).map { poll(world, $0.path, $0.cursor, as: $1) }
    #expect(world.waitParked(users.count))
    try world.send(4, in: "general")
    let answers = polls.map { $0.answer() }
    for answer in answers { #expect(answer.events == ["messages.added 4"]) }
    return answers
  }

  private func sequence(_ cursor: String) throws -> Int64 { try #require(EventCursor(cursor)).sequence }

  /// What the present wave means for a poll with that cursor.
  private func turn(_ world: CollectionWorld, _ cursor: String) throws -> Waves.Turn {
    let view = try #require(try world.cache.view(of: ChannelURL("general"), for: UserID("alice")))
    return try world.collections.subscriptions.turn(in: view.channel, after: sequence(cursor))
  }

  /// Waits, at most 5 s, until the thread that wakes followers has come so far.
  private func wait(until isTrue: () throws -> Bool) throws {
    let end = Clock.system.monotonicNanoseconds() + UInt64(patience * 5e9)
    while try !isTrue() {
      try #require(Clock.system.monotonicNanoseconds() < end)
      usleep(500)
    }
  }

  @Test("B51: those who were told all of a wave late in the one before do not hold it up")
  func late() throws {
    let users = ["alice", "bob", "carol", "dave"]
    // A wave takes a second, and three if most of its followers do not count as told.
    let world = try world(users, perFollower: 250)
    defer { world.stop() }
    let views = try open(world, users)
    let first = poll(world, views[0].path, views[0].cursor, as: "alice")
    #expect(world.waitParked(1))
    try world.send(4, in: "general")
    let cursor = first.answer().text("cursor")
    usleep(UInt32(patience * 300_000))
    try world.send(5, in: "general")
    let end = world.cache.cursor.sequence
    try wait { try turn(world, views[1].cursor) == .told(upTo: end) }
    let others = zip(views, users).dropFirst().map { view, user in
      poll(world, view.path, view.cursor, as: user).answer().text("cursor")
    }
    #expect(try others.allSatisfy { try sequence($0) == end })
    let polls = zip(views, zip(users, [cursor] + others)).map { poll(world, $0.path, $1.1, as: $1.0) }
    #expect(world.waitParked(4))
    #expect(polls[0].answer().events == ["messages.added 5"])
    let begin = Clock.system.monotonicNanoseconds()
    try world.send(6, in: "general")
    for poll in polls.dropFirst() { #expect(poll.answer().events == ["messages.added 6"]) }
    #expect(Clock.system.monotonicNanoseconds() - begin < UInt64(patience * 2e9))
  }

  @Test("B51: what comes while many followers are told is told to all with the next wave, in the same bytes")
  func together() throws {
    let users = ["alice", "bob"]
    // The first wave takes three seconds, and nine if its followers do not count as told.
    let world = try world(users, perFollower: 1_500)
    defer { world.stop() }
    let views = try open(world, users)
    let begin = Clock.system.monotonicNanoseconds()
    let told = try tellFour(world, views, users)
    #expect(told[0].body == told[1].body)
    let cursor = told[0].text("cursor")
    try world.send(5, in: "general")
    try wait { try turn(world, cursor) == .waits }
    let second = zip(views, users).map { poll(world, $0.path, cursor, as: $1) }
    try world.send(6, in: "general")
    let now = world.ask("\(views[0].path)/events?since=\(cursor)&wait=0", as: "alice")
    #expect(now.events == ["messages.added 5 6"], "who does not wait is told at once")
    let next = second.map { $0.answer(within: 20) }
    #expect(next.allSatisfy { $0.events == ["messages.added 5 6"] && $0.body == next[0].body })
    #expect(next[0].text("cursor") == world.cache.cursor.description)
    #expect(Clock.system.monotonicNanoseconds() - begin < UInt64(patience * 6.5e9))
  }

  @Test("B49, B51: all answers of a wave end at its head, though the log has gone on")
  func head() throws {
    let users = ["alice", "bob", "carol"]
    let world = try world(users, perFollower: 2_000)
    defer { world.stop() }
    let views = try open(world, users)
    // Carol is told something else, so that her view makes its answer itself.
    let carol = try #require(try world.cache.read { try $0.userKey(of: UserID("carol")) })
    let channel = try #require(try world.cache.view(of: ChannelURL("general"), for: UserID("alice"))).channel
    try world.cache.write { try $0.append(Change(.outbox, .localFailed, channel: channel, user: carol)) }
    let first = try tellFour(world, Array(views.prefix(1)), ["alice"])[0]
    try world.send(5, in: "general")
    try wait { try turn(world, first.text("cursor")) == .waits }
    let second = poll(world, views[1].path, views[1].cursor, as: "bob").answer()
    #expect(second.body == first.body, "the bytes of the first")
    let third = world.held(
      "\(views[2].path)/events?since=\(views[2].cursor)&wait=20", headers: ["Perch-User": "carol"]
    ).answer()
    #expect(third.events == ["messages.added 4"] && third.text("cursor") == first.text("cursor"))
  }

  @Test("B9, B51: a client of which not all is known is told everything in a wave, too")
  func unknown() throws {
    let users = ["alice", "bob"]
    let world = try world(users, perFollower: 2_000)
    defer { world.stop() }
    let views = try open(world, users)
    let told = try tellFour(world, views, users)[0]
    try world.send(5, in: "general")
    // Of alice's view these two cursors are remembered from now on.
    for id in Int64(6)...7 {
      _ = world.ask(views[0].path, as: "alice")
      try world.send(id, in: "general")
    }
    _ = world.ask(views[0].path, as: "alice")
    #expect(try turn(world, views[0].cursor) == .told(upTo: sequence(told.text("cursor"))))
    let late = poll(world, views[0].path, views[0].cursor, as: "alice").answer()
    #expect(late.text("cursor") == world.cache.cursor.description, "\(late.body)")
  }

  @Test("B51: the next wave comes though some followers do not")
  func absent() throws {
    let users = ["alice", "bob"]
    let world = try world(users, perFollower: 20)
    defer { world.stop() }
    let views = try open(world, users)
    var cursor = try tellFour(world, views, users)[1].text("cursor")
    for id in Int64(5)...8 { try world.send(id, in: "general") }
    var told: [Substring] = []
    while told.count < 4 {
      let answer = poll(world, views[1].path, cursor, as: "bob").answer()
      try #require(!answer.events.isEmpty)
      told += answer.events.flatMap { $0.split(separator: " ").dropFirst() }
      cursor = answer.text("cursor")
    }
    #expect(told == ["5", "6", "7", "8"])
    let alone = poll(world, views[1].path, cursor, as: "bob")
    #expect(world.waitParked(1))
    try world.send(9, in: "general")
    #expect(alone.answer().events == ["messages.added 9"])
  }

  @Test("B1, B69: who lost the channel during a wave is told so once, and nothing of what came then")
  func lost() throws {
    let users = ["alice", "bob"]
    let world = try world(users, perFollower: 2_000)
    defer { world.stop() }
    let views = try open(world, users)
    _ = try tellFour(world, Array(views.prefix(1)), ["alice"])
    try world.leave("bob", "general")
    try world.send(5, in: "general")
    let told = poll(world, views[1].path, views[1].cursor, as: "bob").answer()
    #expect(told.status == 200 && told.events == ["channel.deleted general"], "\(told.body)")
    let next = poll(world, views[1].path, told.text("cursor"), as: "bob").answer()
    #expect(next.status == 404 && !next.body.contains("hello"), "\(next.body)")
  }

  @Test("B1, B51: who lost the channel after a wave told a poll is told so at once")
  func lostMeanwhile() throws {
    let users = ["alice", "bob"]
    let world = try world(users, perFollower: 2_000)
    defer { world.stop() }
    let views = try open(world, users)
    let cursor = try tellFour(world, views, users)[1].text("cursor")
    try world.send(5, in: "general")
    try wait { try turn(world, cursor) == .waits }
    try world.leave("bob", "general")
    let told = poll(world, views[1].path, cursor, as: "bob").answer()
    #expect(told.status == 200 && told.events == ["channel.deleted general"], "\(told.body)")
    #expect(try turn(world, cursor) == .waits, "the wave is not over")
  }

  @Test("B9, B49: two clients of a view who are told in one wave both end with the channel's messages")
  func tabs() throws {
    let users = ["alice", "bob"]
    let world = try world(users, perFollower: 2_000)
    defer { world.stop() }
    let views = try open(world, users)
    var (one, other) = (views[0].cursor, views[0].cursor)
    one = try tellFour(world, Array(views.prefix(1)), ["alice"])[0].text("cursor")
    try world.delete(4, in: "general")
    try world.send(5, in: "general")
    try wait { try turn(world, one) == .waits }
    let second = poll(world, views[0].path, other, as: "alice").answer()
    #expect(second.events == ["messages.added 5"] && second.text("cursor") != one, "\(second.body)")
    other = second.text("cursor")
    let first = poll(world, views[0].path, one, as: "alice").answer(within: 20)
    #expect(first.events.sorted() == ["messages.added 5", "messages.deleted 4"], "\(first.body)")
    let rest = world.ask("\(views[0].path)/events?since=\(other)&wait=0", as: "alice")
    #expect(rest.events.isEmpty, "\(rest.body)")
  }

  @Test("B38: a sender is not shown a message beside the unsent one that it became")
  func sender() throws {
    let users = ["alice", "bob"]
    let world = try world(users, perFollower: 2_000)
    defer { world.stop() }
    #expect(world.send("r1").status == 202)
    try world.dispatch("r1", newest: Position(createdAt: 30, messageID: 3))
    let views = try open(world, users)
    var message = CollectionWorld.message(4, at: 40)
    message.sender = "alice"
    let stored = message
    let polls = poll(world, views[1].path, views[1].cursor, as: "bob")
    #expect(world.waitParked(1))
    try world.cache.write { _ = try $0.store(stored, in: ChannelURL("general"), .messageReceived) }
    #expect(polls.answer().events == ["messages.added 4"])
    try world.answer("r1", with: stored)
    let told = poll(world, views[0].path, views[0].cursor, as: "alice").answer()
    let isNamed = told.body.contains(#""request_id":"r1""#) && !told.body.contains(#""request_id":"""#)
    #expect(isNamed, "\(told.body)")
    #expect(told.events.contains { $0.hasSuffix(" 4") }, "\(told.body)")
  }

  @Test("B51: a wave that tells a poll nothing does not keep its user's own changes from it")
  func afterNothing() throws {
    let users = ["alice", "bob"]
    let world = try world(users, perFollower: 2_000)
    defer { world.stop() }
    let views = try open(world, users)
    let channel = try #require(try world.cache.view(of: ChannelURL("general"), for: UserID("alice"))).channel
    try world.cache.write { try $0.append(Change(.unverified, .messageChangelog, channel: channel)) }
    let head = world.cache.cursor.sequence
    try wait { try turn(world, views[0].cursor) == .told(upTo: head) }
    let sent = world.post("/v1/channels/general/messages", #"{"message":"mine"}"#, as: "alice")
    #expect(sent.status == 202, "\(sent.body)")
    #expect(try turn(world, views[0].cursor) == .told(upTo: head), "the wave is not over")
    let next = poll(world, views[0].path, views[0].cursor, as: "alice").answer()
    #expect(next.status == 200 && next.body.contains("mine"), "\(next.body)")
  }

  @Test(
    "B49, B51: in a storm of messages, edits and deletions every follower ends with the channel's messages",
    arguments: 1...3)
  func storm(seed: Int) throws {
    let users = (0..<8).map { "user\($0)" }
    let world = try world(users, perFollower: 2)
    defer { world.stop() }
    let views = try open(world, users)
    let isOver = Guarded(false)
    let clients = zip(views, users).map { view, user in
      Client(world, view.path, view.cursor, user, isOver)
    }
    for client in clients { client.start() }
    var random = SeededRandom(seed: UInt64(seed))
    var alive: Set<Int64> = [1, 2, 3]
    for id in Int64(4)...120 {
      switch Int.random(in: 0..<10, using: &random) {
      case 0..<7:
        try world.send(id, in: "general")
        alive.insert(id)
      case 7..<9:
        let old = alive.randomElement(using: &random)!
        try world.send(old, in: "general", text: "edit \(id)", updatedAt: id)
      default:
        let old = alive.remove(alive.randomElement(using: &random)!)!
        try world.delete(old, in: "general")
      }
      if Int.random(in: 0..<4, using: &random) == 0 { usleep(UInt32.random(in: 0..<20_000, using: &random)) }
    }
    isOver.withLock { $0 = true }
    for (client, user) in zip(clients, users) {
      let shown = client.shown()
      #expect(shown.keys.sorted() == alive.sorted().map(String.init).sorted(), "\(user)")
      let fresh = world.ask(client.path, as: user)
      #expect(try Client.rows(fresh.body) == shown, "\(user)")
      #expect(client.doubled == 0)
    }
  }
}

/// A follower on a thread of its own, who polls until everything was told.
private final class Client: Sendable {
  let path: String
  private let server: Server
  private let user: String
  private let isOver: Guarded<Bool>
  private let state: Watched<(cursor: String, shown: [String: String], doubled: Int, hasEnded: Bool)>
  private let thread = ThreadSlot()

  init(_ world: CollectionWorld, _ path: String, _ cursor: String, _ user: String, _ isOver: Guarded<Bool>) {
    (server, self.path, self.user, self.isOver) = (world.server, path, user, isOver)
    state = Watched((cursor, ["1": "hello", "2": "hello", "3": "hello"], 0, false))
  }

  var doubled: Int { state.read { $0.doubled } }

  func start() {
    thread.start("follower") { [self] in
      while true {
        let (cursor, isLast) = (state.read { $0.cursor }, isOver.withLock { $0 })
        let wait = isLast ? 0 : 1
        let answer = ChatAPITests.ask(
          server, "\(path)/events?since=\(cursor)&wait=\(wait)", method: "GET",
          headers: ["Perch-User": user], body: "")
        take(answer)
        if isLast, answer.events.isEmpty, !answer.hasMore { break }
      }
      state.update { $0.hasEnded = true }
    }
  }

  /// What the client shows when it has been told everything.
  func shown() -> [String: String] {
    let end = Clock.system.monotonicNanoseconds() + UInt64(patience * 30e9)
    defer { thread.join() }
    return state.wait(until: end) { $0.hasEnded ? $0.shown : nil } ?? [:]
  }

  private func take(_ answer: Answer) {
    let events = try? JSONParser().parse(answer.body) { json in
      try json["events"]?.items.map { event in
        (
          type: event["type"]?.string ?? "", rows: try Client.rows(event["messages"]),
          gone: event["message_refs"]?.items.compactMap { $0["message_id"]?.string } ?? []
        )
      } ?? []
    }
    state.update { state in
      for event in events ?? [] {
        if event.type == "messages.added" {
          state.doubled += event.rows.keys.count { state.shown[$0] != nil }
        }
        state.shown.merge(event.rows) { $1 }
        for id in event.gone { state.shown[id] = nil }
      }
      state.cursor = answer.text("cursor")
    }
  }

  static func rows(_ body: String) throws -> [String: String] {
    try JSONParser().parse(body) { try rows($0["messages"]) }
  }

  private static func rows(_ json: JSONValue?) throws -> [String: String] {
    var rows: [String: String] = [:]
    for row in json?.items ?? JSONValue.Items() {
      rows[row["message_id"]?.string ?? ""] = row["message"]?.string ?? ""
    }
    return rows
  }
}
