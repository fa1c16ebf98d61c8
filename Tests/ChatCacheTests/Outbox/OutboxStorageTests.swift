import ChatModel
import TestSupport
import Testing

@testable import ChatCache

/// Runs the same schedule on a whole lane in memory and on the same lane in the database, of which each step
/// reads only the rows it needs.
@Suite struct OutboxStorageTests {
  @Test("B42: steps that read a few rows of a lane do what the whole lane would do, over 60 seeds")
  func mirror() throws {
    let cache = try OutboxTableTests.open(Disk.folder())
    defer { cache.close() }
    try OutboxTableTests.prepare(cache)
    for seed in 1...60 as ClosedRange<UInt64> {
      let laneKey = OutboxLaneKey(user: UserKey(1), channel: ChannelURL("seed-\(seed)"))
      var random = SeededRandom(seed: seed)
      var mirror = OutboxLane(rows: [])
      for step in 0..<60 {
        let id = try cache.accept { try $0.nextUnsentID() }
        var move = Move(id: id, choice: random.next(), seed: seed, step: step)
        move.row = mirror.rows.isEmpty ? nil : mirror.rows[Int(move.choice >> 32) % mirror.rows.count].id
        try resolve(&move, mirror, cache, laneKey)
        _ = move.apply(&mirror)
        let asked = move
        try cache.accept { writer in
          let news = [id: OutboxContent(params: Array("{}".utf8), body: [])]
          let part = try asked.part(writer.reader, laneKey)
          try writer.changeLane(laneKey, from: part, news: news) { asked.apply(&$0) }
        }
        let stored = try cache.read { try $0.lane(laneKey) }
        guard stored.rows == mirror.rows else {
          Issue.record("seed \(seed), step \(step), \(move): \(stored.rows)\n\(mirror.rows)")
          return
        }
      }
    }
  }

  /// Takes the job that the few rows give, and compares their time of the next try with that of the whole
  /// lane.
  private func resolve(
    _ move: inout Move, _ mirror: OutboxLane, _ cache: Cache, _ laneKey: OutboxLaneKey
  ) throws {
    let now = move.now
    let part = try cache.read { try $0.laneStep(laneKey, now: now) }
    move.job = part.jobs(now: now).first
    let whole = mirror.jobs(now: now)
    #expect(part.nextTryAt == mirror.nextTryAt, "seed \(move.seed), step \(move.step)")
    #expect(part.head == mirror.head, "seed \(move.seed), step \(move.step)")
    #expect((move.job == nil) == whole.isEmpty, "seed \(move.seed), step \(move.step)")
    if let job = move.job {
      #expect(whole.contains { $0 == job } || mirror.row(job.row)?.kind.isOrdered == false)
    }
    if let row = move.row {
      let named = try cache.read { try $0.laneStep(laneKey, row: row) }
      #expect(named.blocker(of: row) == mirror.blocker(of: row))
    }
  }

  /// One step, the same for both lanes.
  private struct Move: Sendable {
    let id: Int64
    let choice: UInt64
    let seed: UInt64
    let step: Int
    /// The row that the step changes.
    var row: Int64?
    /// The due job.
    var job: (row: Int64, job: OutboxLane.Job)?

    var now: Int64 { Int64(step) * 20_000 }
    private var later: Int64 { now + Int64(choice % 2) * Limits.pendingMilliseconds }

    /// The rows that the step reads.
    func part(_ reader: CacheReader, _ laneKey: OutboxLaneKey) throws -> OutboxLane {
      switch choice % 12 {
      case 0, 1, 2: try reader.acceptanceLane(laneKey, isReadMark: accepted(now).kind == .read)
      case 3, 4: try reader.laneStep(laneKey, row: job?.row, now: now)
      case 8: try reader.laneStep(laneKey, now: later)
      case 9: try reader.underWayLane(laneKey)
      case 10: try reader.interruptedLane(laneKey, now: now)
      case 11: try reader.endedLane(laneKey)
      default: try reader.laneStep(laneKey, row: row)
      }
    }

    func apply(_ lane: inout OutboxLane) -> [OutboxLane.Notice] {
      switch choice % 12 {
      case 0, 1, 2: return lane.accept(accepted(now), now: now)
      case 3, 4:
        guard let job else { return [] }
        _ = lane.dispatch(job.row, job.job, now: now)
        return choice % 5 == 0
          ? [] : lane.finish(job.row, job.job, outcome, now: now, random: choice)
      case 5: return row.map { lane.cancel($0, now: now).notices } ?? []
      case 6: return row.map { lane.resend($0, now: now).notices } ?? []
      case 7: return row.map { lane.remove($0, now: now).notices } ?? []
      case 8: return lane.expire(now: later)
      case 9: lane.recover(now: now)
      case 10: lane.linkRecovered(now: now)
      default: return lane.resendFailed(now: now)
      }
      return []
    }

    private func accepted(_ now: Int64) -> OutboxRow {
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
