import ChatModel
import Platform
import Testing

@testable import ChatCache

/// Clearing cached data on request.
@Suite struct ClearingTests {
  @Test("B58: clearing a channel leaves one gap, tells no deletion, and counts nothing twice afterwards")
  func channel() throws {
    let world = try ChannelWithMessages()
    defer { world.cache.close() }
    let rows = (1...5).map { ChannelWithMessages.message($0, at: $0 * 10) }
    try world.listNewest(rows, limit: 100)
    let before = try unread(world)
    let mark = world.cache.cursor.sequence
    let url = world.url
    try world.cache.write { try $0.clear(url) }
    let page = try world.page(MessagePageQuery())
    #expect(page.ids.isEmpty && !page.isComplete)
    let told = try world.cache.read { reader in
      try reader.db.all("SELECT kind FROM event WHERE seq > ?1") {
        $0.bind(1, mark)
      } _: {
        ChangeKind(rawValue: $0.int64(0))
      }
    }
    #expect(told.contains(.cacheCleared) && told.contains(.coverage) && !told.contains(.messageDeleted))
    try world.listNewest(rows, limit: 100)
    #expect(try world.page(MessagePageQuery()).ids == [1, 2, 3, 4, 5])
    #expect(try unread(world) == before, "what comes back is not new")
  }

  @Test("B33 B58: a page below the newest one does not make a cleared channel prefetched")
  func olderPage() throws {
    let world = try ChannelWithMessages()
    defer { world.cache.close() }
    let rows = (1...5).map { ChannelWithMessages.message($0, at: $0 * 10) }
    let url = world.url
    func isPrefetched() throws -> Bool? { try world.cache.read { try $0.line(of: url)?.isPrefetched(200) } }
    // The oldest message, and an empty page, which proves that nothing is older.
    let oldest = rows[0].position
    func listOldest() throws {
      for (includesAnchor, rows) in [(true, [rows[0]]), (false, [])] {
        let window = MessageWindow(
          .message(oldest), older: 100, newer: 0, includesAnchor: includesAnchor)
        try world.list(
          MessageListing(window: window, rows: rows, isWhole: true, askedAt: world.cache.cursor.sequence))
      }
    }
    try world.listNewest(rows, limit: 100)
    try listOldest()
    #expect(try isPrefetched() == true, "the channel's beginning is cached")
    try world.cache.write { try $0.clear(url) }
    try listOldest()
    #expect(try world.cache.read { try $0.line(of: url)?.reachesBeginning } == true)
    #expect(try isPrefetched() == false, "the newest page is not cached")
    try world.listNewest(rows, limit: 100)
    #expect(try isPrefetched() == true)
  }

  @Test("B58: what was asked for before a clear is not stored after it", arguments: [false, true])
  func askedBefore(isAll: Bool) throws {
    let world = try ChannelWithMessages()
    defer { world.cache.close() }
    let (url, alice) = (world.url, world.alice)
    let rows = (1...5).map { ChannelWithMessages.message($0, at: $0 * 10) }
    let listing = MessageListing(
      window: MessageWindow(.newest, older: 100, newer: 0), rows: rows, isWhole: true,
      askedAt: world.cache.cursor.sequence)
    let context = ListingContext(source: .apiResult, generation: 1)
    try world.cache.write { writer in
      guard isAll else { return try writer.clear(url) }
      try writer.clearAll(withUnsent: false)
      _ = try writer.store([ChannelWithMessages.channel(url)], of: alice, .listing(sweep: 2))
    }
    try world.cache.write { writer in
      try writer.store([listing], in: url, context)
      try writer.store(rows[0], in: url, .apiResult, askedAt: listing.askedAt)
    }
    let page = try world.page(MessagePageQuery())
    #expect(page.ids.isEmpty && !page.isComplete)
    var later = listing
    later.askedAt = world.cache.cursor.sequence
    let again = later
    try world.cache.write { try $0.store([again], in: url, context) }
    #expect(try world.page(MessagePageQuery()).ids == [1, 2, 3, 4, 5])
  }

