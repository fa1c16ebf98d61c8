import Glibc
import Testing

@testable import Origin

/// `PERCH_TORTURE_SEED` names a seed. `PERCH_TORTURE_SEEDS` is the number of seeds of quicker storms; this
/// test tries a fortieth as many.
@Suite struct OriginPropertyTests {
  private static var seeds: [UInt64] {
    func number(_ name: String) -> UInt64? { getenv(name).flatMap { UInt64(String(cString: $0)) } }
    if let one = number("PERCH_TORTURE_SEED") { return [one] }
    return Array(1...max(1, (number("PERCH_TORTURE_SEEDS") ?? 1) / 40))
  }

  @Test("server and model agree over 10 000 random operations", arguments: seeds)
  func operations(seed: UInt64) throws {
    print("origin model: seed \(seed)")
    let world = try ModelWorld(seed: seed)
    var mirror = ModelMirror()
    do {
      for step in 1...10_000 {
        let before = world.channels
        try world.step()
        for (url, channel) in world.channels where channel.messages.count > before[url]?.messages.count ?? 0 {
          let known = Set(before[url]?.messages.map(\.id) ?? [])
          mirror.learn(channel.messages.filter { !known.contains($0.id) }, in: url)
        }
        guard step % 100 == 0 else { continue }
        try world.checkWindows()
        try world.checkCounts()
        try mirror.replay(world)
      }
    } catch let disagreement as Disagreement {
      Issue.record("seed \(seed): \(disagreement)")
    }
  }
}
