import ChatModel
import Testing

@testable import ChatSync

/// What the plan does about users when the link was lost and is back (B1, B3).
@Suite struct LostLinkPlanTests {
  private let alice = UserID("alice")

  /// A plan whose user is in step, and the moment.
  private func settled(hasChangelog: Bool = true) -> (plan: Plan, now: Int64) {
    var plan = Plan(seed: 1)
    if !hasChangelog { plan.learn(.channelChangelog, isOffered: false) }
    plan.add(alice, isSynced: true, isCached: true, now: 0)
    for now in Int64(0)..<50 {
      for job in plan.next(now: now) {
        let outcome: Outcome =
          switch job {
          case .list: .listed(next: nil, channels: [])
          case .topChannels: .changed([], hasMore: false)
          default: PlanRun.usual(job)
          }
        plan.ended(job, outcome, now: now)
      }
    }
    #expect(plan.users[alice]?.isCatchingUp == false)
    return (plan, 50)
  }

  private func lose(_ plan: inout Plan, now: Int64) {
    for _ in 0..<2 { plan.met(.unreachable(reason: "", mayHaveArrived: false), now: now) }
    #expect(!plan.link.isOnline)
  }

  @Test("B1: an answer about a user from before a lost link tells nothing of what changed meanwhile")
  func answeredLate() throws {
    let poll = SyncJob.channelChanges(alice)
    for isBackBefore in [true, false] {
      var (plan, now) = settled()
      while !plan.next(now: now).contains(poll) { now = try #require(plan.wakeAt(now: now)) }
      lose(&plan, now: now)
      if isBackBefore { plan.met(nil, now: now + 1) }
      plan.ended(poll, .changed([], hasMore: false), now: now + 2)
      #expect(plan.link.isOnline && plan.users[alice]?.isCatchingUp == true)
      let jobs = plan.next(now: now + 3)
      #expect(jobs.contains(poll))
      plan.ended(poll, .changed([], hasMore: false), now: now + 4)
      #expect(plan.users[alice]?.isCatchingUp == false)
    }
  }

  @Test("B1, B11: without a changelog a lost link is followed by a listing of all channels")
  func listedAfterLoss() {
    var (plan, now) = settled(hasChangelog: false)
    now += 1_000
    lose(&plan, now: now)
    plan.met(nil, now: now + 1)
    let jobs = plan.next(now: now + 2)
    #expect(jobs.contains(.list(alice, after: nil)))
  }

  @Test("B1: only an answer that tells all changes makes the changes known")
  func partialAnswers() {
    typealias Case = (outcome: Outcome, isUnknown: Bool?)
    let cases: [Case] = [
      (.changed([], hasMore: false), false), (.changed([], hasMore: true), nil),
      (.listed(next: nil, channels: []), nil), (.acknowledged, nil), (.done, nil), (.tokenLost, true),
      (.lacks(.channelChangelog), true), (.storeFailed, true), (.failed(.canceled), nil),
      (.failed(.rateLimited(milliseconds: 1)), true), (.failed(.unreadable(reason: "")), true),
    ]
    for (outcome, isUnknown) in cases {
      #expect(outcome.leavesChangesUnknown(isSynced: true) == isUnknown, "\(outcome)")
    }
    #expect(Outcome.listed(next: "2", channels: []).leavesChangesUnknown(isSynced: false) == false)
    var (plan, now) = settled()
    plan.users[alice]?.pollAt = now
    #expect(plan.next(now: now).contains(.channelChanges(alice)))
    plan.ended(.channelChanges(alice), .tokenLost, now: now)
    for step in 0..<4 {
      #expect(plan.users[alice]?.isUnknown == true, "\(step)")
      now += 1
      for job in plan.next(now: now) {
        if case .list = job {
          plan.ended(job, .listed(next: step == 0 ? "more" : nil, channels: []), now: now)
        } else {
          plan.ended(job, PlanRun.usual(job), now: now)
        }
      }
    }
    #expect(plan.users[alice]?.isUnknown == false)
  }

  @Test("B1, B11: when an upstream offers no changelog any more, all users' channels are listed")
  func changelogGone() throws {
    var (plan, now) = settled()
    let bob = UserID("bob")
    plan.add(bob, isSynced: true, isCached: true, now: now)
    for _ in 0..<5 {
      now += 1
      for job in plan.next(now: now) { plan.ended(job, PlanRun.usual(job), now: now) }
    }
    plan.users[alice]?.pollAt = now
    #expect(plan.next(now: now).contains(.channelChanges(alice)))
    plan.ended(.channelChanges(alice), .lacks(.channelChangelog), now: now)
    plan.users[bob]?.pollAt = now
    let jobs = plan.next(now: now + 1)
    #expect(jobs.contains(.list(alice, after: nil)) && jobs.contains(.list(bob, after: nil)))
  }

  @Test("B3: an upstream that refuses the key for one user alone is not asked about the user without a pause")
  func keyRefusedForOne() throws {
    var (plan, now) = settled()
    var polls = 0
    plan.users[alice]?.pollAt = now
    for _ in 0..<5_000 {
      now += 1
      for job in plan.next(now: now) {
        if case .probe = job {
          plan.ended(job, .done, now: now)
        } else {
          polls += 1
          plan.ended(job, .failed(.unauthorized), now: now)
        }
      }
    }
    #expect((1...10).contains(polls), "\(polls)")
  }
}
