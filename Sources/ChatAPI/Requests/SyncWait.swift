import MicroHTTP
import Platform

// Requests that wait for the outcome of a sync request.

extension RouteContext {
  /// How much longer than its sync request a request is held (ms). The sync worker keeps the deadline; the
  /// rest is for a worker that does not answer.
  private static let graceMilliseconds = 500

  /// Makes a sync request, and holds the client's request until the answer is there or `milliseconds` have
  /// passed. Then calls `then` with the answer, nil if there is none. The caller's right is checked again
  /// before that (B1).
  ///
  /// Another wake of the request, such as one by a subscription, does not end the wait.
  func wait<Answer: Sendable>(
    _ request: Request, of caller: Caller, scope: Scopes = .chat, within milliseconds: Int,
    _ ask: (_ then: @escaping @Sendable (Answer) -> Void) -> Void,
    then: @escaping (Answer?) throws -> Outcome
  ) -> Outcome {
    let answer = Guarded<Answer?>(nil)
    let waiter = request.makeWaiter()
    ask { given in
      answer.withLock { $0 = given }
      waiter.wake()
    }
    let now = Clock.system.monotonicNanoseconds()
    let end = now + UInt64(milliseconds + RouteContext.graceMilliseconds) * 1_000_000
    return wait(request, of: caller, scope, for: answer, until: end, then)
  }

  private func wait<Answer: Sendable>(
    _ request: Request, of caller: Caller, _ scope: Scopes, for answer: Guarded<Answer?>, until end: UInt64,
    _ then: @escaping (Answer?) throws -> Outcome
  ) -> Outcome {
    let now = Clock.system.monotonicNanoseconds()
    let left = now < end ? Int((end - now) / 1_000_000) : 0
    return hold(request, of: caller, scope: scope, milliseconds: left) { [self] wake in
      let given = answer.withLock { $0 }
      if wake == .hungUp { return .respond(.empty(204)) }
      if wake == .woken, given == nil {
        return wait(request, of: caller, scope, for: answer, until: end, then)
      }
      return try then(given)
    }
  }
}
