import ChatCache
import ChatModel
import TestSupport
import Testing

@testable import ChatSync

/// The interval between two polls of a user that clients are told (`poll_interval_ms`): it is never shorter
/// than what happens.
@Suite struct PollLatenessTests {
  private static let usual: Int64 = 30_000

  @Test("B34: the told interval covers every wait of a first poll in line, and shrinks when none waits")
  func neverShorter() {
    for seed: UInt64 in 1...50 {
      var random = SeededRandom(seed: seed)
      var lateness = PollLateness()
      // The naive model: all waits so far, of which each counts half after each usual interval.
      var waits: [(at: Int64, wait: Int64)] = []
      var now: Int64 = 0
      for _ in 0..<300 {
        now += Int64.random(in: 0..<5_000, using: &random)
        let isLate = Int.random(in: 0..<10, using: &random) == 0
        let wait = isLate ? Int64.random(in: 0..<300_000, using: &random) : 0
        let before = lateness.told(usual: Self.usual, dueAt: now - wait, now: now)
        #expect(before >= Self.usual + wait - Self.usual / 20, "seed \(seed)")
        lateness.began(dueAt: now - wait, usual: Self.usual, now: now)
        waits.append((now, wait))
        let told = lateness.told(usual: Self.usual, dueAt: nil, now: now)
        #expect(told == before, "the wait is kept. Seed \(seed)")
        let halved = waits.map { Double($0.wait) / Self.halvings(from: $0.at, to: now) }.max() ?? 0
        let difference = abs(Double(told - Self.usual) - halved)
        #expect(difference <= Double(Self.usual) / 10 + halved * 0.07, "seed \(seed)")
      }
      let later = now + 12 * Self.usual
      #expect(lateness.told(usual: Self.usual, dueAt: nil, now: later) == Self.usual, "seed \(seed)")
    }
  }

  /// Half for each usual interval, and in between in proportion.
  private static func halvings(from: Int64, to: Int64) -> Double {
    var (left, share) = (to - from, 1.0)
    while left >= usual { (left, share) = (left - usual, share * 2) }
    return share / (1 - Double(left) / Double(usual) / 2)
  }

  @Test("B34: one slow answer is not told, slow answers are")
  func slowAnswers() {
    var lateness = PollLateness()
    func told() -> Int64 { lateness.told(usual: Self.usual, dueAt: nil, now: 0) }
    lateness.answered(after: 10_000)
    #expect(told() == Self.usual)
    for _ in 0..<40 { lateness.answered(after: 10_000) }
    #expect((39_000...42_000).contains(told()), "\(told())")
    for _ in 0..<40 { lateness.answered(after: 100) }
    #expect(told() == Self.usual)
  }

  @Test("B34: what is told of a poll in line grows while the worker begins nothing")
  func growsMeanwhile() {
    let told = ToldInterval(usual: Self.usual, dueAt: 1_000)
    #expect(told.milliseconds(now: 0) == 30_000 && told.milliseconds(now: 2_500) == 30_000)
    #expect(told.milliseconds(now: 2_501) == 33_000 && told.milliseconds(now: 101_000) == 132_000)
  }

  @Test("B34: where polls take longer than the usual interval, that is told; and no more when they catch up")
  func overload() {
    for seed: UInt64 in 1...3 {
      var random = SeededRandom(seed: seed)
      var run = PlanRun(
        users: Int.random(in: 300...600, using: &random), open: Int.random(in: 0...2, using: &random),
        rate: Double(Int.random(in: 5...8, using: &random)))
      var begun: [UserID: Int64] = [:]
      var longest: Int64 = 0
      while run.now < 500_000 {
        let before = run.told
        var apart: Int64 = 0
        run.go(until: run.now + 1_000) { job, began, _ in
          guard case .channelChanges(let user) = job else { return }
          if let last = begun.updateValue(began, forKey: user) { apart = max(apart, began - last) }
        }
        longest = max(longest, apart)
        let told = max(before, run.told)
        #expect(apart <= told + Self.usual / 20 + 2_000, "seed \(seed) at \(run.now)")
      }
      let told = run.told
      #expect(longest > 2 * Self.usual && told < 2 * longest, "seed \(seed): \(told), \(longest)")
      for user in begun.keys.dropFirst(20) { run.plan.stop(user) }
      run.go(until: run.now + 10 * Self.usual) { _, _, _ in }
      #expect(run.told == Self.usual, "seed \(seed)")
    }
  }

  @Test("B34: polls that clients wait for do not hide how late the others are")
  func awaited() {
    var run = PlanRun(users: 1_000, open: 0, rate: 8)
    for _ in 0..<300 {
      for number in 0..<3 { _ = run.plan.pollNow(UserID("u\(number)"), now: run.now) }
      run.go(until: run.now + 1_000) { _, _, _ in }
    }
    #expect(run.told > 100_000)
  }

  @Test("B3: the time in which the link was down is not told as waiting")
  func afterLoss() {
    var run = PlanRun(users: 5, open: 0)
    run.go(until: 120_000) { _, _, _ in }
    let failure = Outcome.failed(.unreachable(reason: "", mayHaveArrived: false))
    // At first only probes are answered, so the users keep their waits when the link is back.
    run.outcome = { $0 == .probe ? .done : failure }
    run.go(until: 300_000) { _, _, _ in }
    run.outcome = { _ in failure }
    run.go(until: 1_500_000) { _, _, _ in }
    #expect(!run.plan.link.isOnline)
    #expect(run.told == Self.usual)
    run.outcome = PlanRun.usual
    for _ in 0..<90 {
      run.go(until: run.now + 1_000) { _, _, _ in }
      #expect(run.told <= Self.usual * 2)
    }
  }

  @Test("B34: users are told how late polls are, and a tail still counts as live by the usual interval")
  func told() async throws {
    let world = World()
    let board = world.worker.board
    #expect(board.connection(of: world.alice).pollInterval == Self.usual)
    try await world.worker.start()
    await world.worker.connect(world.alice)
    #expect(await World.wait { board.connection(of: world.alice).pollInterval < Self.usual })
    await world.worker.stop()
    var common = SyncStatusBoard.Common()
    common.told.dueAt = await world.worker.now - 100_000
    board.write(common)
    #expect(board.connection(of: world.alice).pollInterval > 130_000)
    #expect(board.connection(of: UserID("new")).pollInterval > 130_000)
    #expect(board.pollInterval(of: ChannelURL("c0")) == Self.usual)
  }
}

extension PlanRun {
  /// The interval between two polls that users are told now.
  fileprivate var told: Int64 { plan.toldInterval(now: now).milliseconds(now: now) }
}
