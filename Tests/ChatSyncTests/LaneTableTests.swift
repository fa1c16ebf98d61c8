import ChatModel
import TestSupport
import Testing

@testable import ChatCache
@testable import ChatSync

/// The lane that is chosen next is the one that a walk through all lanes would find (B30, B40).
@Suite struct LaneTableTests {
  private static let users = (0..<6).map { UserID("u\($0)") }
  private static let channels = (0..<6).map { ChannelURL("c\($0)") }

  /// The lanes that may send at `now`, by the moment of their next try: each lane is looked at, with the user
  /// and the channel as they are.
  private static func senders(_ plan: Plan, now: Int64) -> [OutboxLaneName: Int64] {
    plan.lanes.works.filter { lane, work in
      guard !work.isBusy, let user = plan.users[lane.user], user.state.isActive, !user.isHeld else {
        return false
      }
      if user.phase == .connecting { return false }
      if user.phase == .steady, user.isCatchingUp, user.isBusy || user.pollAt <= now { return false }
      guard let channel = plan.channels[lane.channel], channel.isCatchingUp, channel.isOpen,
        !channel.isOfNobody
      else { return true }
      let check = max(channel.heldBack.moment(.check, channel.checkAt), channel.retryAt ?? 0)
      return !channel.isBusy && check > now
    }.mapValues(\.dueAt)
  }

  private static func uploaders(_ plan: Plan) -> [OutboxLaneName: Int64] {
    plan.uploads.works.filter { lane, work in
      guard !work.isBusy, let user = plan.users[lane.user] else { return false }
      return user.state.isActive && !user.isHeld
    }.mapValues(\.dueAt)
  }

  private static func change(_ plan: inout Plan, _ random: inout SeededRandom, now: Int64) {
    let user = users[Int.random(in: 0..<users.count, using: &random)]
    let url = channels[Int.random(in: 0..<channels.count, using: &random)]
    let lane = OutboxLaneName(user: user, channel: url)
    let time = now + Int64.random(in: -20..<20, using: &random)
    let isTrue = Bool.random(using: &random)
    switch Int.random(in: 0..<16, using: &random) {
    case 0: plan.outboxChanged(lane, wait: isTrue ? 0 : 15, now: now)
    case 1: plan.uploadWaits(lane, milliseconds: isTrue ? 0 : 15, now: now)
    case 2:
      plan.lanes[lane]?.isBusy = true
      let next: Int64? = Bool.random(using: &random) ? nil : 9
      if isTrue { plan.endedSending(lane, .drained(nextTryIn: next), now: now) }
    case 3: plan.uploads[lane]?.isBusy.toggle()
    case 4: plan.endedUpload(lane, isTrue ? .drained(nextTryIn: nil) : .storeFailed, now: now)
    case 5: plan.endedSending(lane, isTrue ? .drained(nextTryIn: nil) : .storeFailed, now: now)
    case 6: plan.users[user]?.isBusy.toggle()
    case 7: plan.users[user]?.isHeld.toggle()
    case 8: plan.users[user]?.isCatchingUp.toggle()
    case 9: plan.users[user]?.pollAt = time
    case 10: plan.users[user]?.phase = isTrue ? .steady : .connecting
    case 11:
      if isTrue { plan.stop(user) } else { plan.connect(user, now: now) }
    case 12:
      if isTrue { plan.remove(user) } else { plan.add(user, isSynced: true, isCached: true, now: now) }
    case 13: plan.channels.change(url) { $0.isCatchingUp.toggle() }
    case 14:
      plan.channels.change(url) {
        if isTrue { $0.isBusy.toggle() } else { $0.isOfNobody.toggle() }
        $0.checkAt = Bool.random(using: &random) ? time : nil
      }
    default:
      if isTrue {
        plan.open(OpenView(id: "v", channel: url, isAtNewest: true), now: time)
      } else {
        plan.close(view: "v", in: url)
      }
    }
  }

  @Test("B30: the lane that may send and was due first is next, as among all lanes", arguments: 1...10)
  func first(seed: UInt64) {
    var random = SeededRandom(seed: seed)
    var plan = Plan(seed: seed)
    for user in Self.users { plan.add(user, isSynced: true, isCached: true, now: 0) }
    var now: Int64 = 0
    var found = 0
    for _ in 0..<2_000 {
      for _ in 0..<Int.random(in: 1...3, using: &random) { Self.change(&plan, &random, now: now) }
      now += Int64.random(in: 0..<6, using: &random)
      let senders = Self.senders(plan, now: now)
      let lane = plan.pickLane(now: now)
      #expect((lane != nil) == (senders.values.min().map { $0 <= now } ?? false))
      #expect(plan.lanes.first?.dueAt == senders.values.min(), "the moment of the next turn")
      if let lane { #expect(senders[lane] == senders.values.min()) }
      found += lane == nil ? 0 : 1
      let uploaders = Self.uploaders(plan)
      let upload = plan.pickUpload(now: now)
      #expect((upload != nil) == (uploaders.values.min().map { $0 <= now } ?? false))
      #expect(plan.uploads.first?.dueAt == uploaders.values.min())
      if let upload { #expect(uploaders[upload] == uploaders.values.min()) }
      for user in Self.users {
        #expect(plan.lanes.hasLane(of: user) == plan.lanes.names.contains { $0.user == user })
      }
    }
    #expect((80...1_900).contains(found), "\(found) of 2 000")
  }

  @Test("B30: a turn with ten thousand lanes costs about what it costs with a hundred")
  func manyLanes() {
    func time(_ count: Int) -> Duration { (0..<3).map { _ in timeOnce(count) }.min() ?? .zero }
    func timeOnce(_ count: Int) -> Duration {
      var plan = Plan(seed: 1)
      _ = plan.next(now: 0)
      plan.ended(.probe, .done, now: 0)
      // Half of the lanes wait for their next try, the others for their users, of whom nothing is known yet.
      for number in 0..<count {
        let user = UserID("u\(number)")
        plan.outboxChanged(
          OutboxLaneName(user: user, channel: ChannelURL("c")), wait: number % 2 == 0 ? 1_000_000 : 0, now: 0)
        if number % 2 == 0 {
          plan.add(user, isSynced: true, isCached: true, now: 0)
          plan.users[user]?.phase = .steady
          plan.users[user]?.isCatchingUp = false
          plan.users[user]?.pollAt = 2_000_000
        }
      }
      _ = plan.next(now: 1)
      return ContinuousClock().measure {
        for now in 2..<1_002 as Range<Int64> {
          _ = plan.next(now: now)
          _ = plan.wakeAt(now: now)
        }
      }
    }
    let (few, many) = (time(100), time(10_000))
    #expect(many < few * 20, "\(few) for 100 lanes, \(many) for 10 000")
  }
}
