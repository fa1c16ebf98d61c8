import ChatModel
import Glibc
import Platform
import SQLite
import Synchronization
import Testing

@testable import ChatCache

/// The write-ahead log under endless commits. PERCH_WAL_SECONDS says for how long; `.ci/wal` does it for an
/// hour.
@Suite(.timeLimit(.minutes(90))) struct WALBoundTests {
  private static let seconds = getenv("PERCH_WAL_SECONDS").flatMap { Int(String(cString: $0)) } ?? 4

  private final class Shared: Sendable {
    let isDone = Atomic<Bool>(false)
    let reads = Atomic<Int>(0)
  }

  /// One commit of about 256 KiB that changes pages all over the file.
  private static func fill(_ cache: Cache, _ round: Int64) throws {
    try cache.write { writer in
      for row in 0..<Int64(16) {
        try writer.db.run("INSERT OR REPLACE INTO filler (id, content) VALUES (?1, zeroblob(16000))") {
          $0.bind(1, (round * 16 + row) % 4096)
        }
      }
    }
  }

  /// One commit of a page of 100 messages, as sync stores them; now and then the channel is cleared.
  private static func store(_ world: ChannelWithMessages, _ round: Int64) throws {
    let url = world.url
    if round % 200 == 0 { try world.cache.write { try $0.clear(url) } }
    let text = String(repeating: "abcdefghij", count: 40)
    try world.listNewest(
      (1...100).map { ChannelWithMessages.message(round * 100 + $0, at: round * 1_000 + $0, text: text) },
      limit: 100)
  }

  /// Reads pages of messages, and many of the changing rows, until `isDone`.
  private static func read(_ world: ChannelWithMessages, _ shared: Shared) {
    while !shared.isDone.load(ordering: .relaxed) {
      // A failed read is not counted, and the test checks the count.
      let page = try? world.page(MessagePageQuery())
      let sum = try? world.cache.read { reader in
        try reader.db.first("SELECT sum(length(content)) FROM filler WHERE id < 100") { $0.int64(0) }
      }
      if page != nil, sum != nil { shared.reads.wrappingAdd(1, ordering: .relaxed) }
      usleep(5_000)  // so that sixteen of them leave the writer a processor
    }
  }

  @Test("the WAL stays within 64 MiB under endless commits beside 16 readers, and is 4 MiB a minute later")
  func bounded() throws {
    let world = try ChannelWithMessages()
    let cache = world.cache
    defer { cache.close() }
    try cache.write { try $0.db.execute("CREATE TABLE filler (id INTEGER PRIMARY KEY, content BLOB)") }
    let shared = Shared()
    let readers = (0..<16).map { number in
      Thread("reader-\(number)") { Self.read(world, shared) }
    }
    var (longest, round): (Int, Int64) = (0, 0)
    let end = Clock.system.monotonicNanoseconds() + UInt64(Self.seconds) * 1_000_000_000
    // If other tests take the processor, go on until enough was written.
    while Clock.system.monotonicNanoseconds() < end || round < 60 {
      round += 1
      try Self.fill(cache, round)
      longest = max(longest, cache.walBytes)
      try Self.store(world, round)
      longest = max(longest, cache.walBytes)
    }
    shared.isDone.store(true, ordering: .relaxed)
    for reader in readers { reader.join() }
    let reads = shared.reads.load(ordering: .relaxed)
    #expect(reads > 16, "\(reads) reads, \(round) rounds")
    #expect(longest > 8 << 20 && longest <= WALLimits.boundBytes, "the WAL had \(longest) bytes")
    var waited = 0
    while cache.walBytes > WALLimits.restingBytes, waited < 60_000 {
      usleep(50_000)  // nothing announces when the log became short
      waited += 50
    }
    #expect(cache.walBytes <= WALLimits.restingBytes, "a minute later it has \(cache.walBytes) bytes")
    print(
      "WAL: \(2 * round) commits in \(Self.seconds) s beside \(reads) reads, at most \(longest) bytes,"
        + " \(cache.walBytes) bytes \(waited) ms later")
  }
}
