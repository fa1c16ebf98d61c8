import ChatCache
import ChatModel
import TestSupport
import Testing

@testable import ChatSync

/// How often users and open channels are polled (B34).
@Suite struct PaceTests {
  private static func pace(rate: Double, isKnown: Bool) -> Pace {
    var pace = Pace()
    (pace.requestsPerSecond, pace.isRateKnown) = (rate, isKnown)
    return pace
  }

  @Test("B34: polling many open channels takes at most half of the budget, with webhooks and without")
  func openChannels() {
    for isKnown in [false, true] {
      let pace = Self.pace(rate: 10, isKnown: isKnown)
      func interval(_ channels: Int, hasWebhooks: Bool = false) -> Int64 {
        pace.openInterval(Pace.Polled(channels: channels, requests: 2, hasWebhooks: hasWebhooks))
      }
      #expect(interval(5) == 2_000 && interval(50) == 20_000 && interval(5_000) == 2_000_000)
      #expect(interval(1, hasWebhooks: true) == 30_000 && interval(75, hasWebhooks: true) == 30_000)
      #expect(interval(150, hasWebhooks: true) == (isKnown ? 60_000 : 30_000))
      #expect(interval(5_000, hasWebhooks: true) == (isKnown ? 2_000_000 : 30_000))
    }
    let unlimited = Self.pace(rate: 0, isKnown: false)
    #expect(unlimited.openInterval(Pace.Polled(channels: 5_000, requests: 2)) == 2_000)
  }

  @Test("B34: users are polled less often only where the limit is known")
  func users() {
    #expect(Self.pace(rate: 10, isKnown: false).userInterval(Pace.Polled(users: 10_000)) == 30_000)
    let pace = Self.pace(rate: 10, isKnown: true)
    #expect(pace.userInterval(Pace.Polled(users: 150)) == 30_000)
    #expect(pace.userInterval(Pace.Polled(users: 300)) == 60_000)
    #expect(pace.userInterval(Pace.Polled(users: 150, channels: 500, requests: 2)) == 60_000)
  }

  @Test("B34: users and open channels together take at most half of a known limit, each its share of that")
  func together() {
    for seed: UInt64 in 1...500 {
      var random = SeededRandom(seed: seed)
      let pace = Self.pace(rate: Double(Int.random(in: 1...200, using: &random)), isKnown: true)
      let polled = Pace.Polled(
        users: Int.random(in: 0...3_000, using: &random),
        channels: Int.random(in: 0...Int.random(in: 1...3_000, using: &random), using: &random),
        requests: Int.random(in: 1...2, using: &random), hasWebhooks: Bool.random(using: &random))
      let usualOpen = Double(polled.hasWebhooks ? pace.openPollWithWebhooks : pace.openPoll)
      let (users, channels) = (Double(polled.users), Double(polled.channels * polled.requests))
      let asked = (users: users / Double(pace.userPoll) * 1000, channels: channels / usualOpen * 1000)
      let taken = (
        users: users / Double(pace.userInterval(polled)) * 1000,
        channels: channels / Double(pace.openInterval(polled)) * 1000
      )
      let polls = pace.requestsPerSecond / 2
      #expect(taken.users + taken.channels <= polls * 1.000_001, "seed \(seed)")
      #expect(taken.users <= asked.users * 1.000_001 && taken.channels <= asked.channels * 1.000_001)
      #expect(taken.users >= min(asked.users, polls / 2) * 0.999, "seed \(seed)")
      #expect(taken.channels >= min(asked.channels, polls / 2) * 0.999, "seed \(seed)")
      let all = min(polls, asked.users + asked.channels)
      #expect(taken.users + taken.channels >= all * 0.999, "what one leaves the other may use. Seed \(seed)")
    }
  }

  @Test(
    "B34: with more users and open channels than a known limit allows, polls take half of it",
    arguments: [true, false])
  func known(hasWebhooks: Bool) {
    var run = PlanRun(users: 400, open: 400, pace: Self.pace(rate: 20, isKnown: true), rate: 20)
    run.go(until: 200_000) { _, _, _ in }
    var requests = 0
    let start = run.now
    while run.now < start + 200_000 {
      if hasWebhooks { run.plan.heardWebhook(now: run.now) }
      run.go(until: run.now + 10_000) { job, _, _ in
        if case .channelChanges = job { requests += 1 }
        if case .check = job { requests += 2 }
      }
    }
    #expect((1_600...2_100).contains(requests), "half of 20 a second: \(requests) in 200 s")
  }

  @Test("B34: what a user's poll finds in an open channel is listed soon, however many are open")
  func foundByPoll() {
    var run = PlanRun(users: 1, open: 400)
    run.go(until: 200_000) { _, _, _ in }
    let url = ChannelURL("c7")
    run.outcome = { job in
      guard case .channelChanges = job else { return PlanRun.usual(job) }
      return .changed([ChannelActivity(url: url, lastMessageAt: 5, isBehind: true)], hasMore: false)
    }
    var polled: Int64?
    var checked: Int64?
    run.go(until: 240_000) { job, began, ended in
      if case .channelChanges = job { polled = polled ?? ended }
      if job == .check(url), let polled, began >= polled { checked = checked ?? began - polled }
    }
    #expect(checked.map { $0 < 3_000 } ?? false, "\(String(describing: checked))")
  }
}
