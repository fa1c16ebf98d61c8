import ChatModel
import Glibc
import Platform
import TestFolders
import TestSupport
import Testing

@testable import ChatCache

/// Pages of the mapped file that cannot be read.
@Suite struct UnreadablePageTests {
  @Test("B60: a file that is cut short under a running cache fails reads, not the process")
  func cutShort() throws {
    let directory = TestFolder.make("unreadable")
    let path = directory + "/perch.db"
    func open() throws -> Cache { try Cache(Cache.Configuration(directory: directory)) }
    let filling = try open()
    try filling.write { writer in
      for number in 0..<2000 {
        try writer.db.run("INSERT INTO meta (key, value) VALUES (?1, ?2)") {
          $0.bind(1, "filled-\(number)-" + String(repeating: "x", count: 1000))
          $0.bind(2, Int64(number))
        }
      }
    }
    filling.close()
    let cache = try open()
    defer { cache.close() }
    // A pool of its own, because another thread of the cache might open a connection after the cut, and this
    // test might get it.
    let readers = ReaderPool(path: path, mappedBytes: 256 << 20)
    defer { readers.close() }
    let log = CommitLog(
      epoch: 0, run: 0, last: 0, age: FileAge(startedAt: 0, atStart: 0, clock: .system))
    let count: (CacheReader) throws -> Int64 = {
      try $0.db.first("SELECT count(*) FROM meta WHERE key LIKE 'filled%'") { $0.int64(0) } ?? 0
    }
    // Reads the schema, so that the next read meets the cut file when it reads rows.
    #expect(try readers.readAnew(log, count) == 2000)
    #expect(truncate(path, 3 * 16384) == 0)
    var failures: [String] = []
    for isCaught in [true, false, false] {
      do {
        _ = try readers.readAnew(log) { reader in
          // The reader's result from zeros is not returned.
          if isCaught { return (try? count(reader)) ?? 0 }
          return try count(reader)
        }
      } catch let error as CacheError {
        failures.append(error.isTransient ? "storage" : "other")
      }
    }
    #expect(failures.first == "storage" && failures.count == 3, "\(failures)")
  }
}
