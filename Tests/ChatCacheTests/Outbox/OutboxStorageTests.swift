import ChatModel
import TestSupport
import Testing

@testable import ChatCache

/// A lane in memory and the same lane in the table go through the same schedule.
@Suite struct OutboxStorageTests {
  @Test("B42: the table keeps every part of a lane through random schedules, over 40 seeds")
  func mirror() throws {
    let cache = try OutboxTableTests.open(Disk.folder())
    defer { cache.close() }
    try OutboxTableTests.prepare(cache)
    for seed in 1...40 as ClosedRange<UInt64> {
      let place = OutboxPlace(user: UserKey(1), channel: ChannelURL("seed-\(seed)"))
      var random = SeededRandom(seed: seed)
      var mirror = OutboxLane(rows: [])
      for step in 0..<40 {
        let id = try cache.accept { try $0.nextUnsentID() }
        let wish = Wish(id: id, choice: random.next(), seed: seed, step: step)
        _ = wish.apply(&mirror)
        let news = [id: OutboxContent(params: Array("{}".utf8), body: [])]
        try cache.accept { writer in
          try writer.changeLane(place, news: news) { wish.apply(&$0) }
        }
        let stored = try cache.read { try $0.lane(place) }
        guard stored == mirror else {
          Issue.record("seed \(seed), step \(step), \(wish): \(stored.rows)\n\(mirror.rows)")
          return
        }
      }
    }
  }

  /// One step, the same for both lanes.
  private struct Wish: Sendable {
    let id: Int64
    let choice: UInt64
    let seed: UInt64
    let step: Int

    func apply(_ lane: inout OutboxLane) -> [OutboxLane.Notice] {
      let now = Int64(step) * 20_000
      let one = lane.rows.isEmpty ? nil : lane.rows[Int(choice >> 32) % lane.rows.count]
      switch choice % 10 {
      case 0, 1, 2: return lane.accept(row(now), now: now)
      case 3, 4:
        guard let due = lane.errands(now: now).first else { return [] }
        _ = lane.dispatch(due.row, due.errand, now: now)
        return lane.finish(due.row, due.errand, outcome, now: now, random: choice)
      case 5: return one.map { lane.cancel($0.id, now: now).notices } ?? []
      case 6: return one.map { lane.resend($0.id, now: now).notices } ?? []
      case 7: return one.map { lane.remove($0.id, now: now).notices } ?? []
      case 8: return lane.expire(now: now + Int64(choice % 2) * Limits.pendingMilliseconds)
      default:
        lane.recover(now: now)
        lane.linkRecovered(now: now)
        return []
      }
    }

    private func row(_ now: Int64) -> OutboxRow {
      let kind = OutboxRow.Kind.allCases[Int(choice >> 8) % OutboxRow.Kind.allCases.count]
      return OutboxRow(
        id: id, requestID: RequestID("s\(seed).\(step)")!, kind: kind, target: kind.isMessage ? nil : 5,
        aspect: kind == .reaction ? "smile" : "", blocksOnFailure: choice % 4 == 0,
        upload: kind == .file ? .needed : .none, now: now)
    }

    private var outcome: OutboxLane.Outcome {
      switch (choice >> 16) % 6 {
      case 0: .success(message: Int64(choice >> 40))
      case 1: .rejection(code: "900050")
      case 2: .linkFault(code: "unreachable")
      case 3: .uncertain
      case 4: .absent
      default: .duplicate
      }
    }
  }
}
