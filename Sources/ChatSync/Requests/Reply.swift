import Platform

/// A callback that is called exactly once: with the result, or at the deadline if that comes first.
package struct Reply<Value: Sendable>: Sendable {
  private let then: Guarded<(@Sendable (Value) -> Void)?>

  init(_ then: @escaping @Sendable (Value) -> Void) {
    self.then = Guarded<(@Sendable (Value) -> Void)?>(then)
  }

  /// Whether the callback was called.
  var isGiven: Bool { then.withLock { $0 == nil } }

  /// Calls the callback unless it was called already.
  func give(_ value: Value) {
    let call = then.withLock { then in
      defer { then = nil }
      return then
    }
    call?(value)
  }

  /// A reply that is given `late()` after `milliseconds`, and the task that waits for that.
  static func bounded(
    within milliseconds: Int, late: @escaping @Sendable () -> Value,
    then: @escaping @Sendable (Value) -> Void
  ) -> (reply: Reply, deadline: Task<Void, Never>) {
    let reply = Reply(then)
    let deadline = Task {
      // The sleep throws only when the task is canceled, because the reply was given before.
      do { try await Task.sleep(for: .milliseconds(milliseconds)) } catch { return }
      reply.give(late())
    }
    return (reply, deadline)
  }

  /// Calls `then` with the result of `work`, or with `late()` after `milliseconds`; then `work` goes on.
  static func bounded(
    within milliseconds: Int, late: @escaping @Sendable () -> Value,
    then: @escaping @Sendable (Value) -> Void, work: @escaping @Sendable () async -> Value
  ) {
    let (reply, deadline) = Reply.bounded(within: milliseconds, late: late, then: then)
    Task {
      let value = await work()
      deadline.cancel()
      reply.give(value)
    }
  }
}
