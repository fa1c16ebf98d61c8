import Platform

/// Does work at a later moment, in the order of the moments, on one thread. What still waits when the server
/// stops is not done.
final class LateWork: Sendable {
  private static let waitingLimit = 10_000

  private struct Item {
    let due: UInt64
    let body: @Sendable () -> Void
  }

  private struct State {
    /// In the order in which they are due.
    var waiting: [Item] = []
    var isStopping = false
  }

  private enum Step {
    case work(@Sendable () -> Void)
    /// Look again: another item may be due first now.
    case look
    case stop
  }

  private let state = Watched(State())
  private let thread = ThreadSlot()

  init() {
    let state = state
    thread.start("late-work") {
      while true {
        switch LateWork.next(state) {
        case .work(let body): body()
        case .look: continue
        case .stop: return
        }
      }
    }
  }

  deinit { stop() }

  private static func next(_ state: Watched<State>) -> Step {
    let first = state.read { $0.waiting.first?.due }
    let step: Step? = state.wait(until: first) { state in
      if state.isStopping { return .stop }
      guard let next = state.waiting.first else { return nil }
      if next.due <= Clock.system.monotonicNanoseconds() { return .work(state.waiting.removeFirst().body) }
      return next.due == first ? nil : .look
    }
    return step ?? .look
  }

  /// Delays work. False: too much waits already.
  func add(afterMilliseconds milliseconds: Int64, _ body: @escaping @Sendable () -> Void) -> Bool {
    let due = Clock.system.monotonicNanoseconds() + UInt64(milliseconds) * 1_000_000
    return state.update { state in
      guard state.waiting.count < LateWork.waitingLimit else { return false }
      let index = state.waiting.firstIndex { $0.due > due } ?? state.waiting.endIndex
      state.waiting.insert(Item(due: due, body: body), at: index)
      return true
    }
  }

  func stop() {
    state.update { $0.isStopping = true }
    thread.join()
  }
}
