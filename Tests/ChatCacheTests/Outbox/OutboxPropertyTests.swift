import ChatModel
import TestSupport
import Testing

@testable import ChatCache

/// Random schedules of requests, faults, crashes and clock ticks against an upstream that can lose answers.
@Suite struct OutboxPropertyTests {
  @Test(
    "B36 B39 B42 B43: nothing is lost or sent twice, order holds, the lane drains, over 1 500 seeds",
    arguments: [true, false])
  func schedules(deduplicates: Bool) {
    for seed in 1...1500 as ClosedRange<UInt64> {
      var world = OutboxWorld(seed: seed, deduplicates: deduplicates)
      for step in 0..<120 {
        let said = world.step()
        if let broken = world.brokenRule() {
          Issue.record("seed \(seed), step \(step), after \(said): \(broken)\n\(world.lane.rows)")
          return
        }
      }
      if let broken = world.drain() {
        Issue.record("seed \(seed), drained: \(broken)\n\(world.lane.rows)")
        return
      }
    }
  }
}

/// One lane, and the upstream's messages from it.
struct OutboxWorld {
  struct Call {
    let row: Int64
    let job: OutboxLane.Job
    let outcome: OutboxLane.Outcome
  }

  var random: SeededRandom
  let deduplicates: Bool
  let policy: OutboxPolicy
  var lane = OutboxLane(rows: [])
  var now: Int64 = 1000
  var isUp = true
  var isCalm = false
  /// Answers under way.
  var calls: [Call] = []
  /// Message ids by request, in order of arrival; deleted ones stay in `arrived`.
  var arrived: [RequestID: [Int64]] = [:]
  var deleted: Set<Int64> = []
  /// How each row left the lane.
  var ends: [Int64: OutboxLane.Notice] = [:]
  var accepted: [Int64: RequestID] = [:]
  var kinds: [Int64: OutboxRow.Kind] = [:]
  var nextMessage: Int64 = 500
  var complaint: String?

  init(seed: UInt64, deduplicates: Bool) {
    random = SeededRandom(seed: seed)
    self.deduplicates = deduplicates
    var policy = OutboxPolicy()
    policy.deduplicates = deduplicates
    self.policy = policy
  }

  mutating func step() -> String {
    switch Int.random(in: 0..<100, using: &random) {
    case 0..<18: return accept()
    case 18..<48: return work()
    case 48..<70: return deliver()
    case 70..<80:
      now += [100, 2000, 40_000, 2 * 86_400_000].randomElement(using: &random) ?? 1
      take(lane.expire(now: now))
      return "time passes"
    case 80..<84:
      calls = []
      lane.recover(now: now)
      return "crash"
    case 84..<88:
      isUp.toggle()
      if isUp { lane.linkRecovered(now: now) }
      return "link up: \(isUp)"
    default: return ask()
    }
  }

  private mutating func accept() -> String {
    let id = Int64(accepted.count + 1)
    guard let request = RequestID("r\(id)") else { return "no id" }
    let kind = OutboxRow.Kind.allCases.randomElement(using: &random) ?? .message
    var follows: Int64?
    if kind == .edit, let sent = lane.rows.filter({ $0.kind.isMessage }).randomElement(using: &random) {
      switch lane.reach(ofEdit: sent.id) {
      case .follows(let row): follows = row
      case .row, nil: return "an edit of an unsent message"
      }
    }
    let row = OutboxRow(
      id: id, requestID: request, kind: kind, target: kind.isMessage || follows != nil ? nil : 9,
      follows: follows, blocksOnFailure: random.chance(20), upload: kind == .file ? .needed : .none, now: now)
    accepted[id] = request
    kinds[id] = kind
    take(lane.accept(row, now: now))
    return "accept \(kind) \(id)"
  }

  private mutating func ask() -> String {
    guard let row = lane.rows.randomElement(using: &random) else { return "no row" }
    switch Int.random(in: 0..<4, using: &random) {
    case 0: take(lane.cancel(row.id, now: now).notices)
    case 1: take(lane.resend(row.id, now: now).notices)
    case 2: take(lane.remove(row.id, now: now).notices)
    default: take(lane.resendFailed(now: now))
    }
    return "a request about \(row.id)"
  }

  /// Begins the due jobs. They take effect upstream at once; the answer comes later or never.
  mutating func work() -> String {
    guard isUp || random.chance(10) else { return "offline" }
    var hasAnswer = false
    for (id, job) in lane.jobs(now: now) {
      guard let row = lane.row(id) else { continue }
      checkOrder(row, job)
      guard lane.dispatch(id, job, now: now) else {
        // The answer to a look may have held or ended the row meanwhile.
        if !hasAnswer { complaint = "a job could not begin" }
        continue
      }
      let call = Call(row: id, job: job, outcome: perform(row, job))
      if case .look = job {
        answer(call)
        hasAnswer = true
      } else {
        calls.append(call)
      }
    }
    return "work"
  }

  private mutating func perform(_ row: OutboxRow, _ job: OutboxLane.Job) -> OutboxLane.Outcome {
    let fate = isCalm ? 99 : Int.random(in: 0..<100, using: &random)
    if !isUp || fate < 10 { return .linkFault(code: "upstream_unreachable") }
    if fate < 18 { return .wait(until: now + Int64.random(in: 1...20_000, using: &random)) }
    if case .look = job {
      if let message = arrived[row.requestID]?.last { return .success(message: message) }
      return .absent
    }
    if case .deleteSent(let message) = job, deleted.contains(message) { return .absent }
    if fate < 26 { return .rejection(code: "900050") }
    if fate < 36 { return .uncertain }
    let outcome = arrive(row, job)
    return fate < 48 ? .uncertain : outcome
  }

  private mutating func arrive(_ row: OutboxRow, _ job: OutboxLane.Job) -> OutboxLane.Outcome {
    if case .deleteSent(let message) = job {
      deleted.insert(message)
      return .success(message: nil)
    }
    guard job == .send, row.kind.isMessage else { return .success(message: nil) }
    if deduplicates, let known = arrived[row.requestID]?.last {
      return random.chance(30) ? .duplicate : .success(message: known)
    }
    nextMessage += 1
    arrived[row.requestID, default: []].append(nextMessage)
    return .success(message: nextMessage)
  }

  private mutating func deliver() -> String {
    guard let index = calls.indices.randomElement(using: &random) else { return "no answer" }
    let call = calls.remove(at: index)
    answer(call)
    return "answer \(call)"
  }

  mutating func answer(_ call: Call) {
    take(
      lane.finish(
        call.row, call.job, call.outcome, now: now, random: random.next(), policy: policy))
  }

  private mutating func take(_ notices: [OutboxLane.Notice]) {
    for notice in notices {
      switch notice {
      case .succeeded(let id, _), .dropped(let id, _), .removed(let id), .merged(let id, _):
        if ends.updateValue(notice, forKey: id) != nil { complaint = "row \(id) ended twice" }
        if lane.row(id) != nil { complaint = "row \(id) ended and stays" }
      case .failed(let id, let code):
        if code == "upstream_unreachable" { complaint = "row \(id) failed because of the link" }
      default: break
      }
    }
  }
}
