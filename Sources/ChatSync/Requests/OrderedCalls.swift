import Platform

/// Makes calls of the worker in the order of `append`. As separate tasks they could overtake each other, and
/// a view that was closed would be open again.
final class OrderedCalls: Sendable {
  /// A call.
  typealias Call = @Sendable () async -> Void

  private struct State {
    var waiting: [Call] = []
    var isDraining = false
  }

  private let state = Guarded(State())

  /// Makes the call after all earlier ones.
  func append(_ call: @escaping Call) {
    let starts = state.withLock { state in
      state.waiting.append(call)
      defer { state.isDraining = true }
      return !state.isDraining
    }
    if starts { Task { await drain() } }
  }

  private func drain() async {
    while true {
      let calls = state.withLock { state in
        defer { state.waiting = [] }
        if state.waiting.isEmpty { state.isDraining = false }
        return state.waiting
      }
      guard !calls.isEmpty else { return }
      for call in calls { await call() }
    }
  }
}
