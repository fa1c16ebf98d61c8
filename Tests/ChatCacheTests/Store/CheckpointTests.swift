import ChatModel
import Glibc
import Platform
import SQLite
import TestFolders
import Testing

@testable import ChatCache

/// Checkpoints copy the WAL into the file while the service runs, and the WAL stays small.
@Suite(.timeLimit(.minutes(3))) struct CheckpointTests {
  private static func bytes(_ path: String) -> Int {
    var status = stat()
    return stat(path, &status) == 0 ? Int(status.st_size) : 0
  }

  /// Commits about 256 KiB of rows in a table of this test.
  private static func fill(_ cache: Cache, _ round: Int) throws {
    try cache.write { writer in
      for row in 0..<16 {
        try writer.db.run("INSERT OR REPLACE INTO filler (id, content) VALUES (?1, zeroblob(16000))") {
          $0.bind(1, (round * 16 + row) % 4096)
        }
      }
    }
  }

  private static func filledCache() throws -> (cache: Cache, path: String) {
    let directory = TestFolder.make("checkpoint") + "/data"
    let cache = try Cache(Cache.Configuration(directory: directory))
    try cache.write { try $0.db.execute("CREATE TABLE filler (id INTEGER PRIMARY KEY, content BLOB)") }
    return (cache, directory + "/perch.db")
  }

  private static func wait(atMostSeconds seconds: Int, until isTrue: () -> Bool) -> Bool {
    for _ in 0..<(seconds * 20) {
      if isTrue() { return true }
      usleep(50_000)
    }
    return isTrue()
  }

  @Test("commits reach the file while the service runs, and a quiet WAL becomes short")
  func folded() throws {
    let (cache, path) = try Self.filledCache()
    defer { cache.close() }
    for round in 0..<120 { try Self.fill(cache, round) }
    #expect(cache.walBytes > 26 << 20)
    // No commit follows: the checkpoint thread alone has to copy thirty megabytes.
    #expect(Self.wait(atMostSeconds: 5) { Self.bytes(path) > 20 << 20 }, "\(Self.bytes(path)) bytes")
    #expect(Self.wait(atMostSeconds: 15) { cache.walBytes <= WALLimits.restingBytes }, "\(cache.walBytes)")
  }

  @Test("a reader that keeps its snapshot lets the WAL grow, and delays no commit for long")
  func longReader() throws {
    let (cache, _) = try Self.filledCache()
    defer { cache.close() }
    let mayEnd = Watched(false)
    let hasBegun = Watched(false)
    let reader = Thread("long-reader") {
      _ = try? cache.read { reader in
        _ = try reader.db.first("SELECT count(*) FROM filler") { $0.int64(0) }
        hasBegun.update { $0 = true }
        _ = mayEnd.wait { $0 ? true : nil }
      }
    }
    _ = hasBegun.wait { $0 ? true : nil }
    var slowest: UInt64 = 0
    for round in 0..<160 {
      let began = Clock.system.monotonicNanoseconds()
      try Self.fill(cache, round)
      slowest = max(slowest, Clock.system.monotonicNanoseconds() - began)
    }
    #expect(slowest < 2_000_000_000, "\(slowest / 1_000_000) ms")
    #expect(cache.walBytes > 32 << 20)
    mayEnd.update { $0 = true }
    reader.join()
    for round in 0..<40 { try Self.fill(cache, round) }
    #expect(Self.wait(atMostSeconds: 15) { cache.walBytes <= WALLimits.restingBytes }, "\(cache.walBytes)")
  }
}
