import ChatModel
import Platform
import TestSupport
import Testing

@testable import ChatCache
@testable import ChatSync

/// Eviction and the sync worker do not feed each other: evicted messages are fetched when a client asks for
/// them, never prefetched (B33, B57). Over a real cache file, sockets and the stand-in, on a clock that the
/// test moves.
@Suite(.timeLimit(.minutes(10)), .serialized)
struct EvictedTests {
  private static let urls = (0..<30).map { "e\($0)" }
  private static let alice = UserID("alice")

  /// A cache that was in step with the stand-in, and of which a pass left a quarter.
  private static func evicted() async throws -> (
    desk: DefaultPaceTests.Desk, left: Int64, before: [String: [[UInt8]]]
  ) {
    let desk = try DefaultPaceTests.Desk(channels: urls, messages: 60, of: 1_500)
    try await desk.here.worker.start()
    await desk.attend()
    let isSteady = try await desk.pass(until: desk.time.now + 300_000, patience: 5) {
      try await desk.here.worker.isQuiet && messages(desk) == 60 * 30
    }
    #expect(isSteady)
    let before = try Dictionary(uniqueKeysWithValues: urls.map { ($0, try bodies(desk, $0)) })
    let empty: Int64 = 1_300_000
    let used = try desk.here.cache.read { try $0.db.pageCount().usedBytes }
    desk.here.cache.usage.set(CacheLimit(exactly: (empty + (used - empty) / 4) * 100 / 85))
    try desk.here.cache.evict()
    return (desk, try messages(desk), before)
  }

  /// The messages of a channel as they are stored.
  private static func bodies(_ desk: DefaultPaceTests.Desk, _ url: String) throws -> [[UInt8]] {
    try desk.here.cache.read { reader in
      guard let key = try reader.channelKey(of: ChannelURL(url)) else { return [] }
      return try reader.db.all("SELECT body FROM message WHERE channel = ?1 ORDER BY created_at, message_id")
      {
        $0.bind(1, key.rawValue)
      } _: {
        Array($0.bytes(0))
      }
    }
  }

  private static func messages(_ desk: DefaultPaceTests.Desk) throws -> Int64 {
    try desk.here.cache.read { try $0.info(of: nil).messages }
  }

  @Test("B33: ten minutes with nobody asking fetch nothing of what was evicted")
  func nobodyAsks() async throws {
    let (desk, left, _) = try await Self.evicted()
    #expect(left < 60 * 30 / 2)
    for isRestarted in [false, true] {
      if isRestarted { try await desk.restart() }
      let (before, start) = (desk.here.requests, desk.time.now)
      while desk.time.now < start + 600_000 {
        _ = try await desk.pass(until: desk.time.now + 100_000, patience: 5)
        await desk.here.worker.seen(Self.alice)
      }
      #expect(try Self.messages(desk) == left, "after a restart: \(isRestarted)")
      // The changelog of the user's channels every 30 s, and the requests of a start.
      #expect(desk.here.requests - before <= 30, "\(desk.here.requests - before) requests")
    }
    await desk.end()
  }

  /// The number of cached messages of each channel.
  private static func rows(_ desk: DefaultPaceTests.Desk) throws -> [String: Int64] {
    try desk.here.cache.read { reader in
      let counts = try reader.db.all("SELECT channel_url, cached_messages FROM channel") {
        ($0.string(0), $0.int64(1))
      }
      return Dictionary(uniqueKeysWithValues: counts)
    }
  }

