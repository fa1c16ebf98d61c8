import CSQLite
import ChatModel
import Glibc
import Platform
import SQLite
import TestSupport
import Testing

@testable import ChatCache

/// Evicted messages: what is left, which events are written, and what comes back.
@Suite struct EvictionTests {
  private static func rows(_ ids: ClosedRange<Int64>, text: String = "hello") -> [MessageRecord] {
    ids.map { ChannelWithMessages.message($0, at: $0 * 10, text: text) }
  }

  private static func position(_ id: Int64) -> Position { Position(createdAt: id * 10, messageID: id) }

  /// Evicts one slice, whatever the cache's size.
  private static func evict(_ world: EvictionWorld, _ index: Int, rows: Int) throws -> EvictedSlice {
    let channel = world.channels[index]
    let slice = EvictionSlice(channel: channel.key, accessedAt: channel.accessedAt, rows: rows)
    return try world.cache.write { try $0.evict(slice) }
  }

  @Test("B57: a slice takes the oldest, with its gap in the same commit, and tells nothing yet")
  func slice() throws {
    let world = try EvictionWorld(channels: 1)
    try world.list(Self.rows(1...50), limit: 100, in: 0)
    let since = world.cache.cursor.sequence
    let done = try Self.evict(world, 0, rows: 20)
    #expect(done.outcome == .more && done.messages == 20)
    let line = try world.coverage(of: 0)
    #expect(line.gaps.map(\.gap?.reason) == [.neverLoaded, .evicted])
    #expect(line.gaps.last?.range == Self.position(1)...Self.position(20))
    #expect(line.tail.confirmedAt != nil && line.newestCovered == Self.position(50))
    #expect(try world.changes(Set(ChangeKind.allCases), since: since).isEmpty)
    #expect(try world.cache.read { try $0.isEvicting() })
    try world.cache.write { try $0.endEvicting() }
    #expect(try world.changes(Set(ChangeKind.allCases), since: since).map(\.kind) == [.coverage])
    #expect(try !world.cache.read { try $0.isEvicting() })
    #expect(try world.cache.check().isSound)
  }

  @Test("B57: a slice of large messages ends by their bytes")
  func large() throws {
    let world = try EvictionWorld(channels: 1)
    try world.list(Self.rows(1...20, text: String(repeating: "x", count: 300_000)), limit: 100, in: 0)
    #expect(try Self.evict(world, 0, rows: 500).messages == 4)
    #expect(try world.cache.check().isSound)
  }

  @Test("B57: where all messages went the newest end stays known, and the channel is not behind")
  func whole() throws {
    let world = try EvictionWorld(channels: 1)
    let (url, alice) = (world.channels[0].url, world.alice)
    try world.list(Self.rows(1...50), limit: 100, in: 0)
    #expect(try Self.evict(world, 0, rows: 500).messages == 50)
    #expect(try Self.evict(world, 0, rows: 500).outcome == .exhausted)
    let line = try #require(try world.cache.read { try $0.line(of: url) })
    #expect(line.isAboveEvicted && line.evictedEnd == Self.position(50) && line.isPrefetched(200))
    let last = ChannelWithMessages.message(50, at: 500)
    let met = try world.cache.write {
      try $0.store([ChannelWithMessages.channel(url, last: .message(last))], of: alice, .top)
    }
    #expect(met.map(\.isBehind) == [false])
    let newer = ChannelWithMessages.message(51, at: 510)
    let news = try world.cache.write {
      try $0.store([ChannelWithMessages.channel(url, last: .message(newer))], of: alice, .top)
    }
    #expect(news.map(\.isBehind) == [true])
  }

  @Test("B33: prefetch ends above what was evicted; after a clear it begins anew")
  func prefetched() throws {
    let world = try EvictionWorld(channels: 1)
    let url = world.channels[0].url
    try world.list(Self.rows(1...100), limit: 100, in: 0)
    func isPrefetched() throws -> Bool? { try world.cache.read { try $0.line(of: url)?.isPrefetched(200) } }
    #expect(try isPrefetched() == false)
    _ = try Self.evict(world, 0, rows: 30)
    #expect(try isPrefetched() == true)
    try world.cache.write { try $0.clear(url) }
    #expect(try isPrefetched() == false)
    try world.list(Self.rows(1...100), limit: 100, in: 0)
    #expect(try isPrefetched() == false)
  }

