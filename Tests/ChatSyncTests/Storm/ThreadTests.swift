import ChatModel
import Platform
import TestSupport
import Testing

@testable import ChatCache
@testable import ChatSync
@testable import Origin

/// Threads whose replies lie far back, over the stand-in upstream and real sockets: the worker lists them as
/// threads.
@Suite(.timeLimit(.minutes(5)), .serialized)
struct ThreadTests {
  private static let url = ChannelURL("c0")

  /// Message 1 with `replies` replies, and 1 500 messages after them.
  private func sides(replies: Int, polls: Bool = false) async throws -> Sides {
    var pace = PerchSide.pace
    pace.prefetchMessages = 50
    if !polls {
      pace.openPoll = 3_600_000
      pace.userPoll = 3_600_000
      pace.sweep = 3_600_000
    }
    let sides = try Sides(messages: 1, pace: pace)
    for number in 0..<replies {
      sides.there.send(
        "c0", "reply \(number)", by: number % 2 == 0 ? "bob" : "carol",
        at: 1_700_000_001_000 + Int64(number), parent: 1)
    }
    for number in 0..<1_500 {
      sides.there.send("c0", "later \(number)", at: 1_700_000_100_000 + Int64(number))
    }
    try await sides.here.worker.start()
    _ = sides.here.syncRequests.seen(UserID("alice"))
    #expect(
      await World.wait { sides.here.syncRequests.connection(of: UserID("alice")).progress.phase == .steady })
    #expect(await World.wait { (try? sides.here.channel("c0", from: .start)?.rows.count) ?? 0 >= 50 })
    // Wait until the first sync sends no more requests, so that only the page's own requests are counted.
    var seen = -1
    while !polls, seen != sides.here.requests {
      seen = sides.here.requests
      try await Task.sleep(for: .milliseconds(500))  // because quiet has a length
    }
    return sides
  }

  /// A page of the thread, fetched as a request does it: its rows, and the number of upstream requests.
  private func page(
    _ sides: Sides, limit: Int = 30, before: Position? = nil
  ) async throws -> (ids: [Int64], requests: Int, isComplete: Bool, hasPrevious: Bool, previous: Position?) {
    var filter = MessageQuery()
    filter.parent = 1
    let anchor = before.map { PageAnchor.before($0, isInclusive: false) } ?? .newest
    let query = MessagePageQuery(anchor, limit: limit, filter: filter)
    var through = ReadThrough(rows: limit)
    let first = sides.here.requests
    while true {
      let link = sides.here.syncRequests.link
      let interval = sides.here.syncRequests.pollInterval(of: Self.url)
      let now = sides.here.cache.clock.wallMilliseconds()
      var wanted: MessageSyncRequest.Stretch?
      let found = try sides.here.cache.read { reader in
        let user = try #require(try reader.cachedUser(UserID("alice")))
        let view = try #require(try reader.view(of: Self.url, for: user.key))
        let ground = MessagePageGround(
          anchor, try reader.coverage(of: view.channel, thread: 1), view, link: link,
          interval: interval, now: now)
        let page = try reader.page(query, in: view, on: ground)
        wanted = through.next(page.found(anchor))
        let text = String(decoding: page.items.array, as: UTF8.self)
        let ids = text.matches(of: #/"message_id":"([0-9]+)"/#).compactMap { Int64($0.1) }
        return (ids, page.isComplete, page.hasPrevious, page.span?.lowerBound)
      }
      guard let wanted else {
        return (found.0, sides.here.requests - first, found.1, found.2, found.3)
      }
      _ = await sides.here.worker.fetch(MessageSyncRequest(Self.url, wanted, thread: 1))
    }
  }

  private func line(_ sides: Sides) throws -> [ClosedRange<Position>] {
    try sides.here.channel("c0", from: .start)?.coverage.segments.filter(\.isCovered).map(\.range) ?? []
  }

  @Test(
    "replies 1 500 messages back are on the first page after at most 2 requests; the line is not touched",
    arguments: [3, 30, 99, 250])
  func farBack(replies: Int) async throws {
    let sides = try await sides(replies: replies)
    let before = try line(sides)
    let ids = (0..<replies).map { Int64($0 + 2) }
    let page = try await page(sides)
    #expect(page.ids == Array(ids.suffix(30)))
    #expect(page.requests <= 2, "\(page.requests) requests")
    #expect(page.isComplete)
    #expect(page.hasPrevious == (replies > 30))
    #expect(try line(sides) == before)
    // The other pages follow without a gap, and the last one proves that it is the last.
    var (all, position, turns) = (page.ids, page.previous, 0)
    var hasPrevious = page.hasPrevious
    while hasPrevious, turns < 20 {
      turns += 1
      let older = try await self.page(sides, before: position)
      all = older.ids + all
      (position, hasPrevious) = (older.previous ?? position, older.hasPrevious)
      if older.ids.isEmpty { break }
    }
    #expect(all == ids && !hasPrevious)
    #expect(try line(sides) == before)
    await sides.end()
  }

  @Test("a thread without replies is known to be empty, and asked for no more while its end is live")
  func empty() async throws {
    let sides = try await sides(replies: 0)
    let page = try await page(sides)
    #expect(page.ids.isEmpty && !page.hasPrevious && page.isComplete && page.requests <= 2)
    #expect(try await self.page(sides).requests == 0)
    await sides.end()
  }

  @Test("B27: a reply that was deleted far back goes when the upstream says so by its id")
  func deleted() async throws {
    let sides = try await sides(replies: 30)
    _ = try await page(sides)
    try sides.there.set(
      OriginSide.Weather(), [.object(["kind": .string("empty_page"), "path": .string("*/messages")])], seed: 1
    )
    _ = await sides.here.worker.fetch(MessageSyncRequest(Self.url, .newest, thread: 1))
    #expect(try await page(sides).ids.count == 30, "an empty page takes nothing away")
    try sides.there.calm(OriginSide.Weather())
    sides.there.delete("c0", 10)
    // The link may be in doubt after the empty page, so ask for the thread until it is complete.
    #expect(
      await World.wait {
        _ = await sides.here.worker.fetch(MessageSyncRequest(Self.url, .newest, thread: 1))
        return (try? await self.page(sides).ids.count) == 29
      })
    #expect(try await !page(sides).ids.contains(10))
    await sides.end()
  }

  @Test("an upstream that answers with other messages is asked for the channel's line instead")
  func ignored() async throws {
    let sides = try await sides(replies: 30)
    try sides.there.origin.setFaults(
      .object(["capabilities": .object(["thread_listing": .bool(false)])]))
    #expect(await sides.here.worker.fetch(MessageSyncRequest(Self.url, .newest, thread: 1)) == .stored)
    #expect(await sides.here.worker.ignoresThreads)
    #expect(try await page(sides).ids.isEmpty, "the line knows nothing of them yet")
    await sides.end()
  }

  @Test("B16: a view of a thread far back gets its replies with its first answer")
  func view() async throws {
    let sides = try await sides(replies: 30, polls: true)
    sides.here.syncRequests.opened(
      OpenView(id: "view", channel: Self.url, isAtNewest: true, thread: 1), isOwedAnswer: true)
    #expect(await World.wait { (try? sides.events(.collectionAnswered)) == 1 })
    let coverage = try sides.here.cache.read { reader in
      try reader.coverage(of: try #require(try reader.channelKey(of: Self.url)), thread: 1)
    }
    #expect(coverage.gaps.isEmpty)
    await sides.end()
  }
}