  @Test("B33: the channels of 200 users, four times as large as the limit, stay evicted while nobody asks")
  func manyUsers() async throws {
    let users = (0..<200).map { "u\($0)" }
    let desk = try DefaultPaceTests.Desk(channels: [], messages: 0, of: 0)
    let text = String(repeating: "x", count: 1_500)
    for (number, user) in users.enumerated() {
      try desk.there.remember(user)
      try desk.there.makeChannel("p\(number)", [user, "bob"])
      for message in 0..<10 { desk.there.send("p\(number)", "\(message) \(text)") }
    }
    try await desk.here.worker.start()
    for user in users { await desk.here.worker.seen(UserID(user)) }
    #expect(
      try await desk.pass(until: desk.time.now + 600_000, patience: 5) {
        try await desk.here.worker.isQuiet && Self.messages(desk) == 2_000
      })
    let empty: Int64 = 1_300_000
    let used = try desk.here.cache.read { try $0.db.pageCount().usedBytes }
    desk.here.cache.usage.set(CacheLimit(exactly: (empty + (used - empty) / 4) * 100 / 85))
    try desk.here.cache.evict()
    let left = try Self.rows(desk)
    #expect(left.values.reduce(0, +) < 1_000)
    let start = desk.time.now
    while desk.time.now < start + 600_000 {
      _ = try await desk.pass(until: desk.time.now + 100_000, patience: 5)
      for user in users { await desk.here.worker.seen(UserID(user)) }
      #expect(try Self.rows(desk) == left)
    }
    await desk.end()
  }

  @Test("B33: with readers by a Zipf law no channel is fetched more often than somebody asked for it")
  func zipf() async throws {
    let (desk, _, _) = try await Self.evicted()
    var random = Seeded(7)
    // The n-th channel is opened 1/n as often as the first.
    let weights = (1...Self.urls.count).map { 1 / Double($0) }
    var (asked, fetches) = (Set<String>(), 0)
    var before = try Self.rows(desk)
    for number in 0..<120 {
      var dice = Double.random(in: 0..<weights.reduce(0, +), using: &random)
      let index = weights.firstIndex { weight in
        dice -= weight
        return dice < 0
      }
      let url = Self.urls[index ?? 0]
      asked.insert(url)
      let view = OpenView(id: "z\(number)", channel: ChannelURL(url), isAtNewest: true)
      desk.here.syncRequests.opened(view, isOwedAnswer: true)
      _ = try await desk.pass(until: desk.time.now + 5_000, patience: 5)
      desk.here.syncRequests.closed(view: view.id, in: view.channel)
      try desk.here.cache.evict()
      let now = try Self.rows(desk)
      for (url, count) in now where count > before[url] ?? 0 {
        #expect(asked.remove(url) != nil, "\(url) was fetched, and nobody asked for it since the last time")
        fetches += 1
      }
      before = now
    }
    #expect(fetches > 10, "the limit is so small that channels come and go")
    await desk.end()
  }

  @Test("B33: news of a channel of which all went bring what is new, and nothing of before")
  func news() async throws {
    let (desk, left, _) = try await Self.evicted()
    let url = try #require(
      try Self.urls.first { url in
        try desk.here.cache.read { try $0.line(of: ChannelURL(url)) }?.evictedEnd != nil
      })
    desk.there.send(url, "news")
    desk.there.send(url, "more news")
    let isThere = try await desk.pass(until: desk.time.now + 90_000, patience: 5) {
      try desk.here.cache.read { try $0.line(of: ChannelURL(url)) }?.rows == 2
    }
    #expect(isThere)
    #expect(try Self.messages(desk) == left + 2)
    await desk.end()
  }

  @Test("B57: what was evicted comes back when somebody opens the channel, as the stand-in has it")
  func opened() async throws {
    let (desk, _, before) = try await Self.evicted()
    let url = try #require(
      try Self.urls.first { url in
        try desk.here.cache.read { try $0.line(of: ChannelURL(url)) }?.evictedEnd != nil
      })
    desk.here.syncRequests.opened(
      OpenView(id: "v", channel: ChannelURL(url), isAtNewest: true), isOwedAnswer: true)
    let isThere = try await desk.pass(until: desk.time.now + 60_000, patience: 5) {
      try desk.here.cache.read { try $0.line(of: ChannelURL(url)) }?.rows == 60
    }
    #expect(isThere)
    #expect(try Self.bodies(desk, url) == before[url])
    #expect(try desk.here.damage() == nil)
    await desk.end()
  }
}
