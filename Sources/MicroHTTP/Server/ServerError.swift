/// The server could not be started.
package struct ServerError: Error, Sendable, CustomStringConvertible {
  /// Why the server did not start, and what the operator can change.
  package let detail: String
  /// The same text as `detail`.
  package var description: String { detail }
}
