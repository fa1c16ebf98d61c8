import Glibc
import Platform
import Testing

@testable import ChatCache
@testable import KilledWriter

/// A process that writes a known schedule is killed at random moments, again and again in one directory.
@Suite(.serialized) struct KilledTests {
  /// The number of kills for each seed: PERCH_TORTURE_KILLS, else few.
  private static let kills = getenv("PERCH_TORTURE_KILLS").flatMap { Int(String(cString: $0)) } ?? 12

  @Test(
    "B36 B60: killed at a random moment, each write is whole or undone, the answered ones are there, the next works",
    arguments: [1, 2, 3] as [UInt64])
  func killed(seed: UInt64) throws {
    let directory = Disk.folder()
    let schedule = Schedule(seed: seed)
    // The same writes in a cache that is not killed.
    let twin = try Cache(Writer.configuration(Disk.folder()))
    defer { twin.close() }
    var (written, inTwin) = (0, 0)
    var random = SystemRandomNumberGenerator()
    for kill in 0..<Self.kills {
      let child = try Child(directory, mode: "\(seed)")
      // Some are killed while they open the cache.
      if kill % 5 != 1 { #expect(child.hear(Int.random(in: 1...40, using: &random)), "it ended by itself") }
      usleep(UInt32.random(in: 0..<3_000, using: &random))  // the moment is what is tried, nothing is awaited
      #expect(child.die())

      let cache = try Cache(Writer.configuration(directory))
      defer { cache.close() }
      let found = try Schedule.count(cache)
      #expect(found >= max(child.answered, written), "what was answered is there")
      for number in inTwin + 1..<found + 1 { try twin.write { try schedule.write(number, $0) } }
      let (here, there) = (try Contents(of: cache), try Contents(of: twin))
      #expect(here == there, "seed \(seed), \(found) writes: \(here.difference(from: there))")
      let report = try cache.check()
      #expect(report.isSound, "\(report.findings)")
      try cache.write { try schedule.write(found + 1, $0) }
      try twin.write { try schedule.write(found + 1, $0) }
      (written, inTwin) = (found + 1, found + 1)
      #expect(try Contents(of: cache) == Contents(of: twin))
    }
    #expect(written > Self.kills, "nothing was written")
  }
}
