import ChatModel
import Testing

@testable import ChatCache

/// The states of unsent messages in the situations that the rules name.
@Suite struct OutboxLaneTests {
  private static let day: Int64 = 86_400_000

  private func row(
    _ id: Int64, _ kind: OutboxRow.Kind = .message, target: Int64? = nil, follows: Int64? = nil,
    aspect: String = "", blocks: Bool = false, upload: OutboxRow.Upload = .none, now: Int64 = 0
  ) throws -> OutboxRow {
    OutboxRow(
      id: id, requestID: try #require(RequestID("r\(id)")), kind: kind, target: target, follows: follows,
      aspect: aspect, blocksOnFailure: blocks, upload: upload, now: now)
  }

  private func lane(_ rows: OutboxRow...) -> OutboxLane {
    var lane = OutboxLane(rows: [])
    for row in rows { _ = lane.accept(row, now: 0) }
    return lane
  }

  @Test(
    "B41, B44: two thousand rows of one lane expire, fail and are sent again within the minute",
    .timeLimit(.minutes(5)))
  func manyEnd() throws {
    var lane = OutboxLane(rows: try (1...2000).map { try row($0) })
    for (rank, id) in (Int64(1)...2000).enumerated() { lane.change(id) { $0.rank = Int64(rank) } }
    let expired = lane.expire(now: 4 * Self.day)
    #expect(expired.count == 2000)
    #expect(lane.resendFailed(now: 4 * Self.day).count == 2000)
    #expect(due(lane, 4 * Self.day) == [1])
    #expect(lane.failAll(code: OutboxRow.notAMember, now: 4 * Self.day).count == 2000)
    #expect(lane.rows.allSatisfy { $0.state == .failed })
  }

  private func begin(_ lane: inout OutboxLane, _ id: Int64, _ job: OutboxLane.Job, _ now: Int64) {
    let isBegun = lane.dispatch(id, job, now: now)
    #expect(isBegun)
  }

  private func due(_ lane: OutboxLane, _ now: Int64 = 0) -> [Int64] {
    lane.jobs(now: now).map(\.row)
  }

  private func send(
    _ lane: inout OutboxLane, _ id: Int64, _ outcome: OutboxLane.Outcome, now: Int64 = 0
  ) -> [OutboxLane.Notice] {
    begin(&lane, id, .send, now)
    return lane.finish(id, .send, outcome, now: now, random: 7)
  }

  @Test("B42: one message at a time is under way, in order")
  func oneAtATime() throws {
    var lane = lane(try row(1), try row(2), try row(3, .edit, target: 9))
    #expect(due(lane) == [1])
    begin(&lane, 1, .send, 0)
    #expect(due(lane).isEmpty)
    let isBegunTwice = lane.dispatch(1, .send, now: 0)
    #expect(!isBegunTwice)
    #expect(lane.finish(1, .send, .success(message: 70), now: 1, random: 0) == [.succeeded(1, message: 70)])
    #expect(due(lane, 1) == [2])
  }

  @Test("B40: a rejected head fails at once and releases the rest")
  func rejection() throws {
    var lane = lane(try row(1), try row(2))
    #expect(send(&lane, 1, .rejection(code: "900050")) == [.failed(1, code: "900050")])
    #expect(lane.row(1)?.status == .failed)
    #expect(due(lane) == [2])
  }

  @Test("B42: block_on_failure holds the rest, blocked_by says by what, a resend or removal lets go")
  func holds() throws {
    var lane = lane(try row(1, blocks: true), try row(2))
    _ = send(&lane, 1, .rejection(code: "900050"))
    _ = lane.accept(try row(3), now: 0)
    #expect(lane.row(2)?.state == .held)
    #expect(lane.row(3)?.state == .held)
    #expect(lane.blocker(of: 3)?.id == 1)
    #expect(due(lane).isEmpty)
    var removed = lane
    let wish1 = removed.remove(1, now: 5)
    #expect(wish1.notices == [.removed(1)])
    #expect(due(removed, 5) == [2])
    let wish2 = lane.resend(1, now: 5)
    #expect(wish2.isResent)
    #expect(due(lane, 5) == [2])
    #expect(lane.blocker(of: 1)?.id == 2)
  }

