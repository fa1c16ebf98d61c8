/// The handler of one method on one path.
package struct Route: Sendable {
  /// Answers a request. It runs on a worker thread and must not wait for anything slow: it parks the request
  /// instead.
  package typealias Handler = @Sendable (Request) throws -> Outcome

  /// How a route takes a request's body.
  package enum Body: Sendable {
    /// The route takes no body; a small one is read and thrown away.
    case none
    /// The body is kept in memory, up to `limit` bytes. `types` are the media types accepted (415 otherwise;
    /// empty accepts all), and a body that is `required` needs a length or chunks (411 otherwise).
    case collected(limit: Int, types: [String] = ["application/json"], required: Bool = false)
    /// A multipart form whose files are streamed to disk, up to `limit` bytes in all. A body of another type
    /// is collected, up to `orCollected` bytes, or refused with a 415 if that is nil.
    case multipart(limit: Int, orCollected: Int? = nil)
    /// A form whose files go where `admit` says, up to `limit` bytes in all. `admit` is called when the head
    /// is complete and before any of the form is read: it returns `.receive`, refuses with a problem or a
    /// response, or parks. The handler follows when the form is complete. A body of another type is
    /// collected, up to `orCollected` bytes, or thrown away as by `none` if that is nil.
    case upload(limit: Int, orCollected: Int? = nil, admit: Handler)
  }

  /// The method; a GET route answers HEAD too.
  package let method: Method
  /// The template, such as `/v1/channels/{channel_url}/messages`.
  package let path: String
  /// The operationId of the contract.
  package let operation: String
  /// How the route takes a body.
  package let body: Body
  /// The function that answers a request.
  package let handler: Handler
  /// The rule for the hosts that the route answers; nil: it answers all.
  var hostRule: HostRule?

  /// A route.
  package init(
    _ method: Method, _ path: String, operation: String, body: Body = .none, handler: @escaping Handler
  ) {
    self.method = method
    self.path = path
    self.operation = operation
    self.body = body
    self.handler = handler
  }
}

extension Route {
  /// The same route, which answers only to requests that `rule` lets through.
  package func answering(only rule: HostRule) -> Route {
    var route = self
    route.hostRule = rule
    return route
  }
}
