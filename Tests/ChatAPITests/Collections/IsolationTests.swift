import ChatCache
import ChatCollections
import ChatModel
import Glibc
import MicroHTTP
import Platform
import Synchronization
import TestFolders
import Testing

@testable import ChatAPI

/// The events of parked polls when rights change meanwhile: no user gets data of others, or data that the
/// user may no longer see.
@Suite struct IsolationTests {
  private static let secret = "0123456789abcdef0123456789abcdef"

  private func world(_ world: CollectionWorld) throws -> CollectionWorld {
    try world.join("alice", "general", name: "General")
    try world.join("bob", "general", name: "General")
    try world.list([1, 2, 3, 4, 5], in: "general")
    return world
  }

  private func open(_ world: CollectionWorld, as user: String = "alice") -> (path: String, cursor: String) {
    let open = world.post("/v1/message-collections", #"{"channel_url":"general"}"#, as: user)
    return ("/v1/message-collections/\(open.text("id"))/events", open.text("cursor"))
  }

  @Test("B1: a token that expired while its poll was parked gets 401, also where others share the answer")
  func expiredWhileParked() throws {
    let time = Atomic<Int64>(Clock.system.wallMilliseconds())
    let clock = Clock(
      wallMilliseconds: { time.load(ordering: .relaxed) },
      monotonicNanoseconds: Clock.system.monotonicNanoseconds)
    let secrets = try SigningSecrets(Self.secret)
    let world = try world(
      CollectionWorld(gate: Gate(.tokens(Keyring(secrets)), clock: clock), clock: clock))
    defer { world.stop() }
    let now = time.load(ordering: .relaxed) / 1000
    let header = { (expires: Int64) in
      let token = BearerToken(user: "alice", scopes: .chat, expires: expires).signed(with: secrets)
      return ["Authorization": "Bearer \(token)", "Content-Type": "application/json"]
    }
    let open = ask(
      world.server, "/v1/message-collections", method: "POST", headers: header(now + 3600),
      body: #"{"channel_url":"general"}"#)
    let path =
      "/v1/message-collections/\(open.text("id"))/events?since=\(open.text("cursor"))&wait=20"
    let good = (0..<6).map { _ in world.held(path, headers: header(now + 3600)) }
    let bad = (0..<6).map { _ in world.held(path, headers: header(now + 60)) }
    #expect(world.waitParked(12))
    time.add(120_000, ordering: .relaxed)
    try world.send(6, in: "general")
    for poll in good { #expect(poll.answer().events == ["messages.added 6"]) }
    for poll in bad {
      let answer = poll.answer()
      #expect(answer.status == 401 && !answer.body.contains("hello"))
    }
    #expect(world.collections.subscriptions.count == 0)
  }

  @Test("B61: a secret that was withdrawn while a poll was parked ends it with 401")
  func revokedWhileParked() throws {
    let directory = TestFolder.make("secret")
    let file = SecretFile(inDataDirectory: directory)
    let keyring = try Keyring(file: file)
    let world = try world(CollectionWorld(gate: Gate(.tokens(keyring))))
    defer { world.stop() }
    let now = Clock.system.wallMilliseconds() / 1000
    let token = BearerToken(user: "alice", scopes: .chat, expires: now + 600)
      .signed(with: keyring.now.secrets)
    let headers = ["Authorization": "Bearer \(token)", "Content-Type": "application/json"]
    let cursor = ask(world.server, "/v1/events?since=now", headers: headers).text("cursor")
    let poll = world.held("/v1/events?since=\(cursor)&wait=20", headers: headers)
    #expect(world.waitParked(1))
    try world.replaceSecret(file)
    try keyring.reread()
    try world.send(6, in: "general")
    let answer = poll.answer()
    #expect(answer.status == 401 && !answer.body.contains("hello"))
  }

  @Test("B22: a view disposed of while polls of it are parked gives none of them anything more")
  func disposedWhileParked() throws {
    let world = try world(CollectionWorld())
    defer { world.stop() }
    let (path, cursor) = open(world)
    let polls = (0..<4).map { _ in world.held("\(path)?since=\(cursor)&wait=20") }
    #expect(world.waitParked(4))
    #expect(world.ask(String(path.dropLast(7)), method: "DELETE").status == 204)
    try world.send(6, in: "general")
    for poll in polls { #expect(poll.answer().text("code") == "collection_not_found") }
  }

  @Test("B22: dispose and reset end the polls and streams of a view at once, though nothing happens in it")
  func disposedInSilence() throws {
    let world = try world(CollectionWorld())
    defer { world.stop() }
    let list = world.post("/v1/channel-collections", "{}")
    let (mine, anew) = (open(world), open(world))
    let listPath = "/v1/channel-collections/\(list.text("id"))"
    let stream = ["Perch-User": "alice", "Accept": "text/event-stream"]
    let polls = [
      world.held("\(mine.path)?since=\(mine.cursor)&wait=20"),
      world.held("\(anew.path)?since=\(anew.cursor)&wait=20"),
      world.held("\(listPath)/events?since=\(list.text("cursor"))&wait=20"),
    ]
    let streams = [
      world.held("\(mine.path)?since=\(mine.cursor)", headers: stream),
      world.held("\(listPath)/events?since=\(list.text("cursor"))", headers: stream),
    ]
    #expect(world.waitParked(5))
    #expect(world.ask(String(mine.path.dropLast(7)), method: "DELETE").status == 204)
    #expect(world.post("\(anew.path.dropLast(7))/reset", "").status == 201)
    #expect(world.ask(listPath, method: "DELETE").status == 204)
    for poll in polls { #expect(poll.answer().text("code") == "collection_not_found") }
    for stream in streams { #expect(stream.answer().body.contains("event: gone")) }
    #expect(world.waitParked(0))
  }

  @Test("B22, B50: a poll or stream of several views ends at once when one of them is disposed of or reset")
  func disposedAmongSeveral() throws {
    let world = try world(CollectionWorld())
    defer { world.stop() }
    let (chat, list) = ("/v1/message-collections", "/v1/channel-collections")
    func open(_ kind: String) -> String {
      world.post(kind, kind == chat ? #"{"channel_url":"general"}"# : "{}").text("id")
    }
    let endings: [(kind: String, end: (String) -> Answer)] = [
      (chat, { world.ask("\(chat)/\($0)", method: "DELETE") }),
      (chat, { world.post("\(chat)/\($0)/reset", "{}") }),
      (list, { world.ask("\(list)/\($0)", method: "DELETE") }),
    ]
    for (kind, end) in endings {
      for others in [
        "user_feed=true&collections=", "collections=\(open(chat)),", "collections=\(open(list)),",
      ] {
        let view = open(kind)
        let path = "/v1/events?\(others)\(view)&since=\(world.cache.cursor)"
        let poll = world.held(path + "&wait=20")
        let stream = world.held(path, headers: ["Perch-User": "alice", "Accept": "text/event-stream"])
        #expect(world.waitParked(2))
        #expect([201, 204].contains(end(view).status))
        #expect(poll.answer().text("code") == "collection_not_found", "\(kind) beside \(others)")
        #expect(stream.answer().body.contains("event: gone"), "\(kind) beside \(others)")
        #expect(world.waitParked(0))
      }
    }
  }

  @Test("B69: membership lost while a poll is parked ends it with channel.deleted alone; others go on")
  func lostWhileParked() throws {
    let world = try world(CollectionWorld())
    defer { world.stop() }
    let (mine, theirs) = (open(world), open(world, as: "bob"))
    let lost = world.held("\(mine.path)?since=\(mine.cursor)&wait=20")
    let kept = world.held(
      "\(theirs.path)?since=\(theirs.cursor)&wait=20", headers: ["Perch-User": "bob"])
    #expect(world.waitParked(2))
    let row = CollectionWorld.message(6, at: 60)
    try world.cache.write {
      try $0.store(row, in: ChannelURL("general"), .messageReceived)
      try $0.removeMembership(of: UserID("alice"), in: ChannelURL("general"), .memberBanned)
    }
    let answer = lost.answer()
    #expect(answer.events == ["channel.deleted general"] && !answer.body.contains("hello"))
    #expect(kept.answer().events.first == "messages.added 6")
  }

  @Test("B69: the last one here who was in a channel is told that it was left also when its data is gone")
  func lostByTheLast() throws {
    let world = try CollectionWorld()
    defer { world.stop() }
    try world.join("alice", "random", name: "Random")
    try world.list([1, 2], in: "random")
    let chat = world.post("/v1/message-collections", #"{"channel_url":"random"}"#)
    let list = world.post("/v1/channel-collections", "{}")
    try world.leave("alice", "random")
    try world.cache.trim()
    for _ in 0..<2 {
      let asked = "/events?wait=0&since=\(list.text("cursor"))"
      let poll = world.ask("/v1/message-collections/\(chat.text("id"))\(asked)")
      #expect(poll.events == ["channel.deleted random"])
      #expect(
        world.ask("/v1/channel-collections/\(list.text("id"))\(asked)").events == ["channels.deleted random"])
      #expect(world.ask("/v1\(asked)").events == ["channel.left random"])
    }
    #expect(world.ask("/v1/channels/random").text("code") == "channel_not_found")
    try world.join("alice", "random", name: "Random")
    try world.list([1, 2, 3], in: "random")
    #expect(world.ask("/v1/message-collections/\(chat.text("id"))").messages == [1, 2, 3])
  }

  @Test("B1: membership gained again while a poll is parked gives the window of the new floor, not the old")
  func gainedWhileParked() throws {
    let world = try world(CollectionWorld())
    defer { world.stop() }
    let (path, cursor) = open(world)
    let poll = world.held("\(path)?since=\(cursor)&wait=20")
    #expect(world.waitParked(1))
    try world.leave("alice", "general")
    #expect(poll.answer().events == ["channel.deleted general"])
    try world.join("alice", "general", floor: 40, name: "General")
    let again = world.ask("\(path)?since=\(cursor)&wait=0")
    #expect(again.events.filter { $0.hasPrefix("messages") } == ["messages.replaced 4 5"])
  }

  @Test("B23: a floor raised while a poll is parked gives the rest of the window and nothing below it")
  func floorWhileParked() throws {
    let world = try world(CollectionWorld())
    defer { world.stop() }
    let (path, cursor) = open(world)
    let poll = world.held("\(path)?since=\(cursor)&wait=20")
    #expect(world.waitParked(1))
    let row = CollectionWorld.message(2, at: 20, text: "below", updatedAt: 99)
    try world.cache.write { try $0.store(row, in: ChannelURL("general"), .messageUpdated) }
    // The first change may come alone; the floor's change comes with the next answer.
    let first = poll.answer()
    try world.join("alice", "general", floor: 40, name: "General")
    let second = world.ask("\(path)?since=\(first.text("cursor"))&wait=0")
    #expect(second.events.filter { $0.hasPrefix("messages") } == ["messages.replaced 4 5"])
    let late = world.ask("\(path)?since=\(cursor)&wait=0")
    #expect(late.events.filter { $0.hasPrefix("messages") } == ["messages.replaced 4 5"])
    #expect(!late.body.contains("below"))
  }

  @Test("B23: the user's feed tells nothing of messages below the floor, however they change")
  func floorOfTheFeed() throws {
    let world = try world(CollectionWorld())
    defer { world.stop() }
    try world.join("alice", "general", floor: 25, name: "General")
    let since = world.cache.cursor
    for id in [2, 3] as [Int64] { try world.send(id, in: "general", text: "changed \(id)", updatedAt: 99) }
    let mine = world.ask("/v1/events?since=\(since)&wait=0")
    #expect(mine.body.contains("changed 3") && !mine.body.contains("changed 2"), "\(mine.body)")
    let theirs = world.ask("/v1/events?since=\(since)&wait=0", as: "bob")
    #expect(theirs.body.contains("changed 3") && theirs.body.contains("changed 2"))
    try world.delete(2, in: "general")
    #expect(!world.ask("/v1/events?since=\(since)&wait=0").body.contains("message.deleted"))
  }

  @Test("B23: after a restart a view tells nothing of messages below the floor, however they change")
  func floorAfterRestart() throws {
    let world = try world(CollectionWorld())
    defer { world.stop() }
    try world.join("alice", "general", floor: 25, name: "General")
    let (path, _) = open(world)
    let cursor = world.ask(path + "?since=now&wait=0").text("cursor")
    try world.restart()
    try world.send(2, in: "general", text: "changed below", updatedAt: 99)
    try world.delete(1, in: "general")
    try world.send(3, in: "general", text: "changed above", updatedAt: 99)
    let poll = world.ask(path + "?since=\(cursor)&wait=0")
    #expect(poll.body.contains("changed above"), "\(poll.body)")
    #expect(!poll.body.contains(#""message_id":"1""#) && !poll.body.contains(#""message_id":"2""#))
  }

  @Test("B50, B69: of several followed views the lost one tells channel.deleted once, the others go on")
  func lostAmongSeveral() throws {
    let world = try world(CollectionWorld())
    defer { world.stop() }
    try world.join("alice", "random", name: "Random")
    try world.list([1], in: "random")
    let one = world.post("/v1/message-collections", #"{"channel_url":"general"}"#)
    let two = world.post("/v1/message-collections", #"{"channel_url":"random"}"#)
    let path = "/v1/events?collections=\(one.text("id")),\(two.text("id"))&wait=0&since="
    try world.leave("alice", "general")
    try world.send(7, in: "random")
    let poll = world.ask(path + two.text("cursor"))
    #expect(poll.status == 200)
    #expect(poll.events.contains("channel.deleted general") && poll.events.contains("messages.added 7"))
    try world.send(8, in: "random")
    let next = world.ask(path + poll.text("cursor"))
    #expect(next.status == 200 && next.events == ["messages.added 8"])
    let again = world.ask(path + two.text("cursor"))
    #expect(again.events.contains("channel.deleted general"), "a lost answer is given again")
  }

  @Test("B4 B50: parked polls of a user whose data is removed are told which list is gone, or to read again")
  func removedWhileParked() throws {
    let world = try world(CollectionWorld())
    defer { world.stop() }
    let lists = (0..<2).map { _ in world.post("/v1/channel-collections", "{}") }
    let names = lists.map { $0.text("id") }
    let paths = [
      "/v1/events?collections=\(names[0]),\(names[1])&", "/v1/events?collections=\(names[1])&",
      "/v1/channel-collections/\(names[1])/events?", "/v1/events?",
    ]
    let polls = paths.map { path in
      world.held("\(path)since=\(lists[1].text("cursor"))&wait=10", headers: ["Perch-User": "alice"])
    }
    #expect(world.waitParked(paths.count))
    try world.cache.write { try $0.remove(UserID("alice")) }
    let answers = polls.map { $0.answer() }
    #expect(answers.map(\.status) == [404, 404, 404, 410])
    #expect(answers.prefix(3).allSatisfy { $0.text("code") == "collection_not_found" })
    #expect(answers.map { $0.text("collection_id") } == [names[0], names[1], "", ""])
    #expect(answers[3].text("code") == "cursor_expired", "no view is gone: \(answers[3].body)")
  }
}
