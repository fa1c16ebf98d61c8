import ChatCache
import ChatModel
import Testing

@testable import ChatSync

/// Requests that wait until the upstream has said whether it knows their users (B2).
@Suite struct ConnectingTests {
  /// A worker that was not started, so that its users stay unknown.
  private static func worker(waiting: Int) async -> (worker: SyncWorker, tasks: [Task<Void, Never>]) {
    let worker = World().worker
    let users = (0..<waiting).map { UserID("u\($0)") }
    for user in users { await worker.add(user) }
    let tasks = users.map { user in Task { await worker.decided(user) } }
    while await worker.handshakes.count < waiting { await Task.yield() }
    return (worker, tasks)
  }

  @Test("B2: a turn of the worker costs about the same with 5 000 users who wait for a connect as with 50")
  func manyWait() async {
    func time(_ count: Int) async -> Duration {
      let (worker, tasks) = await Self.worker(waiting: count)
      var best = Duration.seconds(1_000)
      for _ in 0..<3 { best = min(best, await worker.timeOfPublishing(200)) }
      await worker.stop()
      for task in tasks { await task.value }
      return best
    }
    let (few, many) = (await time(50), await time(5_000))
    #expect(many < few * 10, "\(few) with 50 users, \(many) with 5 000")
  }

  @Test("B2, B5: who waits goes on when the user is known, is gone or is stopped, and nobody else does")
  func goesOn() async {
    let (worker, tasks) = await Self.worker(waiting: 4)
    await worker.change { $0.stop(UserID("u0")) }
    await tasks[0].value
    await worker.change { $0.remove(UserID("u1")) }
    await tasks[1].value
    let now = await worker.now + 1_000
    await worker.change {
      for job in $0.next(now: now) { $0.ended(job, .done, now: now) }
      for job in $0.next(now: now) where job.user == UserID("u2") { $0.ended(job, .acknowledged, now: now) }
    }
    await tasks[2].value
    #expect(await Array(worker.handshakes.keys) == [UserID("u3")])
    await worker.stop()
    await tasks[3].value
  }

  @Test("B2: all who wait go on when the link is down")
  func lostLink() async {
    let (worker, tasks) = await Self.worker(waiting: 20)
    let now = await worker.now + 1_000
    await worker.change {
      for job in $0.next(now: now) {
        $0.ended(job, .failed(.unreachable(reason: "", mayHaveArrived: false)), now: now)
      }
    }
    for task in tasks { await task.value }
    await worker.stop()
  }
}

extension SyncWorker {
  fileprivate func add(_ user: UserID) { plan.add(user, isSynced: false, isCached: false, now: now) }

  fileprivate func change(_ body: (inout Plan) -> Void) {
    body(&plan)
    publish()
  }

  fileprivate func timeOfPublishing(_ count: Int) -> Duration {
    publish()
    return ContinuousClock().measure { for _ in 0..<count { publish() } }
  }
}
