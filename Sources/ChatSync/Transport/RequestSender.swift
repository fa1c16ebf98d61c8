/// The HTTP client as an adapter uses it.
package protocol RequestSender: Sendable {
  /// Sends a request and returns its answer; throws `TransportFailure` and nothing else.
  func send(_ request: HTTPRequest) async throws -> HTTPResponse

  /// Starts no more calls of that kind until `milliseconds` from now: the upstream asked for it (B35).
  func pause(_ endpoint: String, milliseconds: Int64)
}

extension HTTPClient: RequestSender {}
