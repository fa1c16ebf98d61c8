import ChatCache
import Glibc
import Platform
import TestSupport
import Testing

@testable import ChatSync

/// Randomly changed answers, read by the real decoder and stored in a real cache.
@Suite(.timeLimit(.minutes(10)))
struct MutationTests {
  /// How many answers each seed makes, and how long that may take on a busy machine; with
  /// `PERCH_TORTURE_SEEDS` an hour.
  static let rounds = 2_500
  static let seconds: Double = getenv("PERCH_TORTURE_SEEDS") == nil ? 10 : 3_600

  @Test(
    "B35: over 20 000 changed answers nothing ends the process, and the cache is sound after all of them",
    arguments: 1...8 as ClosedRange<UInt64>)
  func anything(seed: UInt64) async throws {
    var random = SeededRandom(seed: seed)
    let world = try await Attacked()
    defer { world.cache.close() }
    let samples = try Sample.allCases.map { kind in
      let tree = try Tree(kind.text)
      return (kind: kind, tree: tree, paths: tree.paths)
    }
    let end = Clock.system.monotonicNanoseconds() + UInt64(Self.seconds * 1e9)
    for round in 0..<Self.rounds where round < 100 || Clock.system.monotonicNanoseconds() < end {
      let (kind, good, paths) = random.one(of: samples)
      var bytes = Array(good.mutated(at: paths, &random).text.utf8)
      if random.chance(10) { Self.damage(&bytes, &random) }
      let status = random.chance(90) ? 200 : random.one(of: [201, 202, 204, 302, 400, 404, 429, 500, 503])
      do { _ = try await world.take(kind, bytes, status: status) } catch {
        Issue.record("seed \(seed), round \(round): \(error) of \(String(decoding: bytes, as: UTF8.self))")
        return
      }
      if round % 50 == 0 { try await world.arrive(Int64(1_000_000 + round)) }
    }
    _ = try world.read()
    #expect(try world.strangeNumbers() == [], "seed \(seed)")
    let report = try world.cache.check()
    #expect(report.isSound, "seed \(seed): \(report.findings)")
  }

  /// Cuts the text, or replaces a byte.
  private static func damage(_ bytes: inout [UInt8], _ random: inout SeededRandom) {
    guard !bytes.isEmpty else { return }
    let offset = Int.random(in: 0..<bytes.count, using: &random)
    if random.chance(50) { bytes.removeLast(bytes.count - offset) } else { bytes[offset] = random.next8() }
  }
}

extension SeededRandom {
  fileprivate mutating func next8() -> UInt8 { UInt8(truncatingIfNeeded: next()) }
}
