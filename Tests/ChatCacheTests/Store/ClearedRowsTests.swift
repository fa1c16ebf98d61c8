import ChatModel
import JSON
import Platform
import SQLite
import TestSupport
import Testing

@testable import ChatCache

/// Clearing what is too much for one commit: it is invisible at once, and its rows are deleted in slices.
@Suite struct ClearedRowsTests {
  private static func rows(_ count: Int64) -> [MessageRecord] {
    (1...count).map { ChannelWithMessages.message($0, at: $0 * 10) }
  }

  private static func count(_ table: String, _ cache: Cache) throws -> Int {
    try cache.read { reader in
      var rows = try reader.db.rows(composed: "SELECT count(*) FROM \(table)")
      return try rows.next()?.int(0) ?? -1
    }
  }

  private static func listing(_ rows: [MessageRecord], askedAt: Int64) -> MessageListing {
    MessageListing(
      window: MessageWindow(.newest, older: rows.count, newer: 0), rows: rows, isWhole: true,
      askedAt: askedAt)
  }

  @Test("B58: a large channel is empty at once, what comes back stays, and the other rows go")
  func channel() throws {
    let world = try ChannelWithMessages(mostCleared: 100)
    defer { world.cache.close() }
    let (url, rows) = (world.url, Self.rows(3_000))
    try world.listNewest(rows, limit: 3_000)
    let mark = world.cache.cursor.sequence
    try world.cache.write { try $0.clear(url) }
    #expect(try world.page(MessagePageQuery()).ids.isEmpty)
    #expect(try !world.page(MessagePageQuery()).isComplete)
    // An answer to a request from before the clear is not stored.
    try world.list(Self.listing(rows.suffix(20), askedAt: mark))
    #expect(try world.page(MessagePageQuery()).ids.isEmpty)
    try world.listNewest(rows, limit: 30)
    try world.cache.trim()
    let shown = try world.page(MessagePageQuery()).ids
    // The listing proves nothing about the time of its oldest message.
    #expect(shown == Array(2_972...3_000), "\(shown)")
    #expect(try Self.count("message", world.cache) == 30)
    let line = try world.cache.read { reader in
      try reader.db.first("SELECT cached_messages, cleared_version IS NULL FROM channel") {
        ($0.int64(0), $0.bool(1))
      }
    }
    #expect(line?.0 == 30 && line?.1 == true)
    #expect(try world.cache.check().findings.isEmpty)
  }

  @Test("B58: an answer replaces a cleared row that is not deleted yet, also with an older state")
  func older() throws {
    let world = try ChannelWithMessages(mostCleared: 0)
    defer { world.cache.close() }
    let url = world.url
    let wrong = ChannelWithMessages.message(7, at: 70, updatedAt: 900, text: "wrong")
    let right = ChannelWithMessages.message(7, at: 70, updatedAt: 100, text: "right")
    let moved = ChannelWithMessages.message(8, at: 85, updatedAt: 100)
    try world.listNewest([wrong, ChannelWithMessages.message(8, at: 80)], limit: 100)
    // One commit, so that no slice comes in between.
    try world.cache.write { writer in
      try writer.clear(url)
      let fresh = Self.listing([right, moved], askedAt: .max)
      try writer.store([fresh], in: url, ListingContext(source: .apiResult, generation: 1))
    }
    try world.cache.trim()
    let bodies = try world.cache.read { reader in
      try reader.db.all("SELECT created_at, CAST(body AS TEXT) FROM message ORDER BY created_at") {
        (at: $0.int64(0), body: $0.string(1))
      }
    }
    #expect(bodies.map(\.at) == [70, 85])
    #expect(bodies.first?.body.contains("right") == true)
    #expect(try world.cache.check().findings.isEmpty)
  }

  @Test("B58: a message that is fetched alone shows no cleared rows after it", arguments: [500, 1_900])
  func alone(_ id: Int64) throws {
    let world = try ChannelWithMessages(mostCleared: 0)
    defer { world.cache.close() }
    let url = world.url
    try world.listNewest(Self.rows(2_000), limit: 2_000)
    // One commit, so that no slice comes in between.
    let shown = try world.cache.write { writer in
      try writer.clear(url)
      try writer.store(ChannelWithMessages.message(id, at: id * 10), in: url, .messageUpdated)
      return try world.page(MessagePageQuery(), writer.reader).ids
    }
    // After the first one more rows follow than one commit deletes, so it stays in the gap.
    #expect(shown == (id == 500 ? [] : [1_900]))
    try world.cache.trim()
    #expect(try Self.count("message", world.cache) == 1)
    #expect(try world.cache.check().findings.isEmpty)
  }

