import Testing

@testable import Load

/// Who takes part in a load.
struct LoadPlanTests {
  @Test(
    "every user is in a channel, members differ, and readers follow channels of their own",
    arguments: [
      (1, 1, 1), (7, 3, 7), (3, 7, 2), (100, 100, 50), (1_000, 17, 400), (17, 1_000, 17), (2_000, 2_000, 999),
    ])
  func plan(users: Int, channels: Int, parked: Int) {
    let plan = LoadPlan(users: users, channels: channels, parked: parked)
    var ofChannels: [Set<Int>] = []
    for channel in 0..<channels {
      let members = (0..<plan.members).map { plan.member($0, of: channel) }
      #expect(Set(members).count == plan.members && members.allSatisfy { (0..<users).contains($0) })
      ofChannels.append(Set(members))
    }
    #expect(ofChannels.reduce(into: Set()) { $0.formUnion($1) }.count == users)
    let readers = (0..<parked).map { plan.reader($0) }
    #expect(Set(readers.map(\.user)).count == parked, "each reads once")
    for reader in readers { #expect(ofChannels[reader.channel].contains(reader.user), "\(reader)") }
  }

  @Test("loads of other sizes have other channels, because the members differ")
  func names() {
    let (small, large) = (
      LoadPlan(users: 10, channels: 10, parked: 1), LoadPlan(users: 20, channels: 10, parked: 1)
    )
    #expect(small.channelURL(3) != large.channelURL(3) && small.userID(3) == large.userID(3))
  }

  @Test("things that come evenly are due at their times, however late they are looked at")
  func pace() {
    var pace = Pace(4, from: 1_000)
    #expect(pace.next == 1_000)
    var due: [UInt64] = []
    while let moment = pace.take(now: 1_000_000_000) { due.append(moment) }
    #expect(due == [1_000, 250_001_000, 500_001_000, 750_001_000])
    #expect(pace.next == 1_000_001_000)
    #expect(Pace(0, from: 0).next == .max)
    var slow = Pace(1e-11, from: 5)
    #expect(slow.take(now: 5) == 5 && slow.next == .max, "the next one is due in three thousand years")
  }

  @Test("a message is known by its text, and those of other loads are not")
  func sent() {
    var sent = Sent(run: "load-1")
    let message = Sent.Message(due: 5, isFromServer: false, channel: 1, sender: 2)
    #expect(sent.add(message) == 0 && sent.add(message) == 1 && sent.text(of: 1) == "load-1 1")
    #expect(sent.number(of: "load-1 1") == 1)
    for text in ["load-1 2", "load-1", "load-1 x", "load-11 0", "load-2 0", ""] {
      #expect(sent.number(of: text) == nil, "\(text)")
    }
  }
}
