import Platform
import Synchronization

/// Counts of a server's answers, refusals and running requests, for metrics.
package final class ServerCounters: Sendable {
  private let informed = Atomic<Int>(0)
  private let succeeded = Atomic<Int>(0)
  private let redirected = Atomic<Int>(0)
  private let refused = Atomic<Int>(0)
  private let failed = Atomic<Int>(0)
  private let active = Atomic<Int>(0)
  private let idle = Watched(false)
  private let isAwaited = Atomic<Bool>(false)

  private let heads = Atomic<Int>(0)
  private let targets = Atomic<Int>(0)
  private let bodies = Atomic<Int>(0)
  private let unadmitted = Atomic<Int>(0)

  /// A limit beyond which requests are refused.
  package enum Bound: String, CaseIterable, Sendable {
    /// The request's head is too large: 431.
    case head
    /// The request target is too long: 414.
    case target
    /// The body is too large: 413.
    case body
    /// The memory that bodies share before a handler runs is used up: 503.
    case unadmittedBodies = "unadmitted_bodies"

    /// The limit to which this status belongs.
    init?(status: Int) {
      switch status {
      case 413: self = .body
      case 414: self = .target
      case 431: self = .head
      default: return nil
      }
    }
  }

  init() {}

  func refused(_ bound: Bound) {
    switch bound {
    case .head: heads.wrappingAdd(1, ordering: .relaxed)
    case .target: targets.wrappingAdd(1, ordering: .relaxed)
    case .body: bodies.wrappingAdd(1, ordering: .relaxed)
    case .unadmittedBodies: unadmitted.wrappingAdd(1, ordering: .relaxed)
    }
  }

  /// The number of requests refused because of this limit.
  package func refusals(_ bound: Bound) -> Int {
    switch bound {
    case .head: heads.load(ordering: .relaxed)
    case .target: targets.load(ordering: .relaxed)
    case .body: bodies.load(ordering: .relaxed)
    case .unadmittedBodies: unadmitted.load(ordering: .relaxed)
    }
  }

  /// The number of answers whose status begins with this digit, 1 to 5.
  package func answered(_ statusClass: Int) -> Int {
    switch statusClass {
    case 1: informed.load(ordering: .relaxed)
    case 2: succeeded.load(ordering: .relaxed)
    case 3: redirected.load(ordering: .relaxed)
    case 4: refused.load(ordering: .relaxed)
    default: failed.load(ordering: .relaxed)
    }
  }

  /// The number of requests that are not yet fully answered, including parked ones.
  package var running: Int { active.load(ordering: .relaxed) }

  func begin() { active.wrappingAdd(1, ordering: .sequentiallyConsistent) }

  func end(status: Int) {
    switch status / 100 {
    case 1: informed.wrappingAdd(1, ordering: .relaxed)
    case 2: succeeded.wrappingAdd(1, ordering: .relaxed)
    case 3: redirected.wrappingAdd(1, ordering: .relaxed)
    case 4: refused.wrappingAdd(1, ordering: .relaxed)
    case 5: failed.wrappingAdd(1, ordering: .relaxed)
    default: break
    }
    let left = active.wrappingSubtract(1, ordering: .sequentiallyConsistent).newValue
    if left == 0, isAwaited.load(ordering: .sequentiallyConsistent) { idle.update { $0 = true } }
  }

  /// Waits until no request runs. False when `deadline` (monotonic nanoseconds) came first.
  func waitUntilIdle(until deadline: UInt64) -> Bool {
    isAwaited.store(true, ordering: .sequentiallyConsistent)
    return idle.wait(until: deadline) { _ in
      active.load(ordering: .sequentiallyConsistent) == 0 ? true : nil
    } ?? false
  }
}
