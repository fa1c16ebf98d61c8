/// Open connections by what happens on them.
package struct ConnectionCounts: Sendable, Equatable {
  /// They wait for a request.
  package var idle = 0
  /// A request is being read.
  package var reading = 0
  /// A request is being answered.
  package var running = 0
  /// A request waits for a change.
  package var parked = 0
  /// An event stream.
  package var streaming = 0

  /// None.
  package init() {}
}
