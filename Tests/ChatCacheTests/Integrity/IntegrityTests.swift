import ChatModel
import Glibc
import SQLite
import Testing

@testable import ChatCache

/// The self-check finds damage, repairs data that the upstream has, and only reports the rest.
@Suite struct IntegrityTests {
  @Test("B64: a sound cache is found sound, by the service and from outside")
  func sound() throws {
    let world = try DamagedWorld()
    defer { world.close() }
    let report = try world.cache.check()
    #expect(report.isSound && report.isWell && report.channels == 2, "\(report.findings)")
    let outside = try Cache.inspect(directory: world.directory)
    #expect(outside.isSound && outside.channels == 2, "\(outside.findings)")
  }

  @Test(
    "B64: a channel that contradicts itself is found, reset to one gap with events, and synced again",
    arguments: Damage.ofChannel, [MessagesCheck.mostAtOnce, 3])
  func channel(_ damage: Damage, messagesAtOnce: Int) throws {
    // A channel that is checked in parts is also deleted in slices.
    let world = try DamagedWorld(mostCleared: messagesAtOnce < 8 ? 0 : Limits.clearedAtOnce)
    defer { world.close() }
    let (before, page) = (try world.untouched(), try world.world.page(MessagePageQuery()))
    let mark = world.cache.cursor.sequence
    try damage.strike(world.directory)
    let outside = try Cache.inspect(directory: world.directory)
    #expect(outside.findings.contains { $0.fault == damage.fault }, "\(outside.findings)")
    #expect(!outside.isWell && world.cache.cursor.sequence == mark, "looking from outside changes nothing")

    let report = try world.cache.check(pagesAtOnce: .max, messagesAtOnce: messagesAtOnce)
    #expect(!report.isSound && report.isWell, "\(report.findings)")
    #expect(report.findings.contains { $0.fault == damage.fault && $0.channel == world.world.url })
    #expect(try world.untouched() == before, "the other channel and the unsent messages")
    let line = try #require(try world.cache.read { try $0.line(of: ChannelURL("general")) })
    #expect(line.gaps.count == 1 && line.rows == 0)
    let told = try world.kinds(after: mark)
    #expect(told.contains(.coverage) && told.contains(.channel) && told.contains(.cacheCleared), "\(told)")
    let due = try world.cache.read { try $0.webhookNotes() }
    #expect(due.map(\.kind) == [.channel, .newest] && due[0].users == [world.world.alice, world.world.bob])

    try world.syncAgain()
    #expect(try world.world.page(MessagePageQuery()) == page)
    let after = try world.cache.check(pagesAtOnce: .max, messagesAtOnce: messagesAtOnce)
    #expect(after.isSound, "\(after.findings)")
  }

  @Test("B64: parts of a channel find what one look finds, and a change meanwhile shows", arguments: 1...9)
  func partsOfChannel(most: Int) throws {
    let world = try DamagedWorld()
    defer { world.close() }
    let (cache, url) = (world.cache, world.world.url)
    let channel = try #require(try cache.read { try $0.channelKey(of: url) })
    func counted() throws -> MessagesCheck.Counted? {
      try cache.read { try $0.counted(messagesOf: channel) }
    }
    let before = try counted()
    var (check, parts) = (MessagesCheck(channel), 1)
    while try cache.read({ try check.lookAtSome($0, atMost: most) }) { parts += 1 }
    #expect(try check.found(in: url, counted: counted()).isEmpty && counted() == before)
    #expect(parts >= 16 / most, "\(parts) parts")
    let message = ChannelWithMessages.message(3, at: 30, updatedAt: 900, text: "other")
    try cache.write { try $0.store(message, in: url, .messageUpdated) }
    #expect(try counted() != before)
  }

  @Test("B64: a large channel that contradicts itself is reset in slices, between which other writes go")
  func slices() throws {
    let world = try ChannelWithMessages(mostCleared: 100)
    defer { world.cache.close() }
    let (cache, rows) = (world.cache, (1...4_000).map { ChannelWithMessages.message($0, at: $0 * 10) })
    try world.listNewest(rows, limit: 4_000)
    try Damage("a cut body", .message, "UPDATE message SET body = CAST('{' AS BLOB) WHERE message_id = 7")
      .strike(cache.configuration.directory)
    let commits = cache.commitTimes.count
    let report = try cache.check(pagesAtOnce: .max, messagesAtOnce: 500)
    #expect(report.isWell && report.findings.map(\.fault).contains(.message), "\(report.findings)")
    // Without slices: one that resets the channel.
    #expect(cache.commitTimes.count - commits >= 5, "\(cache.commitTimes.count - commits) commits")
    #expect(try cache.read { try $0.info(of: nil).messages } == 0)
    #expect(try cache.read { try $0.webhookNotes() }.map(\.kind) == [.channel, .newest])
    #expect(try cache.check().isSound)
  }

