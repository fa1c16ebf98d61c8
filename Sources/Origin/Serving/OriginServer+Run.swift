import Glibc
import JSON
import MicroHTTP
import Platform

extension OriginServer {
  /// Runs an operation in a transaction or a snapshot, and sends its webhooks after the commit. `age`: an
  /// operation that only reads gets the state of so many ms ago.
  func run(
    _ arguments: Arguments, path: String, base: String, age: Int64? = nil, isLate: Bool = false,
    _ operation: Operation
  ) throws -> ByteBuffer {
    var json = JSONWriter(capacity: 4096)
    let capabilities = desk.capabilities
    switch operation {
    case .read(let body):
      try store.read(asOf: age) { db, now in
        let question = Question(
          arguments: arguments, reading: db, capabilities: capabilities, base: base, milliseconds: now)
        try body(question, &json)
      }
    case .write(let body):
      let news = try store.write { db, stamp in
        var call = Call(
          arguments: arguments, db: db, capabilities: capabilities, base: base, stamp: stamp)
        try body(&call, &json)
        return call.news
      }
      fileCounts.add(arguments, path: path, isLate: isLate)
      for item in news { tell(item, path: path) }
    }
    return json.finish()
  }

  /// Sends a webhook, unless a fault says otherwise.
  private func tell(_ item: Value, path: String) {
    guard let webhooks = webhooks.withLock({ $0 }), !desk.isCutOff else { return }
    if desk.take([.dropWebhook], path: path) != nil { return }
    let (body, channel) = (item.text, item["channel"]?["channel_url"]?.string ?? "")
    if let fault = desk.take([.shuffleWebhook], path: path) {
      return webhooks.hold(body, of: channel, milliseconds: fault.milliseconds)
    }
    webhooks.send(body, of: channel)
    if desk.take([.duplicateWebhook], path: path) != nil { webhooks.send(body, of: channel) }
  }

  /// Answers a request with an operation, unless a rate limit or a fault comes first.
  func answer(_ request: Request, _ names: [String], _ operation: Operation) -> Outcome {
    let path = request.path
    if desk.isCutOff { return cut(request) }
    let rate = desk.count("\(request.method.name)", path)
    if let rate, rate.isOver {
      var response = Refusal(500910, "Too many requests.", status: 429).response
      rate.write(to: &response)
      return .respond(response)
    }
    let isChangelog = path.hasSuffix("/changelogs")
    let hasToken = request.query.contains { $0.isNamed("token") }
    let kinds = Fault.Kind.beforeWork.filter {
      $0.applies(toChangelog: isChangelog, withToken: hasToken, operation)
    }
    let work: () -> Outcome = { [self] in self.work(request, names, path, rate, operation) }
    guard let fault = desk.take(kinds, path: path, method: request.method) else { return work() }
    if fault.kind == .late { return late(request, names, fault, operation) }
    return answer(request, fault, work)
  }

  private func answer(_ request: Request, _ fault: Fault, _ work: @escaping () -> Outcome) -> Outcome {
    switch fault.kind {
    case .dark: return dark(request)
    case .refuse: return cut(request)
    case .delay:
      return .park(
        Parking(request.makeWaiter(), milliseconds: Int(fault.milliseconds)) { reason in
          reason == .hungUp ? .respond(.empty(503)) : work()
        })
    case .status:
      let code = fault.status == 429 ? 500910 : 500901
      var response = Refusal(code, "A fault.", status: Int(fault.status)).response
      if fault.status == 429 {
        response.add("Retry-After", "\(fault.retryAfter)")
        response.add("X-RateLimit-RetryAfter", "\(fault.retryAfter)")
      }
      return .respond(response)
    case .html:
      return .respond(Response.text("<html><body>Bad gateway</body></html>", status: 502, type: "text/html"))
    case .forgetTokens: return .respond(Refusal(400109, "The token is expired.").response)
    case .deny: return .respond(denial(fault))
    default: return .respond(Refusal(400108, "Not allowed.", status: 403).response)
    }
  }

  private func denial(_ fault: Fault) -> Response {
    let status = Int(fault.status)
    switch fault.form {
    case .envelope: return Refusal(Int(fault.code), "Denied.", status: status).response
    case .bare: return .empty(status)
    case .html:
      return Response.text("<html><body>Denied</body></html>", status: status, type: "text/html")
    }
  }