  @Test("B58: a cleared row is not the last message when the last one is deleted", arguments: [500, 2_000])
  func last(_ count: Int64) throws {
    let world = try ChannelWithMessages(mostCleared: 0)
    defer { world.cache.close() }
    let url = world.url
    try world.listNewest(Self.rows(count), limit: Int(count))
    let last = try world.cache.write { writer in
      func last() throws -> Int64? {
        try writer.reader.db.first("SELECT last_message_id FROM channel") { $0.int64OrNil(0) } ?? nil
      }
      try writer.clear(url)
      try writer.delete(message: count, in: url, .messageChangelog)
      let first = try last()
      for id in (count + 1)...(count + 2) {
        try writer.store(ChannelWithMessages.message(id, at: id * 10), in: url, .messageUpdated)
      }
      try writer.delete(message: count + 2, in: url, .messageChangelog)
      return [first, try last()]
    }
    #expect(last == [nil, count + 1])
    try world.cache.trim()
    #expect(try world.cache.check().findings.isEmpty)
  }

  @Test("B58 B68: cleared rows are not added to the chat server's unread count, whatever the last message is")
  func unread() throws {
    let world = try ChannelWithMessages(mostCleared: 0)
    defer { world.cache.close() }
    let (url, rows) = (world.url, Self.rows(50))
    try world.listNewest(rows, limit: 50)
    let unread = try world.cache.write { writer in
      try writer.acknowledge(UserID("carol"))
      try writer.clear(url)
      try writer.delete(message: 50, in: url, .messageChangelog)
      // Alice was a member before. Carol is a new one, and the chat server deleted what came after the tenth.
      for (user, last) in [
        (world.alice, ChannelRecord.LastMessage.absent), (UserID("carol"), .message(rows[9])),
      ] {
        let record = ChannelWithMessages.channel(url, unread: 2, last: last)
        _ = try writer.store([record], of: user, .listing(sweep: 2))
      }
      // What is listed again is not new.
      let again = Self.listing(Array(rows[0..<10]), askedAt: .max)
      try writer.store([again], in: url, ListingContext(source: .apiResult, generation: 1))
      return try [world.alice, UserID("carol")].map { user in
        let key = try #require(try writer.reader.cachedUser(user)).key
        return try writer.reader.unread(of: key).messages
      }
    }
    #expect(unread == [2, 2])
  }

  @Test(
    "B58: a thread's listing deletes no more cleared replies than one commit may", arguments: [500, 1_500])
  func thread(_ count: Int64) throws {
    let world = try ChannelWithMessages(mostCleared: 0)
    defer { world.cache.close() }
    let url = world.url
    let replies = (2...count).map { ChannelWithMessages.message($0, at: $0 * 10, parent: 1, parentAt: 10) }
    try world.listNewest([ChannelWithMessages.message(1, at: 10)] + replies, limit: Int(count))
    // One commit, so that no slice comes in between.
    let left = try world.cache.write { writer in
      try writer.clear(url)
      // All that the chat server has of the thread now.
      let fresh = Self.listing([replies[0], replies[replies.count - 1]], askedAt: .max)
      _ = try writer.store([fresh], ofThread: 1, in: url, ListingContext(source: .apiResult, generation: 1))
      return try writer.reader.db.first("SELECT count(*) FROM message") { $0.int64(0) }
    }
    #expect(left == (count == 500 ? 3 : 1_500), "\(left ?? -1)")
    try world.cache.trim()
    #expect(try world.cache.check().findings.isEmpty)
  }

  @Test("B58: a clear says whether it left rows, and who waits for them is told when deleting them fails")
  func waiting() throws {
    let world = try ChannelWithMessages(mostCleared: 100)
    defer { world.cache.close() }
    let (url, cache) = (world.url, world.cache)
    func clear() throws -> Bool {
      try cache.write { writer in
        try writer.clear(url)
        return writer.hasClearedRows
      }
    }
    try world.listNewest(Self.rows(50), limit: 50)
    #expect(try !clear())
    try world.listNewest(Self.rows(500), limit: 500)
    try cache.write {
      try $0.db.execute(
        "CREATE TRIGGER stays BEFORE DELETE ON message BEGIN SELECT RAISE(ABORT, 'stays'); END")
    }
    let told = Watched(false)
    // On the writer's thread, so that no slice comes in between.
    cache.accept({ try $0.clear(url) }) { _ in
      if cache.areClearedRowsDeleted(else: { told.update { $0 = true } }) { Issue.record("nothing is left") }
    }
    let end = Clock.system.monotonicNanoseconds() + UInt64(patience * 5e9)
    #expect(told.wait(until: end) { $0 ? true : nil } == true)
    #expect(try Self.count("message", cache) == 500)
    try cache.write { try $0.db.execute("DROP TRIGGER stays") }
    try cache.trim()
    #expect(try Self.count("message", cache) == 0)
    #expect(try !clear())
  }

