import ChatCache
import ChatModel
import MicroHTTP
import Platform
import TestSupport
import Testing

@testable import ChatAPI

/// Lists of members over HTTP, with a scripted sync worker: incomplete lists are fetched.
@Suite(.timeLimit(.minutes(5))) struct MemberRouteTests {
  private static let path = "/v1/channels/general/members"

  private static func show(_ names: [String], of count: Int64, in url: String, _ cache: Cache) throws {
    var record = CollectionWorld.channel(url, floor: 0, name: "", last: 1)
    record.memberCount = count
    record.members = names.map {
      MemberRecord(userID: $0, nickname: $0, state: .joined, body: Array("\"user_id\":\"\($0)\"".utf8))
    }
    let shown = record
    try cache.write { _ = try $0.store([shown], of: UserID("alice"), .refresh(.channelRefresh)) }
  }

  private func world() throws -> CollectionWorld {
    let world = try CollectionWorld()
    try world.join("alice", "general")
    try Self.show(["alice", "bob"], of: 3, in: "general", world.cache)
    return world
  }

  private func get(
    _ world: CollectionWorld, _ path: String, _ headers: [String: String] = [:]
  ) -> Answer {
    ask(world.server, path, headers: headers.merging(["Perch-User": "alice"]) { one, _ in one })
  }

  private func fetches(_ world: CollectionWorld) -> [[String]] {
    world.syncRequests.calls.compactMap {
      if case .fetchMembers(let urls, _) = $0 { urls.map(\.text) } else { nil }
    }
  }

  @Test("B15: a list that is not whole is fetched first; then it is complete, and nobody is asked again")
  func fetched() throws {
    let world = try world()
    defer { world.stop() }
    let cache = world.cache
    world.syncRequests.tell {
      $0.onFetchMembers = { _ in
        do { try Self.show(["alice", "bob", "carol"], of: 3, in: "general", cache) } catch {
          return .failed(.storage(reason: "\(error)"))
        }
        return .stored
      }
    }
    let first = get(world, Self.path)
    #expect(first.status == 200 && first["Cache-Status"] == "perch; fwd=miss; stored")
    #expect(first.body.contains("carol") && first.body.contains(#""complete":true"#))
    let second = get(world, Self.path)
    #expect(second["Cache-Status"] == "perch; hit" && second.body.contains(#""complete":true"#))
    #expect(fetches(world) == [["general"]])
    #expect(get(world, Self.path, ["Cache-Control": "no-cache"]).status == 200)
    #expect(fetches(world).count == 2, "no-cache asks upstream first")
  }

  @Test(
    "B8: a page that cannot be had is answered from the cache and is not complete",
    arguments: [
      (SyncOutcome.failed(.unreachable(.unreachable, retryAfter: 1)), "perch; hit; detail=offline"),
      (.failed(.rejected(code: 400108, message: "no")), "perch; fwd=partial"), (.late, "perch; fwd=partial"),
    ])
  func failed(fetched: SyncOutcome, status: String) throws {
    let world = try world()
    defer { world.stop() }
    world.syncRequests.tell { $0.onFetchMembers = { _ in fetched } }
    let answer = get(world, Self.path)
    #expect(answer.status == 200 && answer["Cache-Status"] == status)
    #expect(answer.body.contains("bob") && answer.body.contains(#""complete":false"#))
    let cached = get(world, Self.path, ["Cache-Control": "only-if-cached"])
    #expect(cached.body.contains(#""complete":false"#) && fetches(world).count == 1)
  }

  @Test("B1: who is put out while the list is fetched gets no member of it")
  func putOut() throws {
    let world = try world()
    defer { world.stop() }
    let cache = world.cache
    world.syncRequests.tell {
      $0.onFetchMembers = { _ in
        do {
          try cache.write {
            try $0.removeMembership(of: UserID("alice"), in: ChannelURL("general"), .memberLeft)
          }
        } catch { return .failed(.storage(reason: "\(error)")) }
        return .stored
      }
    }
    let answer = get(world, Self.path)
    #expect(answer.status == 404 && !answer.body.contains("bob"))
  }

  @Test("a note that members came or went changes the tag: nobody is told 304 of a list that may be another")
  func tag() throws {
    let world = try world()
    defer { world.stop() }
    try Self.show(["alice", "bob"], of: 2, in: "general", world.cache)
    let first = get(world, Self.path)
    let tag = try #require(first["ETag"])
    #expect(first.body.contains(#""complete":true"#))
    #expect(get(world, Self.path, ["If-None-Match": tag]).status == 304)
    let note = WebhookNote(kind: .channel, channel: ChannelURL("general"), source: .memberLeft)
    try world.cache.write { _ = try $0.note([note]) }
    let second = get(world, Self.path, ["If-None-Match": tag])
    #expect(second.status == 200 && second.body.contains(#""complete":false"#))
  }

  @Test(
    "B8, B15: a list of channels filtered by members fetches those of at most three channels that need them",
    arguments: [false, true])
  func filters(isCollection: Bool) throws {
    let world = try world()
    defer { world.stop() }
    for number in 0..<5 {
      try Self.show(["alice"], of: 200, in: "c\(number)", world.cache)
    }
    try Self.show(["alice"], of: 1, in: "alone", world.cache)
    let answer: Answer
    if isCollection {
      answer = ask(
        world.server, "/v1/channel-collections", method: "POST",
        headers: ["Perch-User": "alice", "Content-Type": "application/json"],
        body: #"{"query":{"user_ids_include":["bob"]}}"#)
      #expect(answer.status == 201)
    } else {
      answer = get(world, "/v1/channels?user_ids_include=bob")
      #expect(answer.status == 200 && answer["Cache-Status"] == "perch; fwd=miss; stored")
    }
    #expect(answer.body.contains(#""complete":false"#))
    let asked = try #require(fetches(world).first)
    #expect(fetches(world).count == 1 && asked.count == 3 && !asked.contains("alone"))
    _ = get(world, "/v1/channels")
    #expect(fetches(world).count == 1, "a list that filters by no member asks for none")
  }
}