  @Test("B11 B58: a sweep that began before everything was cleared does not end the listing")
  func sweepBefore() throws {
    let world = try ChannelWithMessages()
    defer { world.cache.close() }
    let (alice, mark) = (world.alice, world.cache.cursor.sequence)
    try world.cache.write { writer in
      try writer.clearAll(withUnsent: false)
      try writer.endListing(of: alice, begunAt: mark)
    }
    #expect(try world.cache.read { try $0.knownUsers() }.allSatisfy { !$0.isSynced })
    let later = world.cache.cursor.sequence
    try world.cache.write { try $0.endListing(of: alice, begunAt: later) }
    #expect(try world.cache.read { try $0.knownUsers() }.contains { $0.isSynced })
  }

  @Test("B37 B58: a request id is remembered after its unsent message was cleared with everything")
  func requestMemory() throws {
    let cache = try OutboxTableTests.open(Disk.folder())
    defer { cache.close() }
    try OutboxTableTests.prepare(cache)
    let request = OutboxTableTests.request("once")
    let first = try cache.accept { try $0.accept(request, in: OutboxTableTests.laneKey) }
    guard case .row = first else {
      Issue.record("\(first)")
      return
    }
    try cache.accept { try $0.clearAll(withUnsent: true) }
    #expect(try cache.read { try $0.unsent(of: UserKey(1)) } == (0, 0))
    let again = try cache.accept { try $0.accept(request, in: OutboxTableTests.laneKey) }
    guard case .replay(let status) = again else {
      Issue.record("\(again)")
      return
    }
    #expect(status.end == "removed" && status.row == nil)
    let other = OutboxTableTests.request("once", .message, #"{"message":"other"}"#)
    #expect(try cache.accept { try $0.accept(other, in: OutboxTableTests.laneKey) } == .mismatch)
  }

  @Test("B4: what is unsent is counted in the commit that would remove it")
  func forgetting() throws {
    let cache = try OutboxTableTests.open(Disk.folder())
    defer { cache.close() }
    try OutboxTableTests.prepare(cache)
    let alice = UserID("alice")
    // Both writes wait for the writer: the message is accepted first, so the user is not removed.
    let counted = Guarded<Int64?>(nil)
    cache.accept {
      _ = try $0.accept(OutboxTableTests.request("late"), in: OutboxTableTests.laneKey)
    } finish: { _ in
    }
    cache.accept {
      try $0.forget(alice, isForced: false)
    } finish: { outcome in
      if case .success(let unsent) = outcome { counted.withLock { $0 = unsent } }
    }
    #expect(try cache.accept { try $0.forget(alice, isForced: false) } == 1)
    #expect(counted.withLock { $0 } == 1)
    #expect(try cache.read { try $0.unsent(of: UserKey(1)) }.pending == 1)
    #expect(try cache.accept { try $0.forget(alice, isForced: true) } == 0)
    #expect(try cache.read { try $0.userKey(of: alice) } == nil)
  }

  private func unread(_ world: ChannelWithMessages) throws -> UnreadTotals {
    try world.cache.read { try $0.unread(of: $0.cachedUser(world.alice)!.key) }
  }

  @Test("B52 B58: clearing everything begins a new epoch; no number of a channel or user is given again")
  func everything() throws {
    let world = try ChannelWithMessages()
    defer { world.cache.close() }
    let before = world.cache.cursor
    let (channel, user) = try world.cache.read { reader in
      (try reader.channelKey(of: world.url), try reader.userKey(of: world.bob))
    }
    let (url, bob) = (world.url, world.bob)
    try world.cache.write { try $0.clearAll(withUnsent: false) }
    #expect(world.cache.cursor.epoch != before.epoch)
    #expect(try world.cache.read { try !$0.covers(before) })
    #expect(try world.cache.read { try $0.channelKey(of: url) } == nil)
    try world.cache.write { writer in
      try writer.remove(bob)
      try writer.acknowledge(UserID("carol"))
      _ = try writer.store([ChannelWithMessages.channel(url)], of: UserID("carol"), .listing(sweep: 2))
    }
    let again = try world.cache.read { reader in
      (try reader.channelKey(of: url), try reader.userKey(of: UserID("carol")))
    }
    #expect(again.0 != nil && again.0 != channel && again.1 != nil && again.1 != user)
  }
}
