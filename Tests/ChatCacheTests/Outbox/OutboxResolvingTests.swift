import ChatModel
import Testing

@testable import ChatCache

/// Messages whose sends are uncertain, and messages that fail again and again.
@Suite struct OutboxResolvingTests {
  private static let hour: Int64 = 3_600_000
  private static let policy: OutboxPolicy = {
    var policy = OutboxPolicy()
    policy.deduplicates = true
    return policy
  }()

  private func lane(_ count: Int64 = 1) throws -> OutboxLane {
    var lane = OutboxLane(rows: [])
    for id in 1...count {
      let request = try #require(RequestID("r\(id)"))
      _ = lane.accept(OutboxRow(id: id, requestID: request, kind: .message, now: 0), now: 0)
    }
    return lane
  }

  /// Does the first row's due job with that outcome. Returns the job.
  private func step(
    _ lane: inout OutboxLane, _ outcome: OutboxLane.Outcome, policy: OutboxPolicy = Self.policy
  ) throws -> OutboxLane.Job {
    let now = try #require(lane.nextTryAt)
    let due = try #require(lane.jobs(now: now).first)
    let isBegun = lane.dispatch(due.row, due.job, now: now, policy: policy)
    #expect(isBegun)
    _ = lane.finish(due.row, due.job, outcome, now: now, random: .max, policy: policy)
    return due.job
  }

  private let look = OutboxLane.Job.look(after: .start)

  @Test("B39: a message that failed while it was under way is looked for before it is sent again")
  func failedUnderWay() throws {
    var lane = try lane()
    _ = lane.dispatch(1, .send, now: 0)
    #expect(lane.failAll(code: OutboxRow.notAMember, now: 1) == [.failed(1, code: OutboxRow.notAMember)])
    #expect(lane.resend(1, now: 2).isResent)
    #expect(lane.jobs(now: 2).map(\.job) == [look])
    #expect(try step(&lane, .success(message: 70)) == look)
    #expect(lane.rows.isEmpty)
  }

  @Test("B39: a message that was taken back while under way, and is sent again, is looked for first")
  func canceledUnderWay() throws {
    var lane = try lane()
    _ = lane.dispatch(1, .send, now: 0)
    #expect(lane.cancel(1, now: 1).isCanceled)
    #expect(lane.failAll(code: OutboxRow.notAMember, now: 1) == [.canceled(1)])
    #expect(lane.resend(1, now: 2).isResent)
    #expect(lane.jobs(now: 2).map(\.job) == [look])
    #expect(try step(&lane, .absent) == look)
    #expect(lane.jobs(now: 10_000).map(\.job) == [.send], "a look proved that it is not there")
  }

  @Test("B39: a message whose absence is proved, and that expired, is sent again without a look")
  func expiredAndProved() throws {
    var lane = try lane()
    #expect(try step(&lane, .uncertain) == .send)
    #expect(lane.expire(now: Limits.pendingMilliseconds).isEmpty)
    #expect(try step(&lane, .absent) == look)
    #expect(lane.row(1)?.errorCode == OutboxRow.outOfTime && lane.row(1)?.state == .failed)
    #expect(lane.resend(1, now: 9).isResent)
    #expect(lane.jobs(now: 9).map(\.job) == [.send])
  }

  @Test("A taken back message that the upstream says it has, and that no look shows, does not block for ever")
  func canceledAndKnownUpstream() throws {
    var lane = try lane(2)
    #expect(try step(&lane, .duplicate) == .send)
    #expect(lane.cancel(1, now: 1).isCanceled)
    #expect(try step(&lane, .absent) == look)
    #expect(lane.row(1)?.state == .canceled && lane.head?.id == 2)
    #expect(lane.resend(1, now: 5).isResent)
    #expect(lane.row(1)?.state == .uncertain, "it may be there all the same")
  }

  @Test("B35: what always ends without an answer is repeated at once and then after longer and longer waits")
  func backoff() throws {
    var lane = try lane()
    var waits: [Int64] = []
    for _ in 0..<5 {
      let began = try #require(lane.nextTryAt)
      #expect(try step(&lane, .uncertain) == .send)
      #expect(try step(&lane, .absent) == look)
      waits.append(try #require(lane.nextTryAt) - began)
    }
    #expect(waits == waits.sorted() && waits[0] <= 1_000 && waits[4] >= 8_000, "\(waits)")
    #expect(lane.row(1)?.attempts == 5)
  }

  @Test("B43: looks that cannot be finished come less and less often, and end an hour past the row's time")
  func unfinishedLooks() throws {
    var lane = try lane(2)
    #expect(try step(&lane, .uncertain) == .send)
    for _ in 0..<8 { #expect(try step(&lane, .uncertain) == look) }
    #expect(lane.row(1)?.attempts == 9 && lane.row(1)?.absences == 0)
    let late = Limits.pendingMilliseconds + Self.hour
    _ = lane.expire(now: late)
    _ = lane.finish(1, look, .uncertain, now: late - 1, random: 1, policy: Self.policy)
    #expect(lane.row(1)?.state == .uncertain)
    let notices = lane.finish(1, look, .uncertain, now: late, random: 1, policy: Self.policy)
    #expect(notices == [.failed(1, code: OutboxRow.outOfTime)])
    #expect(lane.resend(1, now: late).isResent)
    #expect(lane.row(1)?.state == .uncertain, "nothing proved that it is not there")
  }

  @Test("B39: a look that found nothing up to a position goes on from there")
  func searched() throws {
    var lane = try lane()
    #expect(try step(&lane, .uncertain) == .send)
    let position = Position(createdAt: 50, messageID: 5)
    lane.searched(1, through: position)
    lane.searched(1, through: Position(createdAt: 20, messageID: 2))
    #expect(lane.jobs(now: 100_000).map(\.job) == [.look(after: position)])
  }

  @Test("B43: a try that was set by a clock that ran ahead is due when the clock is set back")
  func clockWentBack() throws {
    var lane = try lane()
    _ = lane.dispatch(1, .send, now: 50 * Self.hour)
    _ = lane.finish(1, .send, .linkFault(code: "x"), now: 50 * Self.hour, random: 5, policy: Self.policy)
    lane.clockWentBack(now: 10, longest: Self.policy.longestWait)
    #expect(lane.nextTryAt == 10)
    _ = lane.dispatch(1, .send, now: 10)
    _ = lane.finish(1, .send, .linkFault(code: "x"), now: 10, random: 5, policy: Self.policy)
    let next = lane.nextTryAt
    lane.clockWentBack(now: 10, longest: Self.policy.longestWait)
    #expect(lane.nextTryAt == next && next != 10)
  }
}
