import ChatModel
import Platform
import TestSupport
import Testing

@testable import ChatCache
@testable import ChatSync
@testable import Origin

/// Lists of more members than a channel's object has, over the stand-in upstream and real sockets: whatever
/// its pages say, a complete list names no user who left (B8, B10, B27).
@Suite(.timeLimit(.minutes(5)), .serialized)
struct MemberTests {
  private static let url = ChannelURL("crowd")
  private static let people = (0..<130).map { "p" + String(1_000 + $0).dropFirst() }

  /// A channel of 131 members, of whom only alice is connected here.
  private func crowd(hasWebhooks: Bool = false) async throws -> Sides {
    let sides = try Sides(messages: 1, hasWebhooks: hasWebhooks)
    try await sides.here.worker.start()
    if hasWebhooks { sides.there.receiver.withLock { $0 = sides.here.worker } }
    for person in Self.people { try sides.there.remember(person) }
    try sides.there.makeChannel("crowd", ["alice"] + Self.people)
    if hasWebhooks {
      // Nobody of the new channel is here yet, so its webhook does not make a later listing incomplete.
      let isTaken = await World.wait {
        sides.there.taken.withLock { all in
          all.contains { String(decoding: $0, as: UTF8.self).contains("\"crowd\"") }
        }
      }
      #expect(isTaken)
    }
    _ = sides.here.syncRequests.seen(UserID("alice"))
    #expect(
      await World.wait { sides.here.syncRequests.connection(of: UserID("alice")).progress.phase == .steady })
    return sides
  }

  private func there(_ sides: Sides) throws -> [String] {
    try sides.there.origin.store.read { db, _ in
      try db.all(
        """
        SELECT m.user_id
        FROM member m
        JOIN channel c ON c.id = m.channel
        WHERE c.url = 'crowd'
        ORDER BY m.user_id
        """
      ) { $0.string(0) }
    }
  }

  private func here(_ sides: Sides) throws -> (names: [String], isComplete: Bool) {
    try sides.here.cache.read { reader in
      let names = try reader.db.all(
        """
        SELECT m.user_id
        FROM member m
        JOIN channel c ON c.id = m.channel
        WHERE c.channel_url = 'crowd'
        ORDER BY m.user_id
        """
      ) { $0.string(0) }
      return (names, try reader.memberList(of: Self.url).isComplete)
    }
  }

  private func counted(_ sides: Sides) throws -> Int64 {
    try sides.here.cache.read { reader in
      try reader.db.first("SELECT member_count FROM channel WHERE channel_url = 'crowd'") { $0.int64(0) } ?? 0
    }
  }

  private func leave(_ people: some Sequence<String>, _ sides: Sides) throws {
    try sides.there.perform(
      .write(Members.leave), ["channel_url": "crowd"], ["user_ids": .array(people.map(Value.string))])
  }

  private func join(_ person: String, _ sides: Sides) throws {
    try sides.there.remember(person)
    try sides.there.perform(
      .write(Members.join), ["channel_url": "crowd"], ["user_id": .string(person)])
  }

  private func fault(_ fault: [String: Value], on path: String = "*/members", _ sides: Sides) throws {
    var fault = fault
    fault["path"] = .string(path)
    try sides.there.set(OriginSide.Weather(), [.object(fault)], seed: 1)
  }

  private func fetch(_ sides: Sides) async -> SyncOutcome {
    await sides.here.worker.fetchMembers(of: [Self.url])
  }

  @Test("B8: 28 of 131 leave unseen; no list with ghosts is complete, and one that is asked for is exact")
  func ghosts() async throws {
    let sides = try await crowd()
    #expect(try !here(sides).isComplete, "the channel itself shows the first hundred")
    let before = sides.here.requests
    #expect(await fetch(sides) == .stored)
    #expect(sides.here.requests - before <= 8, "two pages and the count, beside the polls")
    #expect(try here(sides) == (try there(sides), true))
    try leave(Self.people[10..<38], sides)
    #expect(await World.wait { (try? counted(sides)) == 103 })
    #expect(try !here(sides).isComplete)
    #expect(await fetch(sides) == .stored)
    let (names, isComplete) = try here(sides)
    #expect(names == (try there(sides)) && names.count == 103 && isComplete)
    await sides.end()
  }

  @Test("B8: members who leave between two pages, shown or not yet, are no members when the list is complete")
  func betweenPages() async throws {
    let sides = try await crowd(hasWebhooks: true)
    try fault(["kind": .string("delay"), "milliseconds": .integer(300)], sides)
    let worker = sides.here.worker
    let fetching = Task { await worker.fetchMembers(of: [Self.url]) }
    let isFirstStored = await World.wait {
      let pages = try? sides.here.cache.read { reader in
        try reader.db.first("SELECT pages FROM member_list WHERE token IS NOT NULL") { $0.int64(0) }
      }
      return pages == 1
    }
    #expect(isFirstStored)
    try leave([Self.people[3], Self.people[120]], sides)
    _ = await fetching.value
    try sides.there.calm(OriginSide.Weather())
    #expect(
      await World.wait(seconds: 30) {
        if case .stored = await fetch(sides), let list = try? here(sides) { return list.isComplete }
        return false
      })
    let (names, _) = try here(sides)
    #expect(names == (try there(sides)) && names.count == 129)
    await sides.end()
  }

  @Test("B10: webhooks of joins and leaves keep a whole list in step, without listing it again")
  func inStep() async throws {
    let sides = try await crowd(hasWebhooks: true)
    #expect(await fetch(sides) == .stored)
    // From here on the upstream refuses the list.
    try fault(["kind": .string("deny"), "code": .integer(400108)], sides)
    try leave([Self.people[5], Self.people[125]], sides)
    #expect(await World.wait { (try? here(sides)).map { $0.isComplete && $0.names.count == 129 } ?? false })
    #expect(try here(sides).names == (try there(sides)))
    try join("zoe", sides)
    #expect(await World.wait { (try? here(sides)).map { $0.isComplete && $0.names.count == 130 } ?? false })
    #expect(try here(sides).names == (try there(sides)))
    let name = try sides.here.cache.read { reader in
      try reader.db.first("SELECT nickname_key FROM member WHERE user_id = 'zoe'") { $0.string(0) }
    }
    #expect(name == "zoe")
    await sides.end()
  }

  @Test(
    "B27: a stale, empty or cut list takes nobody away, and is not called complete where it lacks somebody",
    arguments: ["stale_page", "empty_page", "cut_page"])
  func wrongPages(kind: String) async throws {
    let sides = try await crowd(hasWebhooks: true)
    #expect(await fetch(sides) == .stored)
    try fault(["kind": .string(kind), "milliseconds": .integer(600_000)], sides)
    try join("zoe", sides)
    #expect(await World.wait { (try? here(sides)).map { $0.isComplete && $0.names.count == 132 } ?? false })
    #expect(await fetch(sides) == .stored)
    let (names, isComplete) = try here(sides)
    #expect(names == (try there(sides)), "nobody went")
    // The worker asks by id for the one member whom the stale list lacks; about an empty list it cannot
    // decide.
    #expect(isComplete == (kind != "empty_page"), "\(kind)")
    #expect(await fetch(sides) == (kind != "empty_page" ? .stored : .failed(.failed(reason: Self.pause))))
    await sides.end()
  }

  private static let pause = "the last listing of the members was not complete"

  @Test("B8: a list that the upstream refuses is served as it is known, not complete")
  func refused() async throws {
    let sides = try await crowd()
    try fault(["kind": .string("deny"), "code": .integer(400108)], sides)
    guard case .failed(.rejected(let code, _)) = await fetch(sides) else {
      Issue.record("it was refused")
      return await sides.end()
    }
    #expect(code == 400108)
    #expect(try here(sides).names.count == 100 && !here(sides).isComplete)
    #expect(sides.here.syncRequests.connection(of: UserID("alice")).error == nil)
    await sides.end()
  }

  @Test("a listing that a stop cuts off goes on at its page after the start")
  func restart() async throws {
    let sides = try await crowd()
    // The first page comes, the second one does not.
    let listing = try #require(try await sides.store.beginMembers(of: Self.url, anew: false))
    #expect(try await sides.store.store([], of: Self.url, in: listing, next: "p098"))
    try await sides.here.restart()
    _ = sides.here.syncRequests.seen(UserID("alice"))
    #expect(
      await World.wait { sides.here.syncRequests.connection(of: UserID("alice")).progress.phase == .steady })
    #expect(await fetch(sides) == .stored)
    #expect(try here(sides) == (try there(sides), true), "what the first part did not show is listed again")
    await sides.end()
  }
}

extension Sides {
  /// The worker's store over the cache.
  fileprivate var store: CacheStore { CacheStore(here.cache) }
}
