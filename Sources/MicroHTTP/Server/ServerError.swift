/// The server could not be started.
package struct ServerError: Error, Sendable, CustomStringConvertible {
  /// Why, and what to change.
  package let detail: String
  /// The same.
  package var description: String { detail }
}
