import ChatCache
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

  @Test("B42: after a lost link read marks wait until the upstream has told what is new; messages do not")
  func readMarks() {
    var (plan, now) = settled()
    let lane = OutboxLaneName(user: alice, channel: ChannelURL("c0"))
    #expect(plan.mayMarkRead(lane))
    #expect(!plan.mayMarkRead(OutboxLaneName(user: UserID("bob"), channel: lane.channel)))
    now += 1_000
    lose(&plan, now: now)
    plan.met(nil, now: now)
    #expect(!plan.mayMarkRead(lane))
    // The token is too old: all channels are listed, and only then the changes are asked for.
    #expect(plan.next(now: now + 1).contains(.channelChanges(alice)))
    plan.ended(.channelChanges(alice), .tokenLost, now: now + 2)
    #expect(plan.users[alice]?.sendGate == .max && !plan.mayMarkRead(lane))
    for step in Int64(3)..<50 {
      for job in plan.next(now: now + step) {
        if case .list = job {
          #expect(!plan.mayMarkRead(lane))
          plan.ended(job, .listed(next: nil, channels: []), now: now + step)
        } else {
          plan.ended(job, PlanRun.usual(job), now: now + step)
        }
      }
    }
    #expect(plan.mayMarkRead(lane))
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
      #expect(outcome.leavesChangesUnknown == isUnknown, "\(outcome)")
    }
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

  @Test("B1, B34: of who left, as a webhook says, only a poll that begins after that tells all changes")
  func toldOfLeaving() throws {
    let poll = SyncJob.channelChanges(alice)
    for isUnderWay in [true, false] {
      var (plan, now) = settled()
      while isUnderWay, !plan.next(now: now).contains(poll) { now = try #require(plan.wakeAt(now: now)) }
      plan.toldOfLeaving(alice, now: now)
      #expect(plan.users[alice]?.isUnknown == true)
      if isUnderWay {
        plan.ended(poll, .changed([], hasMore: false), now: now)
        #expect(plan.users[alice]?.isUnknown == true)
      }
      #expect(plan.next(now: now).contains(poll), "at once")
      plan.ended(poll, .changed([], hasMore: false), now: now)
      #expect(plan.users[alice]?.isUnknown == false)
    }
  }

  @Test("B1, B34: who left while all channels were listed in one answer is polled at once")
  func leftDuringListing() throws {
    var plan = Plan(seed: 1)
    plan.learn(.channelChangelog, isOffered: true)
    plan.add(alice, isSynced: false, isCached: false, now: 0)
    let list = SyncJob.list(alice, after: nil)
    for now in Int64(0)..<5 where !plan.running.contains(list) {
      for job in plan.next(now: now) where job != list { plan.ended(job, PlanRun.usual(job), now: now) }
    }
    plan.toldOfLeaving(alice, now: 6)
    plan.ended(list, .allListed([], isOnePage: true), now: 7)
    #expect(plan.users[alice]?.isUnknown == true)
    #expect(plan.next(now: 8).contains(.channelChanges(alice)))
    plan.ended(.channelChanges(alice), .changed([], hasMore: false), now: 9)
    #expect(plan.users[alice]?.isUnknown == false)
  }

  @Test("B35: a server that refuses each token is asked ever less often, and the first time again at once")
  func refusedTokens() throws {
    var (plan, now) = settled()
    plan.users[alice]?.pollAt = now
    #expect(plan.next(now: now).contains(.channelChanges(alice)))
    plan.ended(.channelChanges(alice), .tokenLost, now: now)
    var begun: [Int64] = []
    for _ in 0..<40 {
      for job in plan.next(now: now) {
        switch job {
        case .list(_, after: nil):
          begun.append(now)
          plan.ended(job, .listed(next: "more", channels: []), now: now)
        case .list: plan.ended(job, .tokenLost, now: now)
        default: plan.ended(job, PlanRun.usual(job), now: now)
        }
      }
      now = try #require(plan.wakeAt(now: now))
    }
    #expect(begun.count > 5 && begun[0] == 50)
    #expect(begun[5] > begun[0] + 3_000 && now > begun[0] + 60_000)
    // A poll that tells all changes ends that.
    plan.users[alice]?.phase = .steady
    plan.users[alice]?.pollAt = now
    #expect(plan.next(now: now).contains(.channelChanges(alice)))
    plan.ended(.channelChanges(alice), .changed([], hasMore: false), now: now)
    #expect(plan.users[alice]?.waitAfterLostToken == nil)
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

  @Test("B1, B11: a listing during which the link was lost is followed by another one")
  func lostWhileListing() {
    var (plan, now) = settled(hasChangelog: false)
    plan.users[alice]?.sweepAt = now
    plan.users[alice]?.pollAt = now
    #expect(plan.next(now: now).contains(.list(alice, after: nil)))
    plan.ended(.list(alice, after: nil), .listed(next: "2", channels: []), now: now)
    lose(&plan, now: now)
    plan.met(nil, now: now)
    var listings = 0
    for _ in 0..<20 {
      now += 1
      for job in plan.next(now: now) {
        if case .list(_, let after) = job {
          if after == nil { listings += 1 }
          plan.ended(job, .listed(next: nil, channels: []), now: now)
        } else if case .topChannels = job {
          #expect(listings == 1, "it makes the changes known")
          plan.ended(job, .changed([], hasMore: false), now: now)
        } else {
          plan.ended(job, PlanRun.usual(job), now: now)
        }
      }
    }
    #expect(listings == 1 && plan.users[alice]?.isCatchingUp == false)
  }

  @Test("B11, B35: a page of a listing that fails is asked for again, and the listing is not repeated")
  func failedPage() {
    var (plan, now) = settled(hasChangelog: false)
    plan.users[alice]?.sweepAt = now
    plan.users[alice]?.pollAt = now
    var (listings, tops) = (0, 0)
    for _ in 0..<5_000 {
      now += 1
      for job in plan.next(now: now) {
        switch job {
        case .list(_, after: nil):
          listings += 1
          plan.ended(job, .listed(next: "2", channels: []), now: now)
        case .list:
          let isFirst = plan.users[alice]?.isUnknown == false
          let failure = Outcome.failed(.unusable(reason: "status 500"))
          plan.ended(job, isFirst ? failure : .listed(next: nil, channels: []), now: now)
        case .topChannels:
          tops += 1
          plan.ended(job, .changed([], hasMore: false), now: now)
        default: plan.ended(job, PlanRun.usual(job), now: now)
        }
      }
    }
    #expect(listings == 1 && tops > 0)
  }

  @Test("B11, B35: who is asked to send fewer requests does not list all channels for that")
  func rateLimited() {
    var (plan, now) = settled(hasChangelog: false)
    plan.users[alice]?.pollAt = now
    #expect(plan.next(now: now).contains(.topChannels(alice)))
    plan.ended(.topChannels(alice), .failed(.rateLimited(milliseconds: 1)), now: now)
    #expect(plan.users[alice]?.isUnknown == true)
    now += 60_000
    #expect(plan.next(now: now).contains(.topChannels(alice)))
  }

  @Test(
    "B3: an upstream that fails for one user alone is asked about the user after pauses, and stays online",
    arguments: [.unauthorized, .unusable(reason: "status 500")] as [UpstreamError])
  func failsForOne(error: UpstreamError) throws {
    var (plan, now) = settled()
    let bob = UserID("bob")
    plan.add(bob, isSynced: true, isCached: true, now: now)
    var (polls, polled, losses) = (0, 0, 0)
    for _ in 0..<60_000 {
      now += 1
      for job in plan.next(now: now) {
        if job.user == alice {
          polls += 1
          plan.ended(job, .failed(error), now: now)
        } else {
          if job.user == bob { polled += 1 }
          plan.ended(job, PlanRun.usual(job), now: now)
        }
      }
      losses += plan.takeAnnouncements().count { if case .offline = $0 { true } else { false } }
    }
    #expect((2...20).contains(polls) && polled > 3, "\(polls) \(polled)")
    #expect(error == .unauthorized ? losses <= polls : losses == 0, "\(losses)")
  }

  @Test("B3: an upstream that answers nothing but 5xx is offline after one failed probe, and once")
  func failsForAll() throws {
    var (plan, now) = settled()
    var told: [Link.State] = []
    for _ in 0..<120_000 {
      now += 1
      for job in plan.next(now: now) { plan.ended(job, .failed(.unusable(reason: "status 503")), now: now) }
      told += plan.takeAnnouncements()
    }
    #expect(told == [.online, .offline(.unreachable)], "\(told)")
  }
}
