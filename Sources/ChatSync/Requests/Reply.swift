import Platform

/// A callback that is called exactly once: with the result, or at the deadline if that comes first.
package struct Reply<Value: Sendable>: Sendable {
  /// The callback stands in a struct: Swift wraps a closure that is `inout` by itself at each access, and
  /// keeps the wrapper.
  private struct Pending {
    var then: (@Sendable (Value) -> Void)?
  }

  private let pending: Guarded<Pending>

  init(_ then: @escaping @Sendable (Value) -> Void) { pending = Guarded(Pending(then: then)) }

  /// Whether the callback was called.
  var isGiven: Bool { pending.withLock { $0.then == nil } }

  /// Calls the callback unless it was called already.
  func give(_ value: Value) {
    let call = pending.withLock { pending in
      defer { pending.then = nil }
      return pending.then
    }
    call?(value)
  }

  /// A reply that is given `late()` after `milliseconds`, unless it was given before.
  static func bounded(
    within milliseconds: Int, late: @escaping @Sendable () -> Value,
    then: @escaping @Sendable (Value) -> Void
  ) -> Reply {
    let deadline = Guarded<Task<Void, Never>?>(nil)
    let reply = Reply { value in
      deadline.withLock { $0?.cancel() }
      then(value)
    }
    let wait = Task {
      // Canceled: the reply was given before.
      guard await Task.hasSlept(milliseconds: Int64(milliseconds)) else { return }
      reply.give(late())
    }
    deadline.withLock { $0 = wait }
    return reply
  }

  /// Calls `then` with the result of `work`, or with `late()` after `milliseconds`; then `work` goes on.
  static func bounded(
    within milliseconds: Int, late: @escaping @Sendable () -> Value,
    then: @escaping @Sendable (Value) -> Void, work: @escaping @Sendable () async -> Value
  ) {
    let reply = Reply.bounded(within: milliseconds, late: late, then: then)
    Task { reply.give(await work()) }
  }
}