  @Test("B42: reactions and read marks go beside a stuck message and never hold anything up")
  func beside() throws {
    var lane = lane(try row(1), try row(2, .reaction, target: 5, aspect: "+1"), try row(3, .read))
    begin(&lane, 1, .send, 0)
    #expect(due(lane) == [2])
    #expect(send(&lane, 2, .rejection(code: "400201")) == [.dropped(2, code: "400201")])
    #expect(due(lane) == [3])
  }

  @Test("B42: read marks coalesce to the latest, changes of one reaction keep their order")
  func coalesce() throws {
    var lane = lane(try row(1, .read), try row(2, .reaction, target: 5, aspect: "+1"))
    #expect(lane.accept(try row(3, .read), now: 0) == [.dropped(1, code: "overtaken"), .pendingCreated(3)])
    _ = lane.accept(try row(4, .reaction, target: 5, aspect: "+1"), now: 0)
    _ = send(&lane, 2, .wait(until: 100))
    #expect(due(lane, 50) == [3])
    _ = send(&lane, 3, .success(message: nil), now: 50)
    #expect(due(lane, 60).isEmpty)
    #expect(due(lane, 100) == [2])
  }

  @Test("B40: what could not leave stays pending with a next try, and goes at once when the link is back")
  func linkFault() throws {
    var lane = lane(try row(1))
    #expect(send(&lane, 1, .linkFault(code: "upstream_unreachable")).isEmpty)
    let next = try #require(lane.nextTryAt)
    #expect(next > 0 && next <= OutboxPolicy().bound(attempt: 1))
    #expect(due(lane, 0).isEmpty)
    #expect(due(lane, next) == [1])
    lane.linkRecovered(now: 0)
    #expect(due(lane, 0) == [1])
  }

  @Test("B40: a rate limit is waited for, and the link's recovery does not shorten it")
  func rateLimit() throws {
    var lane = lane(try row(1))
    #expect(send(&lane, 1, .wait(until: 5000)).isEmpty)
    lane.linkRecovered(now: 10)
    #expect(lane.nextTryAt == 5000)
  }

  @Test("B36 B39: where the upstream deduplicates one look is enough before an uncertain send is repeated")
  func oneLook() throws {
    var policy = OutboxPolicy()
    policy.deduplicates = true
    var lane = lane(try row(1))
    _ = send(&lane, 1, .uncertain)
    let next = try #require(lane.nextTryAt)
    let look = OutboxLane.Job.look(after: .start)
    #expect(lane.jobs(now: next).map(\.job) == [look])
    begin(&lane, 1, look, next)
    #expect(lane.finish(1, look, .absent, now: next, random: 1, policy: policy).isEmpty)
    #expect(lane.jobs(now: next).map(\.job) == [.send])
    #expect(send(&lane, 1, .success(message: 8), now: 90_000) == [.succeeded(1, message: 8)])
  }

