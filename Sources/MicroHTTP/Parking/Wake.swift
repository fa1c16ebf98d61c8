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
