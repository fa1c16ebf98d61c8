import Platform

/// A callback that is called exactly once: with the result, or at the deadline if that comes first.
struct Reply<Value: Sendable>: Sendable {
  private let then: Guarded<(@Sendable (Value) -> Void)?>

  init(_ then: @escaping @Sendable (Value) -> Void) {
    self.then = Guarded<(@Sendable (Value) -> Void)?>(then)
  }

  /// Calls the callback unless it was called already.
  func give(_ value: Value) {
    let call = then.withLock { then in
      defer { then = nil }
      return then
    }
    call?(value)
  }

  /// Calls `then` with the result of `work`, or with `late()` after `milliseconds`; then `work` goes on.
  static func bounded(
    within milliseconds: Int, late: @escaping @Sendable () -> Value,
    then: @escaping @Sendable (Value) -> Void, work: @escaping @Sendable () async -> Value
  ) {
    let reply = Reply(then)
    let deadline = Task {
      // The sleep throws only when the task below cancels it: then the work ended before the deadline.
      do { try await Task.sleep(for: .milliseconds(milliseconds)) } catch { return }
      reply.give(late())
    }
    Task {
      let value = await work()
      deadline.cancel()
      reply.give(value)
    }
  }
}