  /// Delays the work. The client gets its answer then, if it is still there.
  private func late(
    _ request: Request, _ names: [String], _ fault: Fault, _ operation: Operation
  ) -> Outcome {
    let arguments: Arguments
    do {
      arguments = try admitted(request, names).holdingFile()
    } catch {
      return .respond(refused(error, request.path).response)
    }
    let (path, base) = (request.path, base(request))
    let waiter = request.makeWaiter()
    let answer = Guarded<(status: Int, body: String)?>(nil)
    let isTaken = lateWork.add(afterMilliseconds: fault.milliseconds) { [self] in
      let made = result(arguments, path, base, operation)
      answer.withLock { $0 = made }
      waiter.wake()
    }
    guard isTaken else { return .respond(.empty(503)) }
    if fault.isCut { return cut(request) }
    return .park(
      Parking(waiter, milliseconds: nil) { _ in
        guard let made = answer.withLock({ $0 }) else { return .respond(.empty(503)) }
        return .respond(Response.text(made.body, status: made.status, type: "application/json"))
      })
  }

  private func result(
    _ arguments: Arguments, _ path: String, _ base: String, _ operation: Operation
  ) -> (status: Int, body: String) {
    do {
      let body = try run(arguments, path: path, base: base, isLate: true, operation)
      return (200, String(decoding: body.bytes, as: UTF8.self))
    } catch {
      let refusal = refused(error, path)
      return (refusal.status, refusal.body)
    }
  }

  private func dark(_ request: Request) -> Outcome {
    .park(
      Parking(request.makeWaiter(), milliseconds: nil) { _ in
        .respond(Refusal(500901, "The server stops.", status: 503).response)
      })
  }

  private func cut(_ request: Request) -> Outcome {
    request.cut()
    return .respond(.empty(503))
  }

  private func work(
    _ request: Request, _ names: [String], _ path: String, _ rate: RateReading?, _ operation: Operation
  ) -> Outcome {
    do {
      var arguments = try admitted(request, names)
      if desk.take([.strictWords], path: path, method: request.method) != nil { arguments.isStrict = true }
      let age = operation.isWrite ? nil : bend(&arguments, path)
      let body = try run(arguments, path: path, base: base(request), age: age, operation)
      if desk.take([.loseReply], path: path, method: request.method) != nil { return dark(request) }
      var text = operation.isWrite ? body : bent(body, path)
      if desk.take([.cutBody], path: path, method: request.method) != nil {
        text.truncate(to: text.count / 2)
      }
      var response = Response.json(text)
      rate?.write(to: &response)
      return .respond(response)
    } catch {
      var response = refused(error, path).response
      rate?.write(to: &response)
      return .respond(response)
    }
  }

  /// Changes a question as faults say. Returns the age of the state that answers it (ms), if a fault sets
  /// one.
  private func bend(_ arguments: inout Arguments, _ path: String) -> Int64? {
    if desk.take([.cutPage], path: path, method: .get) != nil { arguments.halveLimits(path) }
    if let fault = desk.take([.laggingListing], path: path, method: .get) {
      arguments.hiddenSince = configuration.clock.wallMilliseconds() - fault.milliseconds
    }
    if desk.take([.unstableTies], path: path, method: .get) != nil { arguments.tieDice = desk.dice() }
    return desk.take([.stalePage], path: path, method: .get)?.milliseconds
  }

  /// Changes an answer as faults say.
  private func bent(_ body: consuming ByteBuffer, _ path: String) -> ByteBuffer {
    let faults = [Fault.Kind.emptyPage, .noMemberView, .foreignItems, .reorderPage].compactMap {
      desk.take([$0], path: path, method: .get)
    }
    guard !faults.isEmpty else { return body }
    var value = Value(stored: String(decoding: body.bytes, as: UTF8.self))
    var bending = BentAnswer(dice: desk.dice())
    for fault in faults {
      switch fault.kind {
      case .emptyPage: value = bending.emptied(value)
      case .noMemberView: value = bending.withoutMemberView(value)
      case .foreignItems: value = bending.spoiled(value, fault.spoils)
      default: value = bending.reordered(value)
      }
    }
    var json = JSONWriter(capacity: 4096)
    value.write(to: &json)
    return json.finish()
  }

  /// The arguments of a request. Throws if its token is wrong.
  private func admitted(_ request: Request, _ names: [String]) throws -> Arguments {
    guard let token = request.headerText("Api-Token"), token == configuration.token else {
      throw Refusal(400401, "The Api-Token is not valid.")
    }
    return try arguments(request, names)
  }

  private func refused(_ error: any Error, _ path: String) -> Refusal {
    if let refusal = error as? Refusal { return refusal }
    Log.line(.error, "operation_failed", ["path": .text(path), "error": .text("\(error)")])
    return Refusal(500901, "Something failed inside.", status: 500)
  }

  /// This server's url as the client calls it.
  private func base(_ request: Request) -> String {
    request.headerText("Host").map { "http://\($0)" } ?? base
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
