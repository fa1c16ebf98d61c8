import Platform

/// Why a parked request goes on.
package enum Wake: Sendable {
  /// Somebody called `wake`.
  case woken
  /// The deadline passed.
  case deadline
  /// The server stops: answer now.
  case shutdown
  /// The client left. Nobody reads the outcome; the call is there to give up what was subscribed.
  case hungUp
}

/// What may wake one request, from any thread.
///
/// Made before the request looks for what it wants and handed to whoever will have it, so that a change between the
/// look and the parking is not lost: a wake that comes early makes the parking end at once.
package final class Waiter: @unchecked Sendable {  // because its state is only touched under the lot's lock
  enum State {
    case idle
    /// Woken before it parked.
    case early
    /// Suspended: the connection may be resumed exactly once.
    case parked(connection: OpaquePointer, link: Link)
    /// Resumed; its worker thread has not come by yet.
    case resumed(Wake)
    case ended
  }

  private let lot: ParkingLot
  var state = State.idle

  init(lot: ParkingLot) { self.lot = lot }

  /// Makes the request go on now, or as soon as it parks. Waking twice, or after the end, does nothing.
  package func wake() { lot.wake(self) }

  /// Wakes many under one lock.
  package static func wakeAll(_ waiters: some Sequence<Waiter>) {
    for waiter in waiters { waiter.wake() }
  }
}

/// A handler's wish to go on later.
package struct Parking {
  let waiter: Waiter
  let milliseconds: Int?
  let resume: (Wake) throws -> Outcome

  /// Parks until `waiter` is woken or `milliseconds` have passed (nil: until the server stops). `resume` then runs
  /// on a worker thread, exactly once, also when the client has left; it may park again with the same waiter.
  package init(_ waiter: Waiter, milliseconds: Int?, resume: @escaping (Wake) throws -> Outcome) {
    self.waiter = waiter
    self.milliseconds = milliseconds
    self.resume = resume
  }
}
