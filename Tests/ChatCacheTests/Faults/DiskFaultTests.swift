import CSQLite
import ChatModel
import Glibc
import Platform
import SQLite
import Testing

@testable import ChatCache

// Every write is tried on a disk that fails at its first operation, its second, and so on until the write
// meets no fault. The same must always hold: the write happened wholly or not at all, an answered write is
// there, reading goes on, and the same write works once the disk works again.

@Suite struct DiskFaultTests {
  /// How a disk fails.
  enum Failure: String, CaseIterable, Sendable {
    case busy, full, writing, syncing, reading, locking

    var operations: Disk.Operations {
      switch self {
      case .busy, .locking: .lock
      case .full, .writing: .write
      case .syncing: .sync
      case .reading: .read
      }
    }

    var code: Int32 {
      switch self {
      case .busy: SQLITE_BUSY
      case .full: SQLITE_FULL
      case .writing: SQLITE_IOERR | (3 << 8)
      case .syncing: SQLITE_IOERR | (4 << 8)
      case .reading: SQLITE_IOERR | (1 << 8)
      case .locking: SQLITE_IOERR | (15 << 8)
      }
    }
  }

  /// By how many operations later the next fault strikes: 1 with `PERCH_TORTURE_DISK`, else more for later
  /// ones.
  private static func step(after tries: Int) -> Int {
    getenv("PERCH_TORTURE_DISK") == nil ? 1 + tries / 4 : 1
  }

  @Test(
    "B60: a disk that fails once, at any operation, leaves each write whole or undone, and the next try works",
    arguments: Writing.all, Failure.allCases)
  func once(_ writing: Writing, _ failure: Failure) throws {
    let prepared = try writing.prepared()
    let (before, after) = try writing.outcomes(from: prepared)
    var tries = 0
    while true {
      tries += Self.step(after: tries)
      let folder = Disk.folder(copying: prepared)
      let cache = try Cache(Cache.Configuration(directory: folder))
      defer { cache.close() }
      let disk = Disk(failing: failure.operations, in: folder, at: tries, code: failure.code)
      let isAnswered = (try? writing.write(cache)) != nil  // a failure is what this is about
      let hasStruck = disk.heal()
      let found = try Contents(of: cache)
      #expect(found == after || (!isAnswered && found == before), "\(found.difference(from: after))")
      try writing.write(cache)
      let retried = try Contents(of: cache)
      #expect(retried == after, "try \(tries): \(retried.difference(from: after))")
      if !hasStruck { break }
      try #require(tries < 2_000, "the fault strikes without end")
    }
    if failure != .reading, failure != .busy { #expect(tries > 1, "nothing was ever struck") }
  }

  @Test(
    "B36: killed at any operation, the write is whole or undone after the start, and whole if it was answered",
    arguments: Writing.all)
  func killed(_ writing: Writing) throws {
    let prepared = try writing.prepared()
    let (before, after) = try writing.outcomes(from: prepared)
    var tries = 0
    while true {
      tries += Self.step(after: tries)
      let folder = Disk.folder(copying: prepared)
      let cache = try Cache(Cache.Configuration(directory: folder))
      // From that operation on nothing reaches the file, as after a kill.
      let disk = Disk(failing: .changing, in: folder, at: tries, code: SQLITE_IOERR, stays: true)
      let isAnswered = (try? writing.write(cache)) != nil  // a failure is what this is about
      cache.close()
      let hasStruck = disk.heal()
      let restarted = try Cache(Cache.Configuration(directory: folder))
      defer { restarted.close() }
      let found = try Contents(of: restarted)
      #expect(found == after || (!isAnswered && found == before), "\(found.difference(from: after))")
      try writing.write(restarted)
      let retried = try Contents(of: restarted)
      #expect(retried == after, "try \(tries): \(retried.difference(from: after))")
      if !hasStruck { break }
      try #require(tries < 2_000, "the fault strikes without end")
    }
    #expect(tries > 1, "nothing was ever struck")
  }

  @Test("B60: a full disk refuses writes and leaves reading alone; it works again without a restart")
  func full() throws {
    let writing = try #require(Writing.all.first)
    let prepared = try writing.prepared()
    let (before, after) = try writing.outcomes(from: prepared)
    let folder = Disk.folder(copying: prepared)
    let cache = try Cache(Cache.Configuration(directory: folder))
    defer { cache.close() }
    let disk = Disk(failing: .write, in: folder, at: 1, code: SQLITE_FULL, stays: true)
    for _ in 0..<3 {
      do {
        try writing.write(cache)
        Issue.record("a full disk took a write")
      } catch let error as CacheError {
        #expect(error.isTransient, "\(error)")
      }
      #expect(try Contents(of: cache) == before)
    }
    disk.heal()
    try writing.write(cache)
    #expect(try Contents(of: cache) == after)
  }

  @Test("B60: after a commit whose outcome is unknown, an empty marker is committed before anything else")
  func marker() throws {
    let writing = try #require(Writing.all.first)
    let folder = Disk.folder()
    let cache = try Cache(Cache.Configuration(directory: folder))
    defer { cache.close() }
    try writing.prepare(cache)
    #expect(try Self.marks(cache) == 0)
    let disk = Disk(failing: .sync, in: folder, at: 1, code: SQLITE_IOERR | (4 << 8))
    #expect(throws: CacheError.self) { try writing.write(cache) }
    #expect(disk.heal())
    try writing.write(cache)
    #expect(try Self.marks(cache) == 1)
    try writing.write(cache)
    #expect(try Self.marks(cache) == 1, "a good commit needs no marker")
  }

  private static func marks(_ cache: Cache) throws -> Int64 {
    try cache.read { reader in
      try reader.db.first("SELECT value FROM meta WHERE key = 'marker'") { $0.int64(0) } ?? 0
    }
  }
}
