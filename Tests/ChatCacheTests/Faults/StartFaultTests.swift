import CSQLite
import ChatModel
import SQLite
import Testing

@testable import ChatCache

/// The writes and reads of a start.
@Suite struct StartFaultTests {
  @Test("B63: a start cut anywhere in its migration leaves all of it or nothing, and the next start works")
  func cut() throws {
    var tries = 0
    while true {
      tries += 1 + tries / 8
      let folder = Disk.folder()
      let disk = Disk(failing: .changing, in: folder, at: tries, code: SQLITE_IOERR, stays: true)
      // The test is about failing starts.
      if let cache = try? Cache(Cache.Configuration(directory: folder)) { cache.close() }
      let hasStruck = disk.heal()
      let cache = try Cache(Cache.Configuration(directory: folder))
      defer { cache.close() }
      let version = try cache.read { reader in try reader.db.first("PRAGMA user_version") { $0.int64(0) } }
      #expect(version == Migration.newest)
      try cache.write { try $0.acknowledge(UserID("alice")) }
      let report = try cache.check()
      #expect(report.isSound, "try \(tries): \(report.findings)")
      if !hasStruck { break }
      try #require(tries < 2_000, "the fault strikes without end")
    }
    #expect(tries > 5, "nothing was ever struck")
  }

  @Test("B64: how much a start reads does not depend on how much is cached")
  func reads() throws {
    let (small, large) = (try Self.filled(20), try Self.filled(12_000))
    let (few, many) = (try Self.readsOfStart(small), try Self.readsOfStart(large))
    // The scan of the spool runs beside the start, before or after the first answer: up to 5 reads.
    #expect(many <= few + 8, "\(few) reads with 20 messages, \(many) with 12 000")
  }

  private static func filled(_ count: Int64) throws -> String {
    let world = try ChannelWithMessages()
    for first in stride(from: Int64(1), through: count, by: 500) {
      let ids = first...min(first + 499, count)
      let rows = ids.map {
        ChannelWithMessages.message($0, at: $0, text: String(repeating: "word ", count: 40))
      }
      try world.list(
        MessageListing(
          window: MessageWindow(.time(ids.upperBound), older: 1_000, newer: 0), rows: rows, isWhole: false,
          askedAt: .max))
    }
    world.cache.close()
    return world.cache.configuration.directory
  }

  /// The number of disk reads of a start with a first answer: one less than the first that does not occur.
  private static func readsOfStart(_ directory: String) throws -> Int {
    for number in 1..<500 {
      let disk = Disk(failing: .read, in: directory, at: number, code: SQLITE_IOERR | (1 << 8))
      // A failing start shows that this read occurs.
      if let cache = try? Cache(Cache.Configuration(directory: directory)) {
        // So does a failing answer.
        _ = try? cache.read { try $0.cachedUser(UserID("alice")) }
        cache.close()
      }
      if !disk.heal() { return number - 1 }
    }
    return 500
  }
}