  @Test("B39: 'exists already' leads to looks, never to the same send again, until the row's time is over")
  func existsAlready() throws {
    var lane = lane(try row(1))
    #expect(send(&lane, 1, .duplicate).isEmpty)
    let look = OutboxLane.Job.look(after: .start)
    for _ in 0..<20 {
      let now = try #require(lane.nextTryAt)
      #expect(lane.jobs(now: now).map(\.job) == [look])
      begin(&lane, 1, look, now)
      #expect(lane.finish(1, look, .absent, now: now, random: 3).isEmpty)
    }
    #expect(lane.expire(now: 3 * Self.day).isEmpty)
    var found = lane
    #expect(
      found.finish(1, look, .success(message: 3), now: 3 * Self.day, random: 0)
        == [.succeeded(1, message: 3)])
    #expect(lane.finish(1, look, .absent, now: 3 * Self.day, random: 0) == [.failed(1, code: "expired")])
  }

  @Test("B39: a look starts at the newest position known when the message was first sent off")
  func anchor() throws {
    var lane = lane(try row(1))
    let (first, later) = (Position(createdAt: 5, messageID: 50), Position(createdAt: 9, messageID: 90))
    let isBegun = lane.dispatch(1, .send, now: 1, newest: first)
    _ = lane.finish(1, .send, .linkFault(code: "upstream_unreachable"), now: 2, random: 1)
    let isBegunAgain = lane.dispatch(1, .send, now: 70_000, newest: later)
    #expect(isBegun && isBegunAgain)
    _ = lane.finish(1, .send, .uncertain, now: 70_001, random: 1)
    #expect(lane.jobs(now: 200_000).map(\.job) == [.look(after: first)])
  }

  @Test("B36: without deduplication an uncertain send is repeated only after two looks 30 s apart")
  func twoLooks() throws {
    var lane = lane(try row(1))
    _ = send(&lane, 1, .uncertain)
    var now = try #require(lane.nextTryAt)
    let look = OutboxLane.Job.look(after: .start)
    for _ in 0..<2 {
      #expect(lane.jobs(now: now).map(\.job) == [look])
      begin(&lane, 1, look, now)
      #expect(lane.finish(1, look, .absent, now: now, random: 1).isEmpty)
      #expect(lane.nextTryAt == (lane.row(1)?.state == .waiting ? now : now + 30_000))
      now = try #require(lane.nextTryAt)
    }
    #expect(lane.jobs(now: now).map(\.job) == [.send])
  }

  @Test("B39: a refusal of a repetition fails the row only after one look did not find it")
  func refusedRepetition() throws {
    var lane = lane(try row(1))
    _ = send(&lane, 1, .uncertain)
    #expect(send(&lane, 1, .rejection(code: "900041"), now: 70_000).isEmpty)
    let look = OutboxLane.Job.look(after: .start)
    #expect(lane.jobs(now: 70_000).map(\.job) == [look])
    #expect(lane.finish(1, look, .absent, now: 70_001, random: 0) == [.failed(1, code: "900041")])
  }

  @Test("B41: three days after acceptance a waiting row fails as expired; resend gives it three more")
  func expiry() throws {
    var lane = lane(try row(1), try row(2, .edit, target: 4))
    #expect(lane.expire(now: 3 * Self.day - 1).isEmpty)
    #expect(
      lane.expire(now: 3 * Self.day) == [.failed(1, code: "expired"), .dropped(2, code: "expired")])
    let wish3 = lane.resend(1, now: 4 * Self.day)
    #expect(wish3.notices == [.resendStarted(1)])
    #expect(lane.expire(now: 7 * Self.day - 1).isEmpty)
    #expect(lane.expire(now: 7 * Self.day) == [.failed(1, code: "expired")])
  }

  @Test("B41: an uncertain row out of time is looked for once, and never sent again by it")
  func expiredUncertain() throws {
    var lane = lane(try row(1))
    _ = send(&lane, 1, .uncertain)
    #expect(lane.expire(now: 3 * Self.day).isEmpty)
    let jobs = lane.jobs(now: 3 * Self.day)
    #expect(jobs.map(\.job) == [.look(after: .start)])
    var found = lane
    #expect(
      found.finish(1, .look(after: .start), .success(message: 3), now: 3 * Self.day, random: 0)
        == [.succeeded(1, message: 3)])
    #expect(
      lane.finish(1, .look(after: .start), .absent, now: 3 * Self.day, random: 0)
        == [.failed(1, code: "expired")])
  }

  @Test("B41: a clock that steps back never makes now earlier")
  func monotone() {
    var clock = MonotoneNow(highest: 50)
    #expect(clock.now(wall: 40) == 50)
    #expect(clock.now(wall: 60) == 60)
    #expect(clock.now(wall: 10) == 60)
  }

  @Test("B44: a waiting message is canceled at once; one under way, as soon as it is known what became of it")
  func cancel() throws {
    var lane = lane(try row(1), try row(2))
    let wish4 = lane.cancel(2, now: 0)
    #expect(wish4.notices == [.canceled(2)])
    begin(&lane, 1, .send, 0)
    let wish5 = lane.cancel(1, now: 0)
    #expect(wish5.notices == [.canceled(1)])
    #expect(lane.row(1)?.status == .canceled)
    #expect(lane.finish(1, .send, .success(message: 77), now: 1, random: 0).isEmpty)
    #expect(lane.jobs(now: 1).map(\.job) == [.deleteSent(77)])
    begin(&lane, 1, .deleteSent(77), 1)
    #expect(lane.finish(1, .deleteSent(77), .success(message: nil), now: 2, random: 0) == [.canceled(1)])
    let wish6 = lane.resend(1, now: 3)
    #expect(!wish6.isResent)
    let wish7 = lane.remove(1, now: 3)
    #expect(wish7.isRemoved)
  }

  @Test("B44: a canceled message that did not leave can be sent again")
  func cancelAndResend() throws {
    var lane = lane(try row(1))
    begin(&lane, 1, .send, 0)
    _ = lane.cancel(1, now: 0)
    #expect(lane.finish(1, .send, .linkFault(code: "x"), now: 1, random: 0) == [.canceled(1)])
    let wish8 = lane.resend(1, now: 2)
    #expect(wish8.isResent)
    #expect(due(lane, 2) == [1])
  }

  @Test("B44: all failed messages are sent again in their order")
  func resendAll() throws {
    var lane = lane(try row(1), try row(2), try row(3))
    for id in [1, 2] as [Int64] { _ = send(&lane, id, .rejection(code: "1")) }
    #expect(lane.resendFailed(now: 9) == [.resendStarted(1), .resendStarted(2)])
    #expect(lane.rows.map(\.id) == [3, 1, 2])
  }

  @Test("B38: a late success turns a failed message into a sent one")
  func lateSuccess() throws {
    var lane = lane(try row(1))
    begin(&lane, 1, .send, 0)
    #expect(lane.failAll(code: "900020", now: 1) == [.failed(1, code: "900020")])
    #expect(lane.finish(1, .send, .success(message: 5), now: 2, random: 0) == [.succeeded(1, message: 5)])
  }

  @Test("B46: an edit of an unsent message changes its row, or follows it if it is under way")
  func editUnsent() throws {
    var lane = lane(try row(1))
    #expect(lane.reach(ofEdit: 1) == .row)
    begin(&lane, 1, .send, 0)
    #expect(lane.reach(ofEdit: 1) == .follows(1))
    _ = lane.accept(try row(2, .edit, follows: 1), now: 0)
    var sent = lane
    _ = sent.finish(1, .send, .success(message: 33), now: 1, random: 0)
    #expect(sent.row(2)?.target == 33)
    #expect(due(sent, 1) == [2])
    #expect(lane.finish(1, .send, .wait(until: 50), now: 1, random: 0) == [.merged(from: 2, to: 1)])
    #expect(lane.rows.map(\.id) == [1])
  }

  @Test("B45: bytes go before their message and beside others; a refused upload fails it")
  func uploads() throws {
    var lane = lane(try row(1), try row(2, .file, upload: .needed))
    #expect(lane.jobs(now: 0).map(\.job) == [.send, .upload])
    begin(&lane, 2, .upload, 0)
    _ = send(&lane, 1, .success(message: 1))
    #expect(due(lane).isEmpty)
    var refused = lane
    #expect(
      refused.finish(2, .upload, .rejection(code: "400111"), now: 1, random: 0)
        == [.failed(2, code: "400111")])
    #expect(lane.finish(2, .upload, .success(message: nil), now: 1, random: 0).isEmpty)
    #expect(due(lane, 1) == [2])
    #expect(send(&lane, 2, .wait(until: 9), now: 1).isEmpty)
    #expect(lane.row(2)?.upload == .done)
  }

  @Test("B39: after a start, what was under way is uncertain")
  func recovery() throws {
    var lane = lane(try row(1), try row(2))
    begin(&lane, 1, .send, 4)
    lane.recover(now: 9)
    #expect(lane.row(1)?.state == .uncertain)
    #expect(lane.row(2)?.state == .waiting)
    #expect(lane.jobs(now: 9).map(\.job) == [.look(after: .start)])
    lane.recover(now: 9, isRestored: true)
    #expect(lane.row(2)?.state == .uncertain)
  }

  @Test("B37: the same id and content is a replay, other content a mismatch")
  func idempotency() {
    #expect(Acceptance.decide(remembered: nil, asked: [1]) == .new)
    #expect(Acceptance.decide(remembered: [1], asked: [1]) == .replay)
    #expect(Acceptance.decide(remembered: [2], asked: [1]) == .mismatch)
  }

  @Test("B43: the wait between tries is spread under a bound that doubles to a minute")
  func backoff() {
    #expect(
      (1...9).map { OutboxPolicy().bound(attempt: $0) } == [1, 2, 4, 8, 16, 32, 60, 60, 60].map { $0 * 1000 })
    for random in [0, 1, 999, 123_456, UInt64.max] {
      #expect((1...4000).contains(OutboxPolicy().delay(attempt: 3, random: random)))
    }
  }
}