  @Test("B58: after much was cleared nobody sees any of it, and nothing is stored until it is gone")
  func everything() throws {
    let world = try ChannelWithMessages(mostCleared: 100)
    defer { world.cache.close() }
    let (url, alice) = (world.url, world.alice)
    try world.listNewest(Self.rows(2_500), limit: 2_500)
    let before = world.cache.cursor
    let during = try world.cache.write { writer in
      try writer.clearAll(withUnsent: false)
      let stored = try writer.store(
        [ChannelWithMessages.channel(url)], of: alice, .listing(sweep: 2))
      try writer.endListing(of: alice)
      let user = try #require(try writer.reader.cachedUser(alice))
      let sees = try writer.reader.view(of: url, for: user.key) != nil
      let listed = try writer.reader.page(ChannelQuery(), of: user).count
      let isIn = try writer.reader.isJoined(user.key, in: url) != nil
      let isNamed = try !writer.reader.connectedMembers(of: url).isEmpty
      return (stored.count, user.isSynced, sees || isIn || isNamed, listed)
    }
    #expect(during == (0, false, false, 0))
    try world.cache.trim()
    #expect(world.cache.cursor.epoch != before.epoch)
    for table in ["message", "membership", "channel", "segment", "member", "collection"] {
      #expect(try Self.count(table, world.cache) == 0, "\(table)")
    }
    #expect(try world.cache.read { try $0.info(of: nil).messages } == 0)
    // Then everything goes on.
    try world.cache.write { writer in
      _ = try writer.store([ChannelWithMessages.channel(url)], of: alice, .listing(sweep: 3))
      try writer.endListing(of: alice)
    }
    try world.listNewest(Self.rows(5), limit: 100)
    #expect(try world.page(MessagePageQuery()).ids == [1, 2, 3, 4, 5])
    #expect(try world.cache.check().findings.isEmpty)
  }

  @Test("B58: what a listing lacks of the cleared rows is gone with it, and is not doubted")
  func lacking() throws {
    let world = try ChannelWithMessages(mostCleared: 0)
    defer { world.cache.close() }
    let (url, alice) = (world.url, world.alice)
    try world.listNewest(Self.rows(20), limit: 100)
    // One commit, so that no slice comes in between. Message 15 was deleted upstream, unnoticed.
    let found = try world.cache.write { writer in
      let user = try #require(try writer.reader.userKey(of: alice))
      try writer.clear(url)
      let view = try #require(try writer.reader.view(of: url, for: user))
      let isFound = try writer.reader.message(15, parts: [], in: view) != nil
      let rows = Self.rows(20).suffix(10).filter { $0.messageID != 15 }
      let isDoubted = try writer.store(
        [Self.listing(rows, askedAt: .max)], in: url, ListingContext(source: .apiResult, generation: 1))
      return (isFound, isDoubted)
    }
    #expect(found == (false, false), "a message that was cleared is not found by its id")
    #expect(try world.page(MessagePageQuery()).ids == [12, 13, 14, 16, 17, 18, 19, 20])
    try world.cache.trim()
    #expect(try Self.count("message", world.cache) == 9)
    #expect(try world.cache.check().findings.isEmpty)
  }

  @Test("B58: an answer that only drops cleared rows leaves right counts; too many rows it leaves alone")
  func dropped() throws {
    let world = try ChannelWithMessages(mostCleared: 0)
    defer { world.cache.close() }
    let (url, context) = (world.url, ListingContext(source: .apiResult, generation: 1))
    try world.listNewest(Self.rows(1_500), limit: 2_000)
    let empty = MessageListing(
      window: MessageWindow(.newest, older: 100, newer: 0), rows: [], isWhole: true, askedAt: .max)
    // One commit, so that no slice comes in between.
    let counts = try world.cache.write { writer in
      try writer.clear(url)
      func count() throws -> Int64? {
        try writer.db.reading.first("SELECT cached_messages FROM channel") { $0.int64(0) }
      }
      try writer.store([empty], in: url, context)
      let many = try count()
      try writer.db.run("DELETE FROM message WHERE message_id > 5")
      try writer.db.run("UPDATE channel SET cached_messages = 5")
      try writer.store([empty], in: url, context)
      return (many, try count())
    }
    #expect(counts.0 == 1_500 && counts.1 == 0)
  }

  @Test("B58: a second clear begins the deletion again")
  func twice() throws {
    let world = try ChannelWithMessages(mostCleared: 0)
    defer { world.cache.close() }
    let url = world.url
    try world.listNewest(Self.rows(20), limit: 100)
    // One commit, so that no slice of the upkeep comes in between.
    try world.cache.write { writer in
      let channel = try #require(try writer.reader.channelKey(of: url))
      try writer.clear(url)
      var reached: ClearedReach? = ClearedReach(
        version: try writer.reader.clearedVersion(of: channel), position: Self.rows(20)[9].position)
      try writer.clear(url)
      while let after = reached { reached = try writer.removeSlice(ofCleared: channel, after: after) }
    }
    #expect(try Self.count("message", world.cache) == 0)
  }

