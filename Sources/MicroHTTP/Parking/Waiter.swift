import Platform
import Synchronization

/// Wakes one request, from any thread.
///
/// A handler makes it and subscribes it to changes before it looks for data. So a change between the look and
/// the parking is not lost: a wake that comes early makes the parking end at once.
package final class Waiter: @unchecked Sendable {  // because its fields are only touched under the lot's lock
  /// The waiter's state. It enters and leaves `parked` only under the lot's lock. Every other change is one
  /// atomic step.
  enum State: UInt8, AtomicRepresentable {
    case idle
    /// Woken before it parked.
    case early
    /// Suspended: the connection may be resumed exactly once.
    case parked
    // Resumed for one of these reasons, and the worker thread has not taken the reason yet.
    case woken, late, stopped, left
    case ended
  }

  private let lot: ParkingLot
  let state = Atomic<State>(.idle)
  /// The suspended connection; set while the request is parked, and open for as long.
  var connection: OpaquePointer?
  var client: Unmanaged<ClientConnection>?
  /// How many requests wait for the same as the parked one; set before it is suspended.
  var company = Company.alone

  init(lot: ParkingLot) { self.lot = lot }

  /// Makes the request go on now, or as soon as it parks. Waking twice, or after the end, does nothing.
  package func wake() {
    let before = state.compareExchange(expected: .idle, desired: .early, ordering: .acquiringAndReleasing)
    if before.original == .parked { lot.wake(self) }
  }

  /// Wakes many.
  package static func wakeAll(_ waiters: some Sequence<Waiter>) {
    for waiter in waiters { waiter.wake() }
  }

  /// Takes the reason of the last resume. Nil if it was taken before, and while the request is or was not
  /// suspended.
  func takeReason() -> Wake? {
    let reason: Wake
    switch state.load(ordering: .acquiring) {
    case .woken: reason = .woken
    case .late: reason = .deadline
    case .stopped: reason = .shutdown
    case .left: reason = .hungUp
    case .idle, .early, .parked, .ended: return nil
    }
    state.store(.idle, ordering: .releasing)
    return reason
  }

  /// Forgets an early wake. True if there was one.
  @discardableResult
  func clear() -> Bool {
    state.compareExchange(expected: .early, desired: .idle, ordering: .acquiringAndReleasing).exchanged
  }

  /// The request is over: later wakes do nothing.
  func end() { state.store(.ended, ordering: .releasing) }
}

extension Wake {
  var resumed: Waiter.State {
    switch self {
    case .woken: .woken
    case .deadline: .late
    case .shutdown: .stopped
    case .hungUp: .left
    }
  }
}
