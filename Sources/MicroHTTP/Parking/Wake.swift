/// Why a parked request goes on.
package enum Wake: Sendable {
  /// `Waiter.wake` was called.
  case woken
  /// The deadline passed.
  case deadline
  /// The server stops: answer now.
  case shutdown
  /// The client left. Nobody reads the outcome; the handler is called so that it ends its subscriptions.
  case hungUp
}
