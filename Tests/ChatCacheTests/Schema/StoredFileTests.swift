import CSQLite
import Glibc
import Platform
import SQLite
import Testing

@testable import ChatCache

/// Database files of older programs, with their unsent rows: they open, and a migration that is cut anywhere
/// loses nothing (B63, B45).
@Suite(.timeLimit(.minutes(5))) struct StoredFileTests {
  /// The file of the first schema has no unsent rows. That of schema 13, the last without files, has a row of
  /// each kind and state, as `kill -9` left them.
  private static let names = ["schema-1", "schema-13"]

  /// A folder with the stored file `name` as its database.
  private static func folder(_ name: String) throws -> String {
    let folder = Disk.folder()
    mkdir(folder, 0o700)
    let tests = #filePath.split(separator: "/").dropLast(3).joined(separator: "/")
    try #require(system("gzip -dc '/\(tests)/StoredFiles/\(name).db.gz' > '\(folder)/perch.db'") == 0)
    return folder
  }

  /// The unsent rows, each with all fields that a program needs to send it.
  private static func unsent(_ db: ReadAccess) throws -> [String] {
    try db.all(
      """
      SELECT id, user, channel_url, request_id, kind, state, coalesce(target_id, ''), aspect, hex(params),
        hex(body), accepted_at, expires_at, attempts, may_have_arrived, coalesce(error_code, '')
      FROM outbox
      ORDER BY id
      """
    ) { row in
      (0..<15).map { row.string($0) }.joined(separator: " ")
    }
  }

  private static func state(_ folder: String) throws -> (version: Int64, unsent: [String]) {
    let connection = try Connection(path: folder + "/perch.db")
    return try connection.read { db in
      (try db.first("PRAGMA user_version") { $0.int64(0) } ?? -1, try unsent(db))
    }
  }

  /// Opens the folder with this program: all unsent rows are there, and the file is sound.
  private static func check(_ folder: String, _ wanted: [String], _ comment: Comment) throws {
    let cache = try Cache(Cache.Configuration(directory: folder))
    defer { cache.close() }
    #expect(try cache.read { try unsent($0.db) } == wanted, comment)
    #expect(try cache.read { try $0.db.first("PRAGMA user_version") { $0.int64(0) } } == Migration.newest)
    let counts = try cache.read { try $0.unsentOfAllUsers() }
    #expect(counts.pending + counts.failed + counts.canceled == Int64(wanted.count), comment)
    let report = try cache.check()
    #expect(report.isSound, "\(comment): \(report.findings)")
  }

  @Test("B63 B45: a file of schema 13 opens with its unsent rows, and tells each step that is to be done")
  func opens() throws {
    let folder = try Self.folder("schema-13")
    let before = try Self.state(folder)
    #expect(before.version == 13)
    let words = before.unsent.map { $0.split(separator: " ", omittingEmptySubsequences: false) }
    #expect(Set(words.map { $0[4] }) == ["message", "edit", "delete", "reaction", "read"])
    #expect(Set(words.map { $0[5] }).isSuperset(of: ["waiting", "in_flight", "failed", "canceled"]))
    let told = Guarded<[MigrationProgress]>([])
    try Cache(Cache.Configuration(directory: folder)) { progress in told.withLock { $0.append(progress) } }
      .close()
    let steps = Int(Migration.newest - 13)
    #expect(
      told.withLock { $0 }
        == (0..<steps).map { MigrationProgress(from: 13, to: Migration.newest, percent: $0 * 100 / steps) })
    try Self.check(folder, before.unsent, "opened twice")
  }

  @Test(
    "B63: a program that is killed before any step of a migration leaves a file that the next one opens",
    arguments: names)
  func killed(_ name: String) throws {
    let before = try Self.state(try Self.folder(name))
    let missing = Migration.steps.filter { $0.version > before.version }
    for step in missing.indices {
      let folder = try Self.folder(name)
      let child = try Child(folder, mode: "open:\(step)")
      #expect(child.hasKilledItself(), "\(step)")
      let after = try Self.state(folder)
      #expect(after.version == (step == 0 ? before.version : missing[step - 1].version), "\(step)")
      #expect(after.unsent == before.unsent, "\(step)")
      try Self.check(folder, before.unsent, "\(name), killed before step \(step)")
    }
    #expect(try !Child(try Self.folder(name), mode: "open:\(missing.count)").hasKilledItself())
  }

  @Test(
    "B63: a migration that the disk cuts anywhere keeps what is unsent, and the next start ends it",
    arguments: names)
  func cut(_ name: String) throws {
    let before = try Self.state(try Self.folder(name))
    var (tries, seen) = (0, Set<Int64>())
    while true {
      tries += 1 + tries / 4
      let folder = try Self.folder(name)
      let disk = Disk(failing: .changing, in: folder, at: tries, code: SQLITE_IOERR, stays: true)
      // The test is about failing starts.
      if let cache = try? Cache(Cache.Configuration(directory: folder)) { cache.close() }
      let hasStruck = disk.heal()
      let after = try Self.state(folder)
      seen.insert(after.version)
      #expect(after.unsent == before.unsent, "try \(tries)")
      try Self.check(folder, before.unsent, "\(name), cut at \(tries)")
      if !hasStruck { break }
      try #require(tries < 5_000, "the fault strikes without end")
    }
    #expect(seen.count > 3, "it was cut between few steps: \(seen.sorted())")
  }
}