  @Test("B58 B64: while everything is being cleared readers are told of no channel, and a check of no fault")
  func readers() throws {
    let world = try ChannelWithMessages()
    defer { world.cache.close() }
    let (url, alice, cache) = (world.url, world.alice, world.cache)
    try world.listNewest(Self.rows(20), limit: 100)
    try cache.write { try $0.db.run("UPDATE membership SET unread = 3") }
    func seen() throws -> [Bool] {
      try cache.read { reader in
        let user = try #require(try reader.cachedUser(alice))
        let channel = try #require(try reader.channelKey(of: url))
        let lookup = ChannelLookup(ChannelQuery(), of: user.key, named: alice)
        var found = JSONWriter()
        var isListed = false
        try reader.eachListed(ChannelQuery(), of: user) { _ in
          isListed = true
          return true
        }
        return [
          try reader.view(of: url, for: user.key) != nil, try reader.isJoined(user.key, in: url) != nil,
          try reader.writeListed(channel, lookup, into: &found) != nil, isListed,
          try !reader.connectedMembers(of: url).isEmpty,
          try reader.unread(of: user.key).messages > 0, try cache.unread(of: alice).messages > 0,
        ]
      }
    }
    #expect(try seen() == Array(repeating: true, count: 7))
    // The row alone: the upkeep is not told, so that this state lasts.
    try cache.write { writer in
      try writer.db.run("INSERT INTO meta (key, value) VALUES ('clearing', 1)")
      try writer.db.run("DELETE FROM channel_metadata")
      try writer.db.run("UPDATE channel SET reader_count = 500")
    }
    #expect(try seen() == Array(repeating: false, count: 7))
    #expect(try cache.check().findings.isEmpty)
  }

  @Test("B4: a user with many channels is unknown at once, and comes back as another one")
  func user() throws {
    let world = try ChannelWithMessages(mostCleared: 10)
    defer { world.cache.close() }
    let (alice, bob) = (world.alice, world.bob)
    try world.cache.write { writer in
      for number in 0..<600 {
        let record = ChannelWithMessages.channel(ChannelURL("more-\(number)"))
        _ = try writer.store([record], of: alice, .listing(sweep: 1))
      }
    }
    let old = try world.cache.read { try $0.userKey(of: alice) }
    let again = try world.cache.write { writer in
      try writer.remove(alice)
      let known = try writer.reader.knownUsers().map(\.id)
      let listed = try writer.reader.users(after: "", limit: 10).map(\.id)
      let key = try writer.reader.userKey(of: alice)
      try writer.acknowledge(alice)
      return (known, listed, key, try writer.reader.userKey(of: alice))
    }
    #expect(again.0 == [bob] && again.1 == [bob] && again.2 == nil)
    #expect(again.3 != nil && again.3 != old)
    try world.cache.trim()
    #expect(try Self.count("membership", world.cache) == 1)
    #expect(try Self.count("user", world.cache) == 2)
    #expect(try Self.count("channel WHERE channel_url LIKE 'more-%' AND member_count > 0", world.cache) == 0)
    #expect(try world.cache.check().findings.isEmpty)
  }

  @Test("B58: slices of a stopped service go on after its next start")
  func restart() throws {
    let directory = Disk.folder()
    var configuration = Cache.Configuration(directory: directory)
    configuration.mostCleared = 0
    for isAll in [false, true] {
      let first = try Cache(configuration)
      try first.write { writer in
        try writer.acknowledge(UserID("alice"))
        let url = ChannelURL("general")
        _ = try writer.store([ChannelWithMessages.channel(url)], of: UserID("alice"), .listing(sweep: 1))
        try writer.store(
          [Self.listing(Self.rows(2_000), askedAt: .max)], in: url,
          ListingContext(source: .apiResult, generation: 1))
      }
      try first.write { try isAll ? $0.clearAll(withUnsent: false) : $0.clear(ChannelURL("general")) }
      first.close()
      let second = try Cache(configuration)
      let done = Watched(false)
      if second.areClearedRowsDeleted(else: { done.update { $0 = true } }) { done.update { $0 = true } }
      let end = Clock.system.monotonicNanoseconds() + UInt64(patience * 10e9)
      #expect(done.wait(until: end) { $0 ? true : nil } == true)
      #expect(try Self.count("message", second) == 0)
      #expect(try second.check().findings.isEmpty)
      second.close()
    }
  }
}
