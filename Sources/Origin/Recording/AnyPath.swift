import MicroHTTP

/// Routes that accept every path of the Platform API, for the recorder and the replaying server.
enum AnyPath {
  /// Segments after the first one below `/v3`.
  private static let mostSegments = 4
  private static let mostBodyBytes = 16 << 20

  /// `answer` gets each request with its decoded path.
  static func routes(_ answer: @escaping @Sendable (Request, [String]) -> Outcome) -> [Route] {
    var routes: [Route] = []
    for root in Vocabulary.roots {
      for count in 0...mostSegments {
        let path = "/v3/\(root)" + (0..<count).map { "/{segment_\($0)}" }.joined()
        for method in [Method.get, .post, .put, .delete] {
          let body: Route.Body = method == .get ? .none : .collected(limit: mostBodyBytes, types: [])
          routes.append(
            Route(method, path, operation: "\(method) \(path)", body: body) { request in
              answer(request, ["v3", root] + (0..<count).map { request.parameter($0) })
            })
        }
      }
    }
    return routes
  }

  /// A request as an exchange without an answer.
  static func exchange(_ request: Request, _ path: [String]) -> Exchange {
    // HEAD asks for what GET answers, and the HTTP server leaves the body out.
    let method = request.method == .head ? Method.get : request.method
    var exchange = Exchange(method: "\(method.name)", path: path)
    for item in request.query {
      exchange.query.append(Exchange.QueryItem(name: item.name, value: item.value))
    }
    exchange.query.sort()
    exchange.request = Exchange.Content(request.body, type: request.headerText("Content-Type"))
    return exchange
  }

  /// A recorded answer as a response. A body that was not JSON becomes as many spaces.
  static func response(_ exchange: Exchange) -> Response {
    var response: Response
    switch exchange.answer {
    case .nothing: response = .empty(exchange.status)
    case .json(let value):
      response = .text(value.text, status: exchange.status, type: "application/json")
    case .bytes(let count, let type):
      let text = String(repeating: " ", count: count)
      response =
        type == "text/html"
        ? .text(text, status: exchange.status, type: "text/html") : .text(text, status: exchange.status)
    }
    for (name, value) in exchange.headers where name != "content-type" { response.add(name, value) }
    return response
  }
}