  @Test("B57: a channel that was opened since the plan looked is left alone")
  func accessed() throws {
    let world = try EvictionWorld(channels: 1)
    try world.list(Self.rows(1...50), limit: 100, in: 0)
    let channel = world.channels[0]
    try world.open("v", Self.position(40)...Self.position(50), in: 0)
    let slice = EvictionSlice(channel: channel.key, accessedAt: channel.accessedAt, rows: 10)
    #expect(try world.cache.write { try $0.evict(slice) }.outcome == .accessed)
    #expect(try world.stored(in: 0).count == 50)
  }

  @Test("B57: a thread's replies go by their own position, and are known no more as listed")
  func thread() throws {
    let world = try EvictionWorld(channels: 1)
    let (url, key) = (world.channels[0].url, world.channels[0].key)
    let replies = (2...9).map { ChannelWithMessages.message($0, at: $0 * 10, parent: 1, parentAt: 10) }
    try world.list([ChannelWithMessages.message(1, at: 10)] + replies, limit: 100, in: 0)
    let listing = MessageListing(
      window: MessageWindow(.newest, older: 100, newer: 0), rows: replies, isWhole: true,
      askedAt: world.cache.cursor.sequence)
    _ = try world.cache.write {
      try $0.store([listing], ofThread: 1, in: url, ListingContext(source: .apiResult, generation: 1))
    }
    _ = try Self.evict(world, 0, rows: 5)
    let known = try world.cache.read { try $0.coverage(of: key, thread: 1) }
    #expect((1...5).allSatisfy { !known.shows(Self.position($0)) })
    #expect((6...9).allSatisfy { known.shows(Self.position($0)) })
    _ = try Self.evict(world, 0, rows: 100)
    let left = try world.cache.read { try $0.coverage(of: key, thread: 1) }
    #expect((1...9).allSatisfy { !left.shows(Self.position($0)) })
    #expect(try world.cache.check().isSound)
  }

  @Test("B57: a view of a thread spares its replies, and nothing of the channel between them")
  func threadView() throws {
    let world = try EvictionWorld(channels: 1)
    let rows = (1...30).map { ChannelWithMessages.message($0, at: $0 * 10, parent: $0 % 10 == 0 ? 1 : nil) }
    try world.list(rows, limit: 100, in: 0)
    try world.open("v", Self.position(10)...Self.position(20), hasNext: false, parent: 1, in: 0)
    while try Self.evict(world, 0, rows: 5).outcome == .more {}
    #expect(try world.stored(in: 0) == [Self.position(10), Self.position(20), Self.position(30)])
    let line = try world.coverage(of: 0)
    #expect([10, 20, 30].allSatisfy { line.shows(Self.position($0)) } && !line.shows(Self.position(15)))
    #expect(try world.cache.check().isSound)
  }

  @Test("what was asked for before an edit, and comes after the edited message went, is not believed")
  func overtaken() throws {
    let world = try EvictionWorld(channels: 1)
    let url = world.channels[0].url
    try world.list(Self.rows(1...10), limit: 100, in: 0)
    let asked = world.cache.cursor.sequence
    try world.store(ChannelWithMessages.message(3, at: 30, updatedAt: 99, text: "new"), in: 0)
    _ = try Self.evict(world, 0, rows: 5)
    let late = MessageListing(
      window: MessageWindow(.newest, older: 100, newer: 0), rows: Self.rows(1...10), isWhole: true,
      askedAt: asked)
    _ = try world.cache.write {
      try $0.store([late], in: url, ListingContext(source: .apiResult, generation: 1))
    }
    #expect(try world.stored(in: 0).count == 5)
    // The same listing with a later request is stored.
    try world.list(Self.rows(1...10), limit: 100, in: 0)
    #expect(try world.stored(in: 0).count == 10)
    #expect(try world.coverage(of: 0).gaps.map(\.gap?.reason) == [.neverLoaded])
  }

  @Test(
    "B57, B68: what comes back is not counted again as unread, also in a crowded channel",
    arguments: [false, true])
  func counts(isCrowded: Bool) throws {
    let world = try EvictionWorld(channels: 1, isCrowded: isCrowded)
    for row in Self.rows(1...10) { try world.store(row, in: 0) }
    let before = try world.unreadCounts()
    #expect(before == [10])
    _ = try Self.evict(world, 0, rows: 6)
    #expect(try world.unreadCounts() == before)
    try world.list(Self.rows(1...10), limit: 100, in: 0)
    #expect(try world.unreadCounts() == before)
  }

