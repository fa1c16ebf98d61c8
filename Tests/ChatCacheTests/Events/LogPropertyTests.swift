import ChatModel
import Platform
import SQLite
import TestSupport
import Testing

@testable import ChatCache

/// The log against a list of all events so far, with writes, failures, restarts, time and trimming in random
/// order.
@Suite struct LogPropertyTests {
  private struct Told {
    let sequence: Int64
    let channel: Int64
    let at: Int64
  }

  @Test(
    "B52 B53: whatever happens, a cursor gets exactly what came after it or is refused for what is gone",
    arguments: 1...20)
  func anyCursor(seed: Int) throws {
    var random = SeededRandom(seed: UInt64(seed))
    var retention = Retention()
    retention.events = .random(in: 1...40, using: &random)
    retention.eventMilliseconds = .random(in: 50...5_000, using: &random)
    let world = try LogTrimmingTests.World(retention)
    defer { world.cache.close() }
    var told: [Told] = []
    var cursors = [world.cache.cursor]
    for _ in 0..<150 {
      switch Int.random(in: 0..<100, using: &random) {
      case 0..<60:
        let channels = (0..<Int.random(in: 1...6, using: &random)).map { _ in
          Int64.random(in: 1...3, using: &random)
        }
        let (sequences, at) = try world.tellTimed(channels)
        for (sequence, channel) in zip(sequences, channels) {
          told.append(Told(sequence: sequence, channel: channel, at: at))
        }
      case 60..<70: world.fail()
      case 70..<85: world.now.withLock { $0 += .random(in: 0...700, using: &random) }
      case 85..<92:
        try world.cache.trim()
        try expectKept(told, retention, world)
      case 92..<95: try world.restart()
      default: cursors.append(world.cache.cursor)
      }
      for cursor in cursors.suffix(6) + [cursors.randomElement(using: &random)!] {
        try expectExact(cursor, told, world)
      }
    }
  }

  /// Expects that trimming kept exactly the newest and youngest events, and always the last one.
  private func expectKept(
    _ told: [Told], _ retention: Retention, _ world: LogTrimmingTests.World
  ) throws {
    let oldest = world.now.withLock { $0 } - retention.eventMilliseconds
    var expected = told.suffix(Int(retention.events)).filter { $0.at >= oldest }.map(\.sequence)
    if expected.isEmpty, let last = told.last { expected = [last.sequence] }
    let kept = try world.kept()
    #expect(kept == expected, "\(kept) but \(expected)")
  }

  private func expectExact(
    _ cursor: EventCursor, _ told: [Told], _ world: LogTrimmingTests.World
  ) throws {
    try world.cache.read { reader in
      let since = told.filter { $0.sequence > cursor.sequence }
      let kept = Set(try reader.db.all("SELECT seq FROM event") { $0.int64(0) })
      let isWhole = since.allSatisfy { kept.contains($0.sequence) }
      #expect(try reader.covers(cursor) == isWhole, "\(cursor)")
      guard isWhole else { return }
      for channel in Int64(1)...3 {
        let changes = try reader.commonChanges(in: ChannelKey(channel), after: cursor.sequence, limit: 10_000)
        #expect(changes.map(\.sequence) == since.filter { $0.channel == channel }.map(\.sequence))
      }
    }
  }
}
