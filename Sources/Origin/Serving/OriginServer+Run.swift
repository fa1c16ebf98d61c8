import Glibc
import JSON
import MicroHTTP
import Platform

/// One operation: what it reads and writes, and the answer it leaves.
typealias Operation = @Sendable (inout Call, inout JSONWriter) throws -> Void

extension OriginServer {
  /// Runs an operation in a transaction; its webhooks are handed on after the commit.
  func run(_ arguments: Arguments, path: String, _ operation: Operation) throws -> ByteBuffer {
    var json = JSONWriter(capacity: 4096)
    let news = try store.write { db, stamp in
      var call = Call(
        arguments: arguments, db: db, stamp: stamp, capabilities: desk.capabilities, storeUpload: keep)
      try operation(&call, &json)
      return call.news
    }
    for item in news {
      guard let webhooks else { break }
      if desk.take([.dropWebhook], path: path) != nil { continue }
      webhooks.send(item.text)
      if desk.take([.duplicateWebhook], path: path) != nil { webhooks.send(item.text) }
    }
    return json.finish()
  }

  /// Answers a request with an operation, unless a fault comes first.
  func answer(_ request: Request, _ names: [String], _ operation: @escaping Operation) -> Outcome {
    let path = request.path
    let before: Set<FaultDesk.Kind> = [
      .dark, .refuse, .delay, .status, .html, .forgetTokens, .denyChangelogs,
    ]
    guard let fault = desk.take(applicable(before, path, request), path: path) else {
      return work(request, names, path, operation)
    }
    switch fault.kind {
    case .dark: return dark(request)
    case .delay:
      return .park(
        Parking(request.makeWaiter(), milliseconds: Int(fault.milliseconds)) { [self] _ in
          work(request, names, path, operation)
        })
    case .status:
      let code = fault.status == 429 ? 500910 : 500901
      let response = Refusal(code, "A fault.", status: Int(fault.status)).response
      if fault.status == 429 {
        response.add("Retry-After", "\(fault.retryAfter)")
        response.add("X-RateLimit-RetryAfter", "\(fault.retryAfter)")
      }
      return .respond(response)
    case .html:
      return .respond(Response.text("<html><body>Bad gateway</body></html>", status: 502, type: "text/html"))
    case .forgetTokens: return .respond(Refusal(400109, "The token is expired.").response)
    default: return .respond(Refusal(400108, "Not allowed.", status: 403).response)
    }
  }

  /// Faults about changelogs only hit changelogs, those about tokens only requests that bring one.
  private func applicable(_ kinds: Set<FaultDesk.Kind>, _ path: String, _ request: Request)
    -> Set<FaultDesk.Kind>
  {
    let isChangelog = path.hasSuffix("/changelogs")
    let hasToken = request.query.contains { $0.isNamed("token") }
    return kinds.filter { kind in
      switch kind {
      case .denyChangelogs: isChangelog
      case .forgetTokens: isChangelog && hasToken
      default: true
      }
    }
  }

  private func dark(_ request: Request) -> Outcome {
    .park(
      Parking(request.makeWaiter(), milliseconds: nil) { _ in
        .respond(Refusal(500901, "The server stops.", status: 503).response)
      })
  }

  private func work(_ request: Request, _ names: [String], _ path: String, _ operation: Operation) -> Outcome
  {
    do {
      guard let token = request.headerText("Api-Token"), token == configuration.token else {
        throw Refusal(400401, "The Api-Token is not valid.")
      }
      let body = try run(try arguments(request, names), path: path, operation)
      if desk.take([.loseReply], path: path) != nil { return dark(request) }
      if desk.take([.cutPage], path: path) != nil {
        var short = body
        short.truncate(to: short.count / 2)
        return .respond(Response.json(short))
      }
      return .respond(Response.json(body))
    } catch let refusal as Refusal {
      return .respond(refusal.response)
    } catch {
      Log.line(.error, "operation_failed", ["path": .text(path), "error": .text("\(error)")])
      return .respond(Refusal(500901, "Something failed inside.", status: 500).response)
    }
  }

  private func arguments(_ request: Request, _ names: [String]) throws -> Arguments {
    var path: [String: String] = [:]
    for (index, name) in names.enumerated() { path[name] = request.parameter(index) }
    var query: [String: String] = [:]
    for item in request.query { query[item.name] = item.value }
    return Arguments(
      path: path, query: query, body: try OriginServer.body(request), parts: request.parts ?? [])
  }

  /// The JSON object of the body; an empty one where there is none.
  static func body(_ request: Request) throws -> Value {
    guard request.parts == nil, request.body.count > 0 else { return .object([:]) }
    do {
      let value = try JSONParser().parse(request.body) { Value($0) }
      guard case .object = value else { throw Refusal(400103, "The body must be an object.") }
      return value
    } catch is JSONError {
      throw Refusal(400403, "The body is not JSON.")
    }
  }
}
