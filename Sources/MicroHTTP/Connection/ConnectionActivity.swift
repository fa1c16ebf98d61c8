/// What happens on an open connection. The raw values are labels of the metrics.
package enum ConnectionActivity: String, Sendable, CaseIterable {
  /// It waits for a request.
  case idle
  /// A request is being read.
  case reading
  /// A request is being answered.
  case running
  /// A request waits for a change.
  case parked
  /// An event stream is open.
  case streaming
}
