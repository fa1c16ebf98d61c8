import ChatCache
import ChatModel
import TestSupport
import Testing

@testable import ChatSync

/// The first user in line is the one that a search through all users would find (B30).
@Suite struct UserTableTests {
  private static func change(
    _ table: inout UserTable, _ user: UserID, _ random: inout SeededRandom, seenAt: Int64 = 0
  ) {
    let time = Int64.random(in: 0..<20, using: &random)
    switch Int.random(in: 0..<10, using: &random) {
    case 0: table[user] = nil
    case 1: table[user]?.isBusy.toggle()
    case 2: table[user]?.isHeld.toggle()
    case 3: table[user]?.pollAt = time
    case 4: table[user]?.phase = Bool.random(using: &random) ? .listing(after: nil, done: 0) : .connecting
    case 5: table[user]?.phase = Bool.random(using: &random) ? .steady : .sweeping
    case 6: table[user]?.isCached.toggle()
    case 7: table[user]?.hasUnsent.toggle()
    case 8:
      if Bool.random(using: &random) {
        table[user]?.state.stop()
      } else {
        _ = table[user]?.state.refused(now: time, isCached: true)
      }
    default:
      table[user] = UserWork(
        state: UserState(now: seenAt), isSynced: true, pollAt: time, wait: Backoff(maximum: 1_000))
    }
  }

  @Test("B30: whoever waits longest is first, of those who list and of the others", arguments: 1...20)
  func first(seed: UInt64) {
    var random = SeededRandom(seed: seed)
    var table = UserTable()
    for now in 0..<3_000 {
      Self.change(&table, UserID("u\(Int.random(in: 0..<30, using: &random))"), &random)
      let now = Int64(now % 20)
      #expect(table.refused == Set(table.works.filter { $0.value.state.refusedAt != nil }.keys))
      let turns = table.works.values.compactMap(\.turn)
      #expect(table.dueAt(withListings: true) == turns.map(\.since).min())
      #expect(table.dueAt(withListings: false) == turns.filter { !$0.isListing }.map(\.since).min())
      let connecting = table.works.filter { $0.value.isFree && $0.value.phase == .connecting }
      #expect(table.firstConnect?.moment == connecting.values.map(\.pollAt).min())
      if let first = table.firstConnect { #expect(connecting[first.user]?.pollAt == first.moment) }
      for isListing in [true, false] {
        let due = table.works.compactMapValues(\.turn).filter {
          $0.value.since <= now && $0.value.isListing == isListing
        }
        let found = table.next(isListing: isListing, now: now)
        #expect((found == nil) == due.isEmpty)
        guard let found, let turn = due[found] else { continue }
        #expect(!due.values.contains { $0.isPreferred && !turn.isPreferred })
        #expect(!due.values.contains { $0.isPreferred == turn.isPreferred && $0.since < turn.since })
      }
    }
  }

  @Test("B4: every active user is looked at before going idle, and nobody else", arguments: 1...20)
  func rests(seed: UInt64) {
    var random = SeededRandom(seed: seed)
    var table = UserTable()
    var now: Int64 = 0
    for _ in 0..<3_000 {
      let user = UserID("u\(Int.random(in: 0..<10, using: &random))")
      if Bool.random(using: &random) { _ = table[user]?.state.seen(now: now) }
      Self.change(&table, user, &random, seenAt: now)
      table[user]?.hasUnsent = false
      now += Int64.random(in: 0..<100_000, using: &random)
      while let next = table.nextToRest(now: now, later: 60_000) {
        #expect(table[next]?.state.isActive == true)
        _ = table[next]?.rest(now: now)
      }
      let late = table.works.values.filter {
        $0.state.isActive && now - $0.state.seenAt >= UserState.idleAfter + 60_000
      }
      #expect(late.isEmpty)
    }
  }

  @Test("B5: who is polled is asked about after 20 polls, and closed if deactivated; else polls go on")
  func askedAboutAgain() {
    for isGone in [false, true] {
      var polls: [Int] = []
      var run = PlanRun(users: 1, open: 0)
      let error =
        isGone
        ? UpstreamError.rejection(code: 400300, message: "")
        : UpstreamError.unusable(reason: "status 500", retryAfter: nil)
      run.outcome = { job in
        guard case .connect = job else { return PlanRun.usual(job) }
        return polls.count == 1 || isGone && polls.count > 1 ? .failed(error) : .acknowledged
      }
      run.go(until: 1_700_000) { job, _, _ in
        if case .connect = job { polls.append(0) }
        if case .channelChanges = job { polls[polls.count - 1] += 1 }
      }
      #expect(isGone ? polls == [20, 0, 0] : polls.count == 3 && polls[1] == 20, "\(polls)")
      #expect(run.plan.status(of: UserID("u0"))?.phase == (isGone ? .closed : .connected))
    }
  }
}
