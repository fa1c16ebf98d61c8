import ChatCache
import ChatModel
import ChatSync
import Platform

extension Row {
  /// How long the sync worker's plan takes for one decision: the jobs to begin, the end of one, and the
  /// moment of the next wake. 10 000 users with 100 000 channels, of which half are still to be prefetched
  /// and 10 000 have an open view, against a hundredth of that. And the memory of `perch serve` with as many
  /// users and channels, each user in a hundred, and with a million channels of one user.
  static let turn = Row(
    name: "turn", work: "a turn of the plan, 10 000 users and 100 000 channels, against a hundredth"
  ) { bench in
    var (large, small): (Turns, Turns) = (Turns(), Turns())
    for _ in 0..<max(3, bench.pairs / 3) {
      large += Turns(users: 10_000, channels: 100_000)
      small += Turns(users: 100, channels: 1_000)
    }
    func memory(_ title: String, _ sql: String) throws -> Figure {
      let service = try CacheOnDisk(bytes: 0, sql: sql)
      return Figure(
        title: title, unit: "MB anonymous, most", ours: try service.memoryAfterStart(seconds: 30), peer: nil,
        peerName: "", goal: .atMost(250))
    }
    return [
      Figure(
        title: "a turn, p50", unit: "µs", ours: large.medians, peer: small.medians, peerName: "a hundredth",
        goal: nil),
      Figure(
        title: "a turn, p99", unit: "µs", ours: large.lates.median, peer: nil, peerName: "",
        goal: .atMost(1_000)),
      try memory(
        "perch serve, 1 000 000 memberships of 10 000 users",
        ManyChannels.sql(100_000, ofUsers: 10_000)),
      try memory(
        "perch serve, 1 000 000 channels of one user", ManyChannels.sql(1_000_000, crowded: 0, of: "many")),
    ]
  }

  /// The times of turns in runs of 20 000 turns each.
  private struct Turns {
    var medians: [Double] = []
    var lates: [Double] = []

    init() {}

    init(users: Int, channels: Int) {
      var plan = Row.plan(users: users, channels: channels)
      var times: [Double] = []
      var running: [SyncJob] = []
      for now in Int64(0)..<20_000 {
        let began = Clock.system.monotonicNanoseconds()
        running += plan.next(now: now)
        if let job = running.first {
          running.removeFirst()
          plan.ended(job, Row.outcome(of: job), now: now)
        }
        _ = plan.wakeAt(now: now)
        times.append(Double(Clock.system.monotonicNanoseconds() - began) / 1000)
      }
      times.sort()
      (medians, lates) = ([times.median], [times[times.count * 99 / 100]])
    }

    static func += (all: inout Turns, other: Turns) {
      all.medians += other.medians
      all.lates += other.lates
    }
  }

  private static func plan(users: Int, channels: Int) -> Plan {
    var plan = Plan(seed: 1)
    for job in plan.next(now: 0) { plan.ended(job, .done, now: 0) }
    for number in 0..<users { plan.add(UserID("u\(number)"), isSynced: true, isCached: true, now: 0) }
    for number in 0..<channels {
      let url = ChannelURL("c\(number)")
      plan.know(
        url, isPrefetched: number % 2 == 0, isUnverified: number % 100 == 0, lastMessageAt: Int64(number),
        now: 0)
      if number < users { plan.open(OpenView(id: "v\(number)", channel: url, isAtNewest: true), now: 0) }
    }
    return plan
  }

  private static func outcome(of job: SyncJob) -> Outcome {
    switch job {
    case .connect: .acknowledged
    case .channelChanges: .changed([], hasMore: false)
    case .prefetch: .prefetched(isComplete: true)
    case .check: .checked(isPrefetched: true, isInDoubt: false)
    case .verify, .settle: .progressed(isComplete: true)
    default: .done
    }
  }
}