  @Test(
    "B64: what belongs to nobody is dropped; an event nobody can read ends all cursors",
    arguments: Damage.ofNobody)
  func nobody(_ damage: Damage) throws {
    let world = try DamagedWorld()
    defer { world.close() }
    let epoch = world.cache.cursor.epoch
    try damage.strike(world.directory)
    let report = try world.cache.check()
    #expect(report.isWell && report.findings.contains { $0.fault == damage.fault }, "\(report.findings)")
    #expect((world.cache.cursor.epoch != epoch) == (damage.fault == .event))
    let after = try world.cache.check()
    #expect(after.isSound, "\(after.findings)")
  }

  @Test("B64: an index that disagrees with its table is built again")
  func index() throws {
    let world = try DamagedWorld()
    world.close()
    try Damage.breakIndex("outbox_by_expiry", world.directory)
    let cache = try Cache(Cache.Configuration(directory: world.directory))
    defer { cache.close() }
    let report = try cache.check()
    #expect(report.isWell && report.findings.map(\.fault).contains(.index), "\(report.findings)")
    let after = try cache.check()
    #expect(after.isSound, "\(after.findings)")
    #expect(try cache.read { try $0.lane(OutboxTableTests.laneKey) }.rows.count == 2)
  }

  @Test(
    "B64: a large file is checked in parts, which find what the whole check finds",
    arguments: Damage.ofParts, [MessagesCheck.mostAtOnce, 3])
  func parts(_ damage: Damage, messagesAtOnce: Int) throws {
    let world = try DamagedWorld()
    defer { world.close() }
    func check() throws -> CheckReport {
      try world.cache.check(pagesAtOnce: 0, messagesAtOnce: messagesAtOnce)
    }
    #expect(try check().isSound)
    try damage.strike(world.directory)
    let report = try check()
    #expect(report.isWell && report.findings.contains { $0.fault == damage.fault }, "\(report.findings)")
    #expect(try check().isSound)
    #expect(try world.cache.check().isSound)
  }

  @Test(
    "B64: an index that disagrees with its table is built again, also where the file is checked in parts",
    arguments: ["message_by_id", "message_by_parent", "membership_by_name", "outbox_by_expiry"],
    [MessagesCheck.mostAtOnce, 3])
  func indexOfPart(_ index: String, messagesAtOnce: Int) throws {
    let world = try DamagedWorld()
    world.close()
    try Damage.breakIndex(index, world.directory)
    let cache = try Cache(Cache.Configuration(directory: world.directory))
    defer { cache.close() }
    let report = try cache.check(pagesAtOnce: 0, messagesAtOnce: messagesAtOnce)
    #expect(report.isWell && report.findings.map(\.fault).contains(.index), "\(report.findings)")
    #expect(try cache.check(pagesAtOnce: 0, messagesAtOnce: messagesAtOnce).isSound)
    #expect(try cache.check().isSound)
  }

  @Test(
    "B64: entries whose row is gone are found", arguments: ["message_by_id", "message_by_parent"], [1, 3, 99])
  func entries(_ index: String, most: Int) throws {
    let world = try DamagedWorld()
    world.close()
    let replies = "UPDATE message SET parent_id = 2 WHERE message_id IN (3, 5)"
    try Damage("", .counts, replies).strike(world.directory)
    let lost = "DELETE FROM message WHERE message_id = 3"
    func report() throws -> [String] {
      let cache = try Cache(Cache.Configuration(directory: world.directory))
      defer { cache.close() }
      let channel = try #require(try cache.read { try $0.channelKey(of: world.world.url) })
      var check = EntriesCheck(channel)
      while try cache.read({ try check.lookAtSome($0, atMost: most) }) {}
      return check.report.findings.map(\.detail)
    }
    #expect(try report().isEmpty)
    try Damage.loseEntries(of: index, lost, world.directory)
    let found = try report()
    #expect(found.count == 1 && found[0].contains(index), "\(found)")
  }

  @Test(
    "B64: the entries of a large table's indexes are counted",
    arguments: [
      ("membership", "membership_by_name"), ("membership", "membership_unread"), ("member", "member_by_user"),
    ])
  func countedIndex(_ table: String, _ index: String) throws {
    let world = try DamagedWorld()
    world.close()
    try Damage("", .counts, "UPDATE membership SET unread = 5").strike(world.directory)
    try Damage.loseEntries(of: index, "DELETE FROM \(table)", world.directory)
    let cache = try Cache(Cache.Configuration(directory: world.directory))
    defer { cache.close() }
    let findings = try cache.read { reader in
      try reader.checkedTables().filter { $0.name == table }
        .flatMap { try reader.report(of: $0, rowsAtOnce: 0).findings }
    }
    #expect(findings.map(\.detail) == ["wrong # of entries in index \(index)"])
  }

