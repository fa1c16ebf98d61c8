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
  /// These users are many followers. `perFollower`: ms.
  private func world(_ users: [String], perFollower: UInt64) throws -> CollectionWorld {
    var settings = Collections.Settings()
    settings.waves.fewest = users.count
    settings.waves.perFollower = perFollower * 1_000_000
    let world = try CollectionWorld(settings: settings)
    for user in users { try world.join(user, "general", name: "General") }
    try world.list([1, 2, 3], in: "general")
    return world
  }

  private func open(_ world: CollectionWorld, as user: String) -> (path: String, cursor: String) {
    let view = world.post("/v1/message-collections", #"{"channel_url":"general"}"#, as: user)
    let path = "/v1/message-collections/\(view.text("id"))"
    return (path, world.ask(path, as: user).text("cursor"))
  }

  private func poll(_ world: CollectionWorld, _ path: String, _ since: String, as user: String) -> HeldAsk {
    world.held("\(path)/events?since=\(since)&wait=20", headers: ["Perch-User": user])
  }

  /// Sends message 4, which begins a wave. Returns the cursors of those who were told of it.
  private func tellFour(
    _ world: CollectionWorld, _ views: [(path: String, cursor: String)], _ users: [String]
  ) throws -> [String] {
    let polls = zip(views, users).map { poll(world, $0.path, $0.cursor, as: $1) }
    #expect(world.waitParked(users.count))
    try world.send(4, in: "general")
    return polls.map { $0.answer().text("cursor") }
  }

  /// Waits, at most 5 s, until the thread that wakes followers has come so far.
  private func wait(until isTrue: () -> Bool) throws {
    let end = Clock.system.monotonicNanoseconds() + UInt64(patience * 5e9)
    while !isTrue() {
      try #require(Clock.system.monotonicNanoseconds() < end)
      usleep(500)
    }
  }

  /// The events of polls up to the one that `isLast` accepts, four at most, and the last cursor.
  private func polls(
    _ world: CollectionWorld, _ path: String, _ since: String, as user: String,
    until isLast: (String) -> Bool
  ) -> (told: [String], cursor: String) {
    var (told, cursor): ([String], String) = ([], since)
    for _ in 0..<4 {
      let answer = world.ask("\(path)/events?since=\(cursor)&wait=1", as: user)
      told += answer.events
      cursor = answer.text("cursor")
      if answer.events.contains(where: isLast) { break }
    }
    return (told, cursor)
  }

  @Test("B51: what comes while many followers are told is told to all with the next wave, in the same bytes")
  func together() throws {
    let users = ["alice", "bob"]
    let world = try world(users, perFollower: 1_500)
    defer { world.stop() }
    let views = users.map { open(world, as: $0) }
    func polls(_ since: [String]) -> [HeldAsk] {
      zip(zip(views, users), since).map { poll(world, $0.0.path, $1, as: $0.1) }
    }
    let first = polls(views.map(\.cursor))
    #expect(world.waitParked(2))
    try world.send(4, in: "general")
    let told = first.map { $0.answer() }
    #expect(told.allSatisfy { $0.events == ["messages.added 4"] && $0.body == told[0].body })
    // The wave takes three seconds.
    try world.send(5, in: "general")
    let channel = try #require(try world.cache.view(of: ChannelURL("general"), for: UserID("alice"))).channel
    let since = try #require(EventCursor(told[0].text("cursor"))).sequence
    try wait { world.collections.subscriptions.awaitsWave(in: channel, after: since) }
    let second = polls(told.map { $0.text("cursor") })
    try world.send(6, in: "general")
    let now = world.ask("\(views[0].path)/events?since=\(told[0].text("cursor"))&wait=0", as: "alice")
    #expect(now.events == ["messages.added 5 6"], "who does not wait is told at once")
    let next = second.map { $0.answer(within: 10) }
    #expect(next.allSatisfy { $0.events == ["messages.added 5 6"] && $0.body == next[0].body })
    #expect(next[0].text("cursor") == world.cache.cursor.description)
  }

  @Test("B51: the next wave comes though nobody was told with the last one, and though nobody waits")
  func absent() throws {
    let users = ["alice", "bob"]
    let world = try world(users, perFollower: 20)
    defer { world.stop() }
    let views = users.map { open(world, as: $0) }
    let cursors = try tellFour(world, views, users)
    for id in Int64(5)...8 { try world.send(id, in: "general") }
    let (told, cursor) = polls(world, views[1].path, cursors[1], as: "bob") { $0.contains(" 8") }
    #expect(told.flatMap { $0.split(separator: " ").dropFirst() } == ["5", "6", "7", "8"])
    let alone = poll(world, views[1].path, cursor, as: "bob")
    #expect(world.waitParked(1))
    try world.send(9, in: "general")
    #expect(alone.answer(within: 10).events == ["messages.added 9"])
  }

  @Test("B1, B51: in a wave, too, a member who left is told nothing more, and own changes come to their user")
  func apart() throws {
    let users = ["alice", "bob", "carol"]
    let world = try world(users, perFollower: 100)
    defer { world.stop() }
    let views = users.map { open(world, as: $0) }
    let cursors = try tellFour(world, views, users)
    try world.leave("bob", "general")
    try world.send(5, in: "general")
    let sent = world.post("/v1/channels/general/messages", #"{"message":"mine"}"#, as: "carol")
    #expect(sent.status == 202, "\(sent.body)")
    let next = zip(zip(views, users), cursors).map { poll(world, $0.0.path, $1, as: $0.1) }
    #expect(next[0].answer(within: 10).events == ["messages.added 5"])
    #expect(next[1].answer(within: 10).events == ["channel.deleted general"])
    let told = [next[2].answer(within: 10)].flatMap { answer in
      answer.events + polls(world, views[2].path, answer.text("cursor"), as: "carol") { _ in true }.told
    }
    #expect(told.contains("messages.added 5") && told.count >= 2, "\(told)")
  }

  @Test("B51: a wave that tells a poll nothing does not keep its user's own changes from it")
  func afterNothing() throws {
    let world = try world(["alice"], perFollower: 100)
    defer { world.stop() }
    let view = open(world, as: "alice")
    let cursor = try tellFour(world, [view], ["alice"])[0]
    usleep(200_000)
    let channel = try #require(try world.cache.view(of: ChannelURL("general"), for: UserID("alice"))).channel
    try world.cache.write { try $0.append(Change(.unverified, .messageChangelog, channel: channel)) }
    let head = world.cache.cursor.sequence
    try wait { world.collections.subscriptions.wave(in: channel) == head }
    let sent = world.post("/v1/channels/general/messages", #"{"message":"mine"}"#, as: "alice")
    #expect(sent.status == 202, "\(sent.body)")
    let next = poll(world, view.path, cursor, as: "alice").answer(within: 10)
    #expect(next.status == 200 && next.body.contains("mine"), "\(next.body)")
  }

  @Test(
    "B49, B51: in a storm of messages, edits and deletions every follower ends with the channel's messages",
    arguments: 1...3)
  func storm(seed: Int) throws {
    let users = (0..<8).map { "user\($0)" }
    let world = try world(users, perFollower: 2)
    defer { world.stop() }
    let views = users.map { open(world, as: $0) }
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
