import ChatCache
import ChatModel

@testable import ChatSync

/// Runs the plan and the request queue on a clock of their own: four requests in flight, each answer after
/// 100 ms.
struct PlanRun {
  /// One sync job: how many requests it has left, when it began and when it is answered next.
  private struct Running {
    /// Nil: a client's own read.
    let job: SyncJob?
    let importance: Importance
    let began: Int64
    var left: Int
    var answerAt = Int64.max
  }

  static let answer: Int64 = 100

  var plan: Plan
  var now: Int64 = 0
  /// How each job ends.
  var outcome: (SyncJob) -> Outcome = PlanRun.usual
  private var queue: RequestQueue<Int>
  private var runs: [Int: Running] = [:]
  private var last = 0

  /// `rate`: requests a second, 0 for no limit.
  init(users: Int, open: Int, pace: Pace = Pace(), rate: Double = 0) {
    queue = RequestQueue(limit: 4, bucket: TokenBucket(rate: rate, burst: max(1, rate)))
    plan = Plan(pace: pace, seed: 1)
    _ = plan.next(now: 0)
    plan.ended(.probe, .done, now: 0)
    for index in 0..<users { plan.add(UserID("u\(index)"), isSynced: true, isCached: true, now: 0) }
    for index in 0..<open {
      let url = ChannelURL("c\(index)")
      plan.know(url, isPrefetched: true, isUnverified: false, lastMessageAt: 1, now: 0)
      plan.open(OpenView(id: "v\(index)", channel: url, isAtNewest: true), now: 0)
    }
  }

  static func usual(_ job: SyncJob) -> Outcome {
    switch job {
    case .connect: .acknowledged
    case .channelChanges: .changed([], hasMore: false)
    case .prefetch: .prefetched(isComplete: true)
    case .check, .news: .checked(isPrefetched: true, isInDoubt: false)
    case .send: .drained(nextTryIn: nil)
    default: .done
    }
  }

  /// The importance of the job's requests, and their number.
  private func requests(_ job: SyncJob) -> (importance: Importance, count: Int) {
    switch job {
    case .check(let url): (plan.isOpen(url) ? .open : .background, 2)
    case .news(let url): (plan.isOpen(url) ? .open : .background, 1)
    case .list, .endSweep, .prefetch, .verify, .fill: (.background, 1)
    case .send: (.send, 1)
    default: (.open, 1)
    }
  }

  private mutating func add(_ run: Running) {
    last += 1
    runs[last] = run
    queue.add(last, run.importance)
  }

  /// A client asks for a page that is not cached.
  mutating func read() { add(Running(job: nil, importance: .foreground, began: now, left: 1)) }

  /// Runs until `end`, and calls `told` for each job that ended, with its begin and end.
  mutating func go(until end: Int64, _ told: (SyncJob, _ began: Int64, _ ended: Int64) -> Void) {
    while now < end {
      for job in plan.next(now: now) {
        let (importance, count) = requests(job)
        add(Running(job: job, importance: importance, began: now, left: count))
      }
      var soonest = start()
      for run in runs.values { soonest = min(soonest, run.answerAt) }
      now = max(min(soonest, plan.wakeAt(now: now) ?? .max, end), now + 1)
      for (number, run) in runs where run.answerAt <= now { answered(number, run, told) }
    }
  }

  /// Sends the requests that may go out now, and returns when the next one may.
  private mutating func start() -> Int64 {
    while true {
      switch queue.next(now: now) {
      case .start(let number): runs[number]?.answerAt = now + PlanRun.answer
      case .wait(let moment): return moment
      case .refuse, .idle: return .max
      }
    }
  }

  private mutating func answered(_ number: Int, _ run: Running, _ told: (SyncJob, Int64, Int64) -> Void) {
    queue.finished(run.importance)
    guard run.left <= 1 else {
      runs[number]?.left -= 1
      runs[number]?.answerAt = .max
      return queue.add(number, run.importance)
    }
    runs[number] = nil
    guard let job = run.job else { return }
    plan.ended(job, outcome(job), now: now)
    told(job, run.began, now)
  }
}