  @Test("B57: a pass that a stop cut off goes on, and tells what the slices before the stop took")
  func resumed() throws {
    let directory = Disk.folder()
    var world: EvictionWorld? = try EvictionWorld(channels: 2, directory: directory)
    for index in 0...1 {
      try world?.list(Self.rows(1...200, text: String(repeating: "x", count: 2_000)), limit: 300, in: index)
    }
    let since = world!.cache.cursor.sequence
    _ = try Self.evict(world!, 0, rows: 30)
    let used = try world!.cache.read { try $0.db.pageCount().usedBytes }
    world = nil
    // The cache is under its limit, but above the 85 % at which a pass ends.
    var configuration = Cache.Configuration(directory: directory)
    configuration.limit = CacheLimit(exactly: used * 110 / 100)
    let cache = try Cache(configuration)
    defer { cache.close() }
    #expect(cache.usage.usedBytes < cache.limit.bytes && cache.usage.usedBytes > cache.limit.lowMark)
    cache.noteConnection()
    for _ in 0..<200 where try cache.read({ try $0.isEvicting() }) { usleep(10_000) }
    #expect(cache.usage.usedBytes <= cache.limit.lowMark)
    let told = try cache.read { reader in
      try reader.commonChanges(in: try reader.channelKey(of: ChannelURL("c0"))!, after: since, limit: 100)
    }
    #expect(told.filter { $0.change.kind == .coverage }.count == 1)
    #expect(told.first { $0.change.kind == .coverage }?.change.stretch?.contains(Self.position(1)) == true)
  }

  @Test("B55: a commit that crosses the limit begins a pass, after the first client came or before")
  func crossing() throws {
    var configuration = Cache.Configuration(directory: Disk.folder())
    configuration.limit = CacheLimit(exactly: 6 << 20)
    let cache = try Cache(configuration)
    defer { cache.close() }
    let (alice, url) = (UserID("alice"), ChannelURL("general"))
    try cache.write { writer in
      try writer.acknowledge(alice)
      _ = try writer.store([ChannelWithMessages.channel(url)], of: alice, .listing(sweep: 1))
    }
    let text = String(repeating: "x", count: 4_000)
    for page in 0..<40 {
      let ids = Int64(page * 50 + 1)...Int64(page * 50 + 50)
      let listing = MessageListing(
        window: MessageWindow(.newest, older: 50, newer: 0), rows: Self.rows(ids, text: text),
        isWhole: true, askedAt: cache.cursor.sequence)
      try cache.write {
        _ = try $0.store([listing], in: url, ListingContext(source: .apiResult, generation: 1))
      }
    }
    for _ in 0..<500 where cache.usage.usedBytes > cache.limit.bytes { usleep(10_000) }
    #expect(cache.usage.usedBytes <= cache.limit.bytes && cache.usage.passes > 0)
    #expect(try cache.check().isSound)
  }

  @Test(
    "B55, B60: while the disk is full, or fails, a pass waits and reads go on; it ends once there is room",
    arguments: [SQLITE_FULL, SQLITE_IOERR | 4 << 8])
  func diskFull(code: Int32) throws {
    let directory = Disk.folder()
    let world = try EvictionWorld(channels: 2, directory: directory)
    let cache = world.cache
    for index in 0...1 {
      try world.list(Self.rows(1...200, text: String(repeating: "x", count: 10_000)), limit: 300, in: index)
    }
    cache.noteConnection()
    let fault = Disk(failing: .changing, in: directory, at: 30, code: code, stays: true)
    let used = try cache.read { try $0.db.pageCount().usedBytes }
    cache.setLimit(CacheLimit(exactly: used * 80 / 100))
    for _ in 0..<500 where !cache.isFailingToWrite { usleep(10_000) }
    #expect(cache.isFailingToWrite)
    for index in 0...1 {
      let rows = try world.stored(in: index)
      #expect(rows.isSubset(of: world.channels[index].rows) && rows.contains(Self.position(200)))
    }
    #expect(try cache.read { try $0.db.pageCount().usedBytes } > cache.limit.lowMark)
    #expect(fault.heal())
    for _ in 0..<1_500 where cache.usage.usedBytes > cache.limit.lowMark { usleep(10_000) }
    #expect(cache.usage.usedBytes <= cache.limit.lowMark && !cache.isFailingToWrite)
    #expect(try cache.check().isSound)
  }

  @Test("B55: where nothing is left that may go it is told once, and over when room came")
  func full() throws {
    let world = try EvictionWorld(channels: 1)
    try world.list(Self.rows(1...10), limit: 100, in: 0)
    try world.evict(downTo: 1)
    #expect(world.cache.usage.isFull && !world.cache.usage.hasRoom)
    try world.evict(downTo: 1)
    #expect(world.cache.usage.isFull)
    try world.evict(downTo: 1 << 40)
    #expect(!world.cache.usage.isFull && world.cache.usage.hasRoom)
  }
}
