import ChatModel
import Glibc
import Platform
import SQLite
import Synchronization
import TestSupport
import Testing

@testable import ChatCache

/// The file's free pages go back to the file system, also while readers have it mapped (B55).
/// PERCH_VACUUM_PASSES does more passes than three.
@Suite(.timeLimit(.minutes(30))) struct VacuumTests {
  private static let passes = getenv("PERCH_VACUUM_PASSES").flatMap { Int(String(cString: $0)) } ?? 3

  @Test("a plan begins at four percent, goes on to one, and leaves small files alone")
  func plan() {
    func count(_ used: Int64, free: Int64) -> PageCount { PageCount(all: used + free, free: free, size: 1) }
    var plan = VacuumPlan()
    #expect(plan.next(count(10_000, free: 400)) == 0)
    #expect(plan.next(count(10_000, free: 401)) == 32)
    #expect(plan.next(count(10_000, free: 110)) == 10)
    #expect(plan.next(count(10_000, free: 100)) == 0)
    #expect(plan.next(count(10_000, free: 110)) == 0)
    #expect(plan.next(count(50, free: 16)) == 0)
    for _ in 0..<50 { plan.took(1) }
    #expect(plan.next(count(10, free: 1 << 20)) == 1024)
    for _ in 0..<20 { plan.took(.max) }
    #expect(plan.next(count(10, free: 1 << 20)) == 8)
  }

  private final class Shared: Sendable {
    let isDone = Atomic<Bool>(false)
    let reads = Atomic<Int>(0)
    let failures = Atomic<Int>(0)
  }

  private static func bytes(_ path: String) -> Int64 {
    var status = stat()
    return stat(path, &status) == 0 ? Int64(status.st_size) : 0
  }

  @Test("B55: the file follows what is evicted, with 16 readers all the while, and stays sound")
  func readers() throws {
    let directory = Disk.folder()
    let world = try EvictionWorld(channels: 4, directory: directory)
    let (cache, shared, keys) = (world.cache, Shared(), world.channels.map(\.key))
    let threads = (0..<16).map { number in
      Thread("reader-\(number)") {
        while !shared.isDone.load(ordering: .relaxed) {
          // A failed read is counted: no page may become unreadable when the file is cut.
          let sum = try? cache.read { reader in
            try reader.db.first("SELECT sum(length(body)) FROM message WHERE channel = ?1") {
              $0.bind(1, keys[number % 4].rawValue)
            } _: {
              $0.int64(0)
            }
          }
          if sum == nil { shared.failures.wrappingAdd(1, ordering: .relaxed) }
          shared.reads.wrappingAdd(1, ordering: .relaxed)
          usleep(3_000)  // so that sixteen of them leave the writer a processor
        }
      }
    }
    let text = String(repeating: "x", count: 3_000)
    for pass in 0..<Self.passes {
      // The limit of the pass before would let a pass begin while messages are stored.
      cache.usage.set(CacheLimit(exactly: .max / 2))
      for index in 0..<4 {
        let rows = (1...400).map {
          ChannelWithMessages.message($0, at: Int64(pass + 1) * 10_000 + $0, text: text)
        }
        try world.list(rows, limit: 500, in: index)
      }
      let before = try cache.read { try $0.db.pageCount() }
      try world.evict(downTo: before.usedBytes / 3)
      try cache.shrink()
      let after = try cache.read { try $0.db.pageCount() }
      #expect(after.usedBytes < before.usedBytes / 2 && after.free <= max(16, (after.all - after.free) / 25))
      var waited = 0
      while Self.bytes(directory + "/perch.db") > after.all * after.size, waited < 60_000 {
        usleep(50_000)  // nothing announces when the file is cut
        waited += 50
      }
      let file = Self.bytes(directory + "/perch.db")
      #expect(file <= after.all * after.size, "pass \(pass): the file has \(file) bytes \(waited) ms later")
    }
    shared.isDone.store(true, ordering: .relaxed)
    for thread in threads { thread.join() }
    #expect(shared.failures.load(ordering: .relaxed) == 0 && shared.reads.load(ordering: .relaxed) > 16)
    #expect(try cache.check().isSound)
  }

  @Test("B55: the file is cut also while small commits never leave the cache at rest")
  func busy() throws {
    let directory = Disk.folder()
    let world = try EvictionWorld(channels: 1, directory: directory)
    let text = String(repeating: "x", count: 12_000)
    try world.list((1...800).map { ChannelWithMessages.message($0, at: $0, text: text) }, limit: 900, in: 0)
    try world.evict(downTo: 1)
    let path = directory + "/perch.db"
    let before = Self.bytes(path)
    try world.cache.shrink()
    var commits = 0
    while Self.bytes(path) > before / 2, commits < 280 {
      try world.cache.write { try $0.announce(link: "online") }
      commits += 1
      // The first commits follow so closely that one ends while a checkpoint copies the frames that it saw.
      if commits > 200 { usleep(100_000) }
    }
    #expect(Self.bytes(path) <= before / 2)
  }

  @Test("a file that was made without the possibility keeps its size and works")
  func without() throws {
    let folder = Disk.folder()
    mkdir(folder, 0o700)
    let connection = try Connection(path: folder + "/perch.db")
    try connection.execute("PRAGMA page_size = 16384; PRAGMA auto_vacuum = NONE; CREATE TABLE other (id);")
    let world = try EvictionWorld(channels: 1, directory: folder)
    let text = String(repeating: "x", count: 3_000)
    try world.list((1...300).map { ChannelWithMessages.message($0, at: $0, text: text) }, limit: 500, in: 0)
    try world.evict(downTo: 1)
    try world.cache.shrink()
    #expect(try world.cache.read { try $0.db.pageCount().free } > 16)
  }
}