  @Test("B64: the rows of a table are counted in the table, never in an index")
  func countedTable() throws {
    let world = try DamagedWorld()
    defer { world.close() }
    try world.cache.read { reader in
      for table in try reader.checkedTables() {
        for index in table.indexes {
          guard let count = table.count(ofRowsIn: index) else { continue }
          var rows = try reader.db.rows(composed: "EXPLAIN QUERY PLAN " + count)
          let plan = try rows.next()?.string(3) ?? ""
          #expect(plan == "SCAN \(table.name)", "\(index.name)")
        }
      }
    }
  }

  @Test("B64: unsent messages that cannot be read are named and never touched")
  func unsent() throws {
    let world = try DamagedWorld()
    defer { world.close() }
    try Damage("", .unsent, "UPDATE outbox SET params = CAST('{' AS BLOB), state = 'lost' WHERE id = 1")
      .strike(
        world.directory)
    try Damage("", .unsent, "DELETE FROM request WHERE request_id = 'two'").strike(world.directory)
    let before = try world.untouched()
    let report = try world.cache.check()
    let found = report.findings.filter { $0.fault == .unsent }
    #expect(found.count == 3 && found.allSatisfy { !$0.isHealed }, "\(report.findings)")
    #expect(!report.isWell)
    #expect(try world.untouched() == before)
  }

  @Test("B64: counts of unsent rows that are wrong are named and counted again")
  func unsentCounts() throws {
    let world = try DamagedWorld()
    defer { world.close() }
    try Damage("", .counts, "UPDATE unsent_count SET pending = pending + 3").strike(world.directory)
    let report = try world.cache.check()
    #expect(report.findings.map(\.fault) == [.counts] && report.isWell, "\(report.findings)")
    #expect(try world.cache.check().isSound)
    #expect(try world.cache.read { try $0.unsent(of: UserKey(1)) }.pending == 2)
  }

  @Test("B64: a damaged file is named as such, reading what is sound goes on, and nothing is written into it")
  func damagedFile() throws {
    let world = try DamagedWorld()
    let (page, bytes) = try world.cache.read { reader in
      (
        try reader.db.first("SELECT rootpage FROM sqlite_master WHERE name = 'message'") { $0.int(0) } ?? 2,
        try reader.db.first("PRAGMA page_size") { $0.int(0) } ?? 0
      )
    }
    world.close()
    let file = open(world.directory + "/perch.db", O_RDWR)
    let noise = (0..<bytes).map { UInt8(truncatingIfNeeded: $0 &* 167 &+ 13) }
    #expect(pwrite(file, noise, noise.count, (page - 1) * bytes) == noise.count)
    close(file)
    let outside = try Cache.inspect(directory: world.directory)
    #expect(outside.findings.contains { $0.fault == .file && !$0.isHealed }, "\(outside.findings)")
    let cache = try Cache(Cache.Configuration(directory: world.directory))
    defer { cache.close() }
    let mark = cache.cursor.sequence
    let report = try cache.check()
    #expect(
      !report.isWell && report.findings.contains { $0.fault == .file && !$0.isHealed }, "\(report.findings)")
    #expect(cache.cursor.sequence == mark)
    let user = try cache.read { try $0.cachedUser(UserID("alice")) }
    #expect(try cache.read { try $0.lane(OutboxTableTests.laneKey) }.rows.count == 2 && user != nil)
  }

  @Test("B64: a file that is no database is told as a damaged one, a missing one as missing")
  func noDatabase() throws {
    let directory = Disk.folder()
    mkdir(directory, 0o700)
    #expect(throws: CacheError.self) { try Cache.inspect(directory: directory) }
    let file = open(directory + "/perch.db", O_RDWR | O_CREAT, 0o600)
    let noise = [UInt8](repeating: 7, count: 8192)
    #expect(write(file, noise, noise.count) == noise.count)
    close(file)
    let report = try Cache.inspect(directory: directory)
    #expect(report.findings.map(\.fault) == [.file])
  }

  @Test("B64: more findings than are listed are counted")
  func many() {
    var report = CheckReport(startedAt: 0)
    let findings = (0..<(CheckReport.listedFindings + 7)).map { Finding(.counts, "channel \($0)").healed }
    report.add(findings)
    #expect(report.findings.count == CheckReport.listedFindings && report.more == 7 && report.isWell)
    report.add([Finding(.counts, "one more")])
    #expect(report.more == 8 && !report.isWell && !report.isSound)
  }
}
