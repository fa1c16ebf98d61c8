import ChatCache
import ChatCollections
import ChatModel
import Glibc
import MicroHTTP
import Platform
import Testing

@testable import ChatAPI

/// The bytes of one answer are shared by all polls that get the same answer, and by no others.
@Suite struct SharingTests {
  private func world(_ users: [String]) throws -> CollectionWorld {
    let world = try CollectionWorld()
    for user in users { try world.join(user, "general", name: "General") }
    try world.list([1, 2, 3, 4, 5], in: "general")
    return world
  }

  private func open(
    _ world: CollectionWorld, as user: String, _ extra: String = ""
  ) -> (path: String, cursor: String) {
    let open = world.post("/v1/message-collections", #"{"channel_url":"general"\#(extra)}"#, as: user)
    return ("/v1/message-collections/\(open.text("id"))", open.text("cursor"))
  }

  @Test("B49: views of different users that are alike are told the same bytes, and go on exactly from there")
  func alike() throws {
    let users = ["alice", "bob", "carol", "dave"]
    let world = try world(users)
    defer { world.stop() }
    let views = users.map { open(world, as: $0) }
    // All views are at one cursor now.
    let fresh = zip(views, users).map { world.ask($0.path, as: $1).text("cursor") }
    #expect(Set(fresh).count == 1)
    let polls = zip(views, users).map { view, user in
      world.held("\(view.path)/events?since=\(fresh[0])&wait=20", headers: ["Perch-User": user])
    }
    #expect(world.waitParked(4))
    try world.send(6, in: "general")
    let answers = polls.map { $0.answer() }
    #expect(answers.allSatisfy { $0.events == ["messages.added 6"] && $0.body == answers[0].body })
    try world.send(6, in: "general", text: "changed", updatedAt: 99)
    for (view, user) in zip(views, users) {
      let next = world.ask("\(view.path)/events?since=\(answers[0].text("cursor"))&wait=0", as: user)
      #expect(next.events == ["messages.updated 6"], "whoever took the bytes knows what they told")
      #expect(world.ask(view.path, as: user).messages == [1, 2, 3, 4, 5, 6])
    }
  }

  @Test(
    "B49: alike views share an answer though the log has gone on with what concerns others, and stay together"
  )
  func behindTheHead() throws {
    let users = ["alice", "bob", "carol"]
    let world = try world(users)
    defer { world.stop() }
    let views = users.map { open(world, as: $0) }
    let since = zip(views, users).map { world.ask($0.path, as: $1).text("cursor") }
    #expect(Set(since).count == 1)
    let carol = try #require(try world.cache.read { try $0.userKey(of: UserID("carol")) })
    let channel = try #require(try world.cache.view(of: ChannelURL("general"), for: UserID("alice"))).channel
    try world.send(6, in: "general")
    let first = world.ask("\(views[0].path)/events?since=\(since[0])&wait=0", as: "alice")
    #expect(first.events == ["messages.added 6"])
    try world.cache.write { try $0.append(Change(.outbox, .localFailed, channel: channel, user: carol)) }
    let second = world.ask("\(views[1].path)/events?since=\(since[0])&wait=0", as: "bob")
    #expect(second.body == first.body, "the same bytes, with the same cursor")
    let third = world.ask("\(views[2].path)/events?since=\(since[0])&wait=0", as: "carol")
    #expect(third.events.first == "messages.added 6")
    try world.send(7, in: "general")
    for (view, user) in zip(views, users).prefix(2) {
      let next = world.ask("\(view.path)/events?since=\(first.text("cursor"))&wait=0", as: user)
      #expect(next.events == ["messages.added 7"], "\(user)")
      #expect(world.ask(view.path, as: user).messages == [1, 2, 3, 4, 5, 6, 7])
    }
  }

  @Test("B49: an answer ends at the last change that concerns its view")
  func endOfOwn() throws {
    let world = try world(["alice", "carol"])
    defer { world.stop() }
    let view = open(world, as: "alice")
    let since = world.ask(view.path).text("cursor")
    let carol = try #require(try world.cache.read { try $0.userKey(of: UserID("carol")) })
    let channel = try #require(try world.cache.view(of: ChannelURL("general"), for: UserID("alice"))).channel
    func ofCarol() throws {
      try world.cache.write { try $0.append(Change(.outbox, .localFailed, channel: channel, user: carol)) }
    }
    try world.send(6, in: "general")
    let told = world.cache.cursor
    try ofCarol()
    let answer = world.ask("\(view.path)/events?since=\(since)&wait=0")
    #expect(answer.events == ["messages.added 6"] && answer.text("cursor") == told.description)
    #expect(answer.body.contains(#""has_more":false"#))
    // What concerns carol alone is not told, and holds up nothing.
    let poll = world.held("\(view.path)/events?since=\(told)&wait=20", headers: ["Perch-User": "alice"])
    #expect(world.waitParked(1))
    try ofCarol()
    try world.send(7, in: "general")
    #expect(poll.answer().events == ["messages.added 7"])
    let idle = world.ask("\(view.path)/events?since=\(told)&wait=0")
    #expect(idle.events == ["messages.added 7"], "a lost answer is made again")
  }

  @Test("B49, B51: a change of the connection is told after a change of the channel that tells nothing")
  func connectionAfterNothing() throws {
    let world = try world(["alice"])
    defer { world.stop() }
    let view = open(world, as: "alice")
    let since = world.ask(view.path).text("cursor")
    let channel = try #require(try world.cache.view(of: ChannelURL("general"), for: UserID("alice"))).channel
    let path = "\(view.path)/events?since=\(since)"
    let poll = world.held("\(path)&wait=20", headers: ["Perch-User": "alice"])
    #expect(world.waitParked(1))
    try world.cache.write { try $0.append(Change(.unverified, .messageChangelog, channel: channel)) }
    try world.cache.write { try $0.announce(link: "upstream_unreachable") }
    let answer = poll.answer(within: 10)
    #expect(answer.events.contains("connection.changed"), "\(answer.body)")
    #expect(world.ask("\(path)&wait=0").events == answer.events)
    #expect(world.ask("\(view.path)/events?since=\(answer.text("cursor"))&wait=0").events == [])
  }

  @Test("B1, B49: a view takes no answer that lacks a change of its own user's connection")
  func ownConnection() throws {
    let users = ["alice", "bob"]
    let world = try world(users)
    defer { world.stop() }
    let views = users.map { open(world, as: $0) }
    let since = zip(views, users).map { world.ask($0.path, as: $1).text("cursor") }
    #expect(Set(since).count == 1)
    let bob = try #require(try world.cache.read { try $0.userKey(of: UserID("bob")) })
    try world.cache.write { try $0.append(Change(.connection, .channelRefresh, user: bob)) }
    try world.send(6, in: "general")
    let told = zip(views, users).map { view, user in
      world.ask("\(view.path)/events?since=\(since[0])&wait=0", as: user).events
    }
    #expect(told[0] == ["messages.added 6"])
    #expect(Set(told[1]) == ["messages.added 6", "connection.changed"])
  }

  @Test("B52: a poll with a cursor that the log no longer covers ends at once, whatever came since")
  func expired() throws {
    var retention = Retention()
    retention.events = 5
    let world = try CollectionWorld(retention: retention)
    defer { world.stop() }
    for user in ["alice", "carol"] { try world.join(user, "general", name: "General") }
    try world.list([1, 2, 3, 4, 5], in: "general")
    let view = open(world, as: "alice")
    let since = world.ask(view.path).text("cursor")
    let carol = try #require(try world.cache.read { try $0.userKey(of: UserID("carol")) })
    try world.send(6, in: "general")
    for _ in 0..<10 {
      try world.cache.write { try $0.append(Change(.outbox, .localFailed, user: carol)) }
    }
    try world.cache.trim()
    let poll = world.held(
      "\(view.path)/events?since=\(since)&wait=20", headers: ["Perch-User": "alice"])
    #expect(poll.answer(within: 10).text("code") == "cursor_expired")
  }

  @Test("B18, B49: an answer that tells who read on is the same for all views that are alike")
  func readers() throws {
    let world = try world(["alice", "bob"])
    defer { world.stop() }
    var record = CollectionWorld.channel("general", floor: 0, name: "General", last: nil)
    record.readReceipts = ReadReceipts([:])
    func store(_ record: ChannelRecord) throws {
      _ = try world.cache.write { try $0.store([record], of: UserID("bob"), .refresh(.channelChanged)) }
    }
    try store(record)
    let name = try #require(open(world, as: "alice").path.split(separator: "/").last)
    let view = try world.collections.messages(String(name), of: UserID("alice"))
    let since = world.cache.cursor.sequence
    func key() throws -> AnswerKey? {
      let viewContext = world.collections.viewContext(ChannelURL("general"))
      return try world.cache.read {
        try view.changes($0, since: since, until: world.cache.cursor.sequence, viewContext).key
      }
    }
    record.readReceipts = ReadReceipts(["dave": 7])
    try store(record)
    #expect(try key() != nil)
    record.name = "Another"
    try store(record)
    #expect(try key() == nil, "the channel's object differs by user")
  }

  @Test("what was answered is found again by any thread, in the same moment, for the same view and cursor")
  func sameMoment() throws {
    let world = try world(["alice", "bob"])
    defer { world.stop() }
    func view(_ user: String) throws -> MessageCollection {
      let name = try #require(open(world, as: user).path.split(separator: "/").last)
      return try world.collections.messages(String(name), of: UserID(user))
    }
    let (mine, other, now) = (try view("alice"), try view("alice"), world.cache.cursor)
    let later = EventCursor(epoch: now.epoch, run: now.run, sequence: now.sequence + 1)
    let elsewhere = EventCursor(epoch: now.epoch &+ 1, run: now.run, sequence: now.sequence)
    let moment = SharedAnswers.Moment(revision: 2, cursor: now, removals: 0)
    let shared = SharedAnswers()
    let made = SharedResponse(body: ByteBuffer())
    func asked(
      _ view: MessageCollection, since: EventCursor, _ moment: SharedAnswers.Moment
    ) throws -> SharedAnswers.Asked {
      try #require(SharedAnswers.Asked(ObjectIdentifier(view), since: since, moment))
    }
    shared.note(made, try asked(mine, since: now, moment))
    for _ in 0..<2 { #expect(shared.recent(try asked(mine, since: now, moment)) === made) }
    let found = Guarded<[Bool]>([])
    let same = try asked(mine, since: now, moment)
    for _ in 0..<3 {
      Thread("another") { found.withLock { $0.append(shared.recent(same) === made) } }.join()
    }
    #expect(found.withLock { $0 } == [true, true, true])
    #expect(shared.recent(try asked(other, since: now, moment)) == nil)
    #expect(shared.recent(try asked(mine, since: later, moment)) == nil)
    let before = EventCursor(epoch: now.epoch, run: now.run - 1, sequence: now.sequence)
    for foreign in [elsewhere, before] {
      #expect(SharedAnswers.Asked(ObjectIdentifier(mine), since: foreign, moment) == nil)
    }
    let moments = [
      SharedAnswers.Moment(revision: 4, cursor: now, removals: 0),
      SharedAnswers.Moment(revision: 2, cursor: later, removals: 0),
      SharedAnswers.Moment(revision: 2, cursor: now, removals: 1),
    ]
    for moment in moments { #expect(shared.recent(try asked(mine, since: now, moment)) == nil) }
    let revision = try #require(world.cache.settledRevision)
    try world.send(6, in: "general")
    #expect(world.cache.settledRevision != revision)
    let removals = world.collections.removals
    let gone = Watched(false)
    world.collections.dispose(other) { _ in gone.update { $0 = true } }
    _ = gone.wait { $0 ? true : nil }
    #expect(world.collections.removals == removals + 1)
  }

  @Test("B58: a window that is told anew bears its own view's edges, though another view is alike")
  func replacedWindows() throws {
    let users = ["alice", "bob"]
    let world = try world(users)
    defer { world.stop() }
    let views = users.map { open(world, as: $0, #","previous_size":2"#) }
    #expect(world.ask("/v1/channels/general/cache", method: "DELETE").status < 300)
    // Both clients already know of the clearing. The only event is that the messages are cached again.
    let since = zip(views, users).map { world.ask($0.path, as: $1).text("cursor") }
    #expect(Set(since).count == 1)
    try world.list([1, 2, 3, 4, 5], in: "general")
    for (view, user) in zip(views, users) {
      let answer = world.ask("\(view.path)/events?since=\(since[0])&wait=0", as: user)
      #expect(answer.events.contains { $0.hasPrefix("messages.replaced") }, "\(answer.body)")
      let edge = try #require(answer.body.firstMatch(of: #/"previous":"([^"]+)"/#)?.1)
      let older = world.post("\(view.path)/previous", #"{"before":"\#(edge)"}"#, as: user)
      #expect(older.status == 200, "\(older.body)")
    }
  }

  @Test("B1: what differs by user is never shared: floors, filters, windows, membership, what was known")
  func unlike() throws {
    let world = try world(["alice", "bob", "carol", "dave", "erin"])
    defer { world.stop() }
    try world.join("bob", "general", floor: 55, name: "General")
    let alice = open(world, as: "alice")
    let bob = open(world, as: "bob")
    let carol = open(world, as: "carol", #","sender_user_ids":["nobody"]"#)
    let dave = open(world, as: "dave")
    let erin = open(world, as: "erin", #","previous_size":2"#)
    let views = [(alice, "alice"), (bob, "bob"), (carol, "carol"), (dave, "dave"), (erin, "erin")]
    let cursors = views.map { world.ask($0.0.path, as: $0.1).text("cursor") }
    #expect(Set(cursors).count == 1)
    let row = CollectionWorld.message(2, at: 20, text: "below bob's floor", updatedAt: 99)
    try world.cache.write {
      try $0.store(row, in: ChannelURL("general"), .messageUpdated)
      try $0.removeMembership(of: UserID("dave"), in: ChannelURL("general"), .memberBanned)
    }
    let asked = views.map {
      world.ask("\($0.0.path)/events?since=\(cursors[0])&wait=0", as: $0.1)
    }
    #expect(asked[0].events.first == "messages.updated 2")
    #expect(!asked[1].body.contains("below"))
    #expect(!asked[2].body.contains("below"))
    #expect(asked[3].events == ["channel.deleted general"] && !asked[3].body.contains("below"))
    #expect(!asked[4].body.contains("below"), "it lies outside the window")
  }

  @Test("B22, B49: a view that took another's bytes is kept within its bound like the one that read them")
  func alikeAndBounded() throws {
    let users = ["alice", "bob"]
    var settings = Collections.Settings()
    settings.bound = WindowBound(rows: 5, rowsLeft: 3)
    let world = try CollectionWorld(settings: settings)
    defer { world.stop() }
    for user in users { try world.join(user, "general", name: "General") }
    try world.list([1, 2, 3, 5, 6], in: "general")
    let paths = users.map { open(world, as: $0).path }
    let cursors = zip(paths, users).map { world.ask($0, as: $1).text("cursor") }
    let polls = zip(zip(paths, cursors), users).map { view, user in
      world.held("\(view.0)/events?since=\(view.1)&wait=20", headers: ["Perch-User": user])
    }
    #expect(world.waitParked(2))
    // The message comes late, between others, so that no window moves.
    try world.send(4, in: "general")
    let answers = polls.map { $0.answer() }
    #expect(answers.allSatisfy { $0.events == ["messages.added 4"] && $0.body == answers[0].body })
    for (path, user) in zip(paths, users) {
      let next = world.ask("\(path)/events?since=\(answers[0].text("cursor"))&wait=0", as: user)
      #expect(next.events == ["messages.deleted 1 2 3"], "\(user)")
      #expect(next.body.contains(#""source":"local.window_trimmed""#))
      #expect(world.ask(path, as: user).messages == [4, 5, 6])
    }
  }

  @Test("B1, B49: only a view that is alike takes an answer: not with another floor, nor one the log names")
  func answerKey() throws {
    let users = ["alice", "bob", "carol", "dave"]
    let world = try world(users)
    defer { world.stop() }
    try world.join("carol", "general", floor: 25, name: "General")
    let paths = users.map { open(world, as: $0).path }
    let cursors = zip(paths, users).map { world.ask($0, as: $1).text("cursor") }
    let since = try #require(EventCursor(cursors[3])).sequence
    let views = try zip(paths, users).map { path, user in
      try world.collections.messages(String(path.split(separator: "/").last ?? ""), of: UserID(user))
    }
    try world.cache.write {
      try $0.append(Change(.outbox, .localFailed, channel: views[3].channel, user: views[3].user))
    }
    try world.send(6, in: "general")
    let until = world.cache.cursor.sequence
    let viewContext = world.collections.viewContext(ChannelURL("general"))
    let found = try world.cache.read {
      try views[0].changes($0, since: since, until: until, viewContext).key
    }
    let key = try #require(found)
    let own = try views.map { try #require(try $0.member(world.cache)) }
    for _ in 0..<2 {
      #expect(zip(views, own).map { key.matches($0, $1) } == [true, true, false, false], "nothing changes")
    }
    #expect(key.adopt(by: views[1]))
    #expect(!key.matches(views[1], own[1]) && !key.adopt(by: views[1]), "it has moved on")
  }

  @Test("B49: of a channel answers are kept for the newest 64 cursors, and the last eight for each")
  func keptAnswers() throws {
    let world = try world(["alice"])
    defer { world.stop() }
    let path = open(world, as: "alice").path
    let cursor = try #require(EventCursor(world.ask(path).text("cursor")))
    let view = try world.collections.messages(
      String(path.split(separator: "/").last ?? ""), of: UserID("alice"))
    try world.send(6, in: "general")
    let until = world.cache.cursor.sequence
    let viewContext = world.collections.viewContext(ChannelURL("general"))
    let found = try world.cache.read {
      try view.changes($0, since: cursor.sequence, until: until, viewContext).key
    }
    let key = try #require(found)
    let shared = SharedAnswers()
    func after(_ sequence: Int64) -> EventCursor {
      EventCursor(epoch: cursor.epoch, run: cursor.run, sequence: sequence)
    }
    func keep(_ name: UInt8, _ sequence: Int64) {
      var body = ByteBuffer()
      body.append(String(repeating: "x", count: Int(name)))
      shared.keep(SharedResponse(body: body), key, after(sequence))
    }
    func kept(_ sequence: Int64) -> [Int] {
      shared.alike(view.channel, after(sequence)).map(\.response.byteCount)
    }
    for sequence in Int64(1)...66 { keep(1, sequence) }
    let lengths = (Int64(1)...66).map { kept($0).count }
    #expect(lengths == [0, 0] + [Int](repeating: 1, count: 64), "the oldest cursors go first")
    let empty = kept(66)[0] - 1
    for name in UInt8(2)...9 { keep(name, 66) }
    #expect(kept(66) == (2...9).map { empty + $0 } && kept(3).count == 1)
    #expect(shared.alikeCount == 71)
    for sequence in Int64(67)...5_000 { keep(1, sequence) }
    #expect(shared.alikeCount == 64, "answers that gave way do not count")
  }

  @Test("B1, B23: who was alike takes no answer any more with another floor, or without having joined")
  func keyOfTheMoment() throws {
    let users = ["alice", "bob", "carol", "dave"]
    let world = try world(users)
    defer { world.stop() }
    let views = try users.map { user in
      let path = open(world, as: user).path
      _ = world.ask(path, as: user)
      return try world.collections.messages(String(path.split(separator: "/").last ?? ""), of: UserID(user))
    }
    // All views are at one cursor.
    for view in views {
      #expect(world.ask("/v1/message-collections/\(view.id)", as: view.userID.text).status == 200)
    }
    let since = world.cache.cursor.sequence
    try world.send(6, in: "general")
    let until = world.cache.cursor.sequence
    let viewContext = world.collections.viewContext(ChannelURL("general"))
    let found = try world.cache.read {
      try views[0].changes($0, since: since, until: until, viewContext).key
    }
    let key = try #require(found)
    func own(_ view: MessageCollection) throws -> PlainMember { try #require(try view.member(world.cache)) }
    for view in views { _ = try own(view) }
    try world.join("bob", "general", floor: 1, name: "General")
    #expect(try !key.matches(views[1], own(views[1])), "it has another floor")
    var invited = CollectionWorld.channel("general", floor: 0, name: "General", last: nil)
    invited.membership?.state = .invited
    let invitation = invited
    try world.cache.write {
      _ = try $0.store([invitation], of: UserID("carol"), .refresh(.channelChanged))
    }
    #expect(try views[2].member(world.cache) == nil, "it is only invited")
    #expect(try key.matches(views[3], own(views[3])), "it is alike still")
  }
}
