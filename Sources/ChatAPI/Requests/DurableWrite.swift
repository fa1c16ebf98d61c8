import ChatCache
import ChatCollections
import ChatModel
import MicroHTTP
import Platform

/// How a request writes: the write is submitted at once, and the request is parked until the commit is
/// durable. No worker thread waits for the disk.
///
/// Every request that writes is answered: by `then` with what was written, with the write's own problem, or,
/// if the outcome is still unknown after `milliseconds`, with `503 storage_unavailable`.
///
///     try context.commit(request) { writer in try writer.clear(url) } then: { .respond(.empty(204)) }
///
/// `then` runs on a worker thread after the commit. It may park again: a send with `Prefer: wait` does. Where
/// the answer shows more than what the caller wrote, `then` checks the caller's rights again. An answer that
/// only says what was stored is not refused: a client that gets a refusal would send it again.
struct DurableWrite<Made: Sendable>: Sendable {
  /// The next step for a client whose request timed out before the commit: how to find out what was stored,
  /// or what to send again.
  let advice: String
  /// Undoes a committed write that no client was told of, because the client left or the request timed out.
  /// Called at most once, on the writer's thread or on a worker's.
  let unheard: @Sendable (Made) -> Void
  /// How long the request waits for its commit.
  let milliseconds: Int
  /// Whether the commit is one that many requests wait for.
  let company: Company

  init(
    advice: String = "Look whether it was, or send the request again.",
    milliseconds: Int = DurableWriteLimit.milliseconds, _ company: Company = .alone,
    unheard: @escaping @Sendable (Made) -> Void = { _ in }
  ) {
    self.advice = advice
    self.milliseconds = milliseconds
    self.company = company
    self.unheard = unheard
  }

  /// Answers the request after its write. `submit` starts the write; the writer calls `finish` once, from any
  /// thread, with the result. Once `submit` has returned, exactly one of `then` and `failed` runs, on a
  /// worker thread.
  func answer(
    _ request: Request,
    submit: (_ finish: @escaping @Sendable (Result<Made, any Error>) -> Void) throws -> Void,
    failed: @escaping () -> Void = {}, then: @escaping (Made) throws -> Outcome
  ) throws -> Outcome {
    let exchange = WriteExchange(unheard)
    let waiter = request.makeWaiter()
    try submit { result in if exchange.came(result) { waiter.wake() } }
    if let result = exchange.submitted() { return try told(result, failed, then) }
    let now = Clock.system.monotonicNanoseconds()
    return park(waiter, exchange, until: now + UInt64(milliseconds) * 1_000_000, failed, then)
  }

  private func park(
    _ waiter: Waiter, _ exchange: WriteExchange<Made>, until end: UInt64, _ failed: @escaping () -> Void,
    _ then: @escaping (Made) throws -> Outcome
  ) -> Outcome {
    let now = Clock.system.monotonicNanoseconds()
    let left = now < end ? Int((end - now) / 1_000_000) : 0
    return .park(
      Parking(waiter, milliseconds: left, company) { wake in
        switch wake {
        case .woken:
          // A request has one waiter, which something else may wake too.
          guard let result = exchange.take() else { return park(waiter, exchange, until: end, failed, then) }
          return try told(result, failed, then)
        case .hungUp:
          if case .success(let made)? = exchange.giveUp() { unheard(made) }
          failed()
          return .respond(.empty(204))
        case .deadline, .shutdown:
          if let result = exchange.giveUp() { return try told(result, failed, then) }
          failed()
          throw Problem.outcomeUnknown(advice)
        }
      })
  }

  private func told(
    _ result: Result<Made, any Error>, _ failed: () -> Void, _ then: (Made) throws -> Outcome
  ) throws -> Outcome {
    switch result {
    case .success(let made): return try then(made)
    case .failure(let error):
      failed()
      switch error {
      case CacheError.outcomeUnknown: throw Problem.outcomeUnknown(advice)
      case let error as CacheError: throw Problem(error)
      case let error as ViewError: throw Problem(error)
      default: throw error
      }
    }
  }
}

/// How long a request waits for its commit.
enum DurableWriteLimit {
  /// In milliseconds. Longer than two busy timeouts of SQLite (5 s each): while another process holds the
  /// write lock, the batch that was running when the write came fails first, then its own (see CommitQueue).
  static let milliseconds = 12_000
}

extension RouteContext {
  /// Writes with `body`, and answers with `then` when that is durable.
  func commit<Made: Sendable>(
    _ request: Request, _ body: @escaping @Sendable (CacheWriter) throws -> Made,
    then: @escaping (Made) throws -> Outcome
  ) throws -> Outcome {
    try DurableWrite().answer(request, submit: { cache.accept(body, finish: $0) }, then: then)
  }
}

/// Passes a write's result from the writer's thread to the request's. The request takes the result. If it
/// times out first, `unheard` is called with the result instead.
private final class WriteExchange<Made: Sendable>: Sendable {
  private enum State {
    /// `submit` has not returned.
    case submitting
    case waiting
    case came(Result<Made, any Error>)
    case over
  }

  private let state = Guarded(State.submitting)
  private let unheard: @Sendable (Made) -> Void

  init(_ unheard: @escaping @Sendable (Made) -> Void) { self.unheard = unheard }

  /// Takes the result of the write. True: the request has to be woken.
  func came(_ result: Result<Made, any Error>) -> Bool {
    let (isUnheard, wakes) = state.withLock { state in
      switch state {
      case .submitting, .waiting:
        let isWaiting = if case .waiting = state { true } else { false }
        state = .came(result)
        return (false, isWaiting)
      case .came, .over: return (true, false)
      }
    }
    if isUnheard, case .success(let made) = result { unheard(made) }
    return wakes
  }

  /// Called when `submit` has returned: the result, if it is here. If not, the request waits from now on.
  func submitted() -> Result<Made, any Error>? {
    state.withLock { state in
      if case .came(let result) = state {
        state = .over
        return result
      }
      state = .waiting
      return nil
    }
  }

  /// The result, if it is here and was not taken before.
  func take() -> Result<Made, any Error>? {
    state.withLock { state in
      guard case .came(let result) = state else { return nil }
      state = .over
      return result
    }
  }

  /// The result, if it is here. If not, a result that comes later goes to `unheard`.
  func giveUp() -> Result<Made, any Error>? {
    state.withLock { state in
      defer { state = .over }
      if case .came(let result) = state { return result }
      return nil
    }
  }
}

extension Problem {
  /// Nobody knows whether a write was stored (B60).
  static func outcomeUnknown(_ advice: String) -> Problem {
    Problem(
      503, "storage_unavailable",
      detail: "The disk has not answered in time, and it is not known whether this was stored. \(advice)",
      headers: [("Retry-After", "5")])
  }
}
