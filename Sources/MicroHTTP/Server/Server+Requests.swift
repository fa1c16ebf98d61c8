import CMicroHTTPD
import CMicroHTTPDPatches
import Glibc
import Platform

// How a request is answered: `begin` when its first line is read (the raw target is still there), `accept`
// when its head is complete, `run` when its body is, `goOn` after each resume, `complete` when the answer is
// sent or the connection lost.
//
// An answer on the library's first call, in `accept`, closes the connection. That is wanted where the framing
// cannot be trusted or a body will not be read; every other request is answered on a later call.

extension Server {
  func begin(_ connection: OpaquePointer, _ target: UnsafePointer<CChar>)
    -> UnsafeMutableRawPointer?
  {
    guard let context = mhd_socket_context(connection) else { return nil }
    let client = Unmanaged<ClientConnection>.fromOpaque(context).takeUnretainedValue()
    // A connection has one request at a time; one that the library forgot ends here.
    if let forgotten = client.request { abandon(forgotten) }
    counters.begin()
    client.activity.store(.reading, ordering: .relaxed)
    let request = Request(lot, client, connection: connection, target: target, at: lot.now())
    let kept = Unmanaged.passRetained(request)
    client.request = kept
    client.awaitsRequest = false
    client.sentBytes = 0
    if knowsLibrary { QueryArguments.hide(in: target) }
    return kept.toOpaque()
  }

  /// The head is complete: routes the request and prepares for its body.
  func accept(_ request: Request, _ connection: OpaquePointer, _ line: RequestGuard.Line) -> Bool {
    do throws(Problem) {
      if knowsLibrary, repeats(request, head: line.method) { return true }
      request.seen = try RequestGuard.inspect(
        connection, line, targetLength: request.target.length, limits: configuration.limits,
        measures: knowsLibrary)
      try request.target.split()
      try route(request, line.method)
      request.phase = .body
      if request.seen.hasBody, let problem = request.refusal?.problem { throw problem }
      try checkExpectation(request)
      if request.refusal?.problem == nil {
        if let judge = try request.formJudge() { return self.judge(request, judge) }
        try request.prepareBody(configuration.limits, uploads: configuration.uploadDirectory)
      }
      if request.seen.hasBody {
        lot.awaitClient(request.client, until: bodyEnd(of: request))
      }
      return true
    } catch {
      // A 411 or 415 without a body leaves the framing intact and can wait for the second call.
      if !error.closes, !request.seen.hasBody {
        request.refusal = .init(error)
        request.phase = .body
        return true
      }
      return queue(render(error, request), request, closes: true)
    }
  }

  /// Whether the same request was answered before and the answer still holds; then nothing more is read.
  private func repeats(_ request: Request, head: UnsafePointer<CChar>) -> Bool {
    let recent = request.client.worker.recent
    guard let before = recent.find(request, of: routes.current.toOpaque(), head: head), !isStopping,
      before.isCurrent
    else { return false }
    before.note(in: request)
    request.repeated = before
    request.phase = .body
    return true
  }

  private func route(_ request: Request, _ method: UnsafePointer<CChar>) throws(Problem) {
    let known = Method(wire: method)
    guard known != nil || isToken(UnsafeRawBufferPointer(start: method, count: strlen(method))) else {
      throw Problem.malformed("the method is not a token")
    }
    request.method = known ?? .get
    if request.target.isAsterisk {
      guard known == .options else { throw Problem.malformed("only OPTIONS asks about the whole server") }
      request.refusal = .init(allow: "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS")
      return
    }
    try routes.withTable { routes throws(Problem) in
      guard let node = try routes.router.find(&request.target) else {
        request.refusal = .init(routes.otherwise)
        return
      }
      if let problem = routes.router.refusal(of: request, at: node) {
        request.refusal = .init(problem)
        return
      }
      if let known, let endpoint = routes.router.endpoint(known, at: node) {
        request.endpoint = endpoint.takeUnretainedValue()
        return
      }
      let allow = routes.router.allow(at: node)
      if known == .options {
        request.refusal = .init(allow: allow)
      } else {
        request.refusal = .init(
          Problem(405, "method_not_allowed", detail: "use one of \(allow)", headers: [("Allow", allow)]))
      }
    }
  }

  private func checkExpectation(_ request: Request) throws(Problem) {
    guard let expectation = request.header("Expect") else { return }
    let wanted: StaticString = "100-continue"
    let text = expectation.baseAddress!.assumingMemoryBound(to: CChar.self)
    if expectation.count != wanted.utf8CodeUnitCount
      || strncasecmp(text, wanted.cString, expectation.count) != 0
    {
      throw Problem(417, "expectation_failed", detail: "only 100-continue can be expected")
    }
  }

  /// The request is complete: answers or parks it.
  func run(_ request: Request, head: UnsafePointer<CChar>) -> Bool {
    request.phase = .running
    request.client.isReading.store(false, ordering: .sequentiallyConsistent)
    request.client.activity.store(.answering, ordering: .relaxed)
    if let repeated = request.repeated { return queue(repeated.answer, request) }
    lot.setDeadline(request.client, ClientConnection.noDeadline)
    defer { admitBody(of: request) }
    if let fault = request.refusal?.problem ?? request.intake?.intake.fault {
      // A browser lets its page see the 404 or 503 of a path only if the preflight of that path passes.
      if fault.status == 404 || fault.status == 503, request.method == .options,
        let answer = preflight(request, allow: "GET, HEAD, POST, PUT, PATCH, DELETE")
      {
        return queue(answer, request)
      }
      return queue(render(fault, request), request)
    }
    if let allow = request.refusal?.allow { return queue(options(request, allow: allow), request) }
    do {
      switch try request.endpoint!.route.handler(request) {
      case .receive: preconditionFailure("a handler has its body already")
      case .respond(let response):
        if knowsLibrary {
          let recent = request.client.worker.recent
          recent.keep(response, request, of: routes.current.toOpaque(), head: head)
        }
        return queue(response, request)
      case .park(let parking):
        if knowsLibrary { fill(request.client, from: head) }
        guard let response = try response(of: .park(parking), request) else { return true }
        return queue(response, request)
      }
    } catch {
      return queue(render(error, request), request)
    }
  }

  /// A parked request that was resumed goes on, when the library asks for its answer.
  func goOn(_ request: Request) -> Bool {
    switch continuation(of: request, isSuspended: false) {
    case .answer(let response): return queue(response, request)
    case .parked: return true
    case .over: return false
    }
  }

  /// A parked request that was resumed goes on while its connection is still suspended. False: it is parked
  /// again.
  func goOnBeforehand(_ request: Request) -> Bool {
    switch continuation(of: request, isSuspended: true) {
    case .answer(let response): request.answer = .init(response)
    case .parked: return false
    case .over: break
    }
    request.phase = .goneOn
    return true
  }

  /// How a resumed request goes on: it is answered, parked again, or over.
  private enum Continuation: ~Copyable {
    case answer(Response)
    case parked
    /// Nobody waits for an answer.
    case over
  }

  private func continuation(of request: Request, isSuspended: Bool) -> Continuation {
    guard let waiter = request.waiter, let reason = waiter.takeReason() else { return .parked }
    guard let resume = request.resume else { return .over }
    request.resume = nil
    request.phase = .running
    if reason == .hungUp {
      giveUp(resume, reason)
      return .over
    }
    do {
      guard let response = try response(of: resume(reason), request, isSuspended: isSuspended) else {
        return .parked
      }
      return .answer(response)
    } catch {
      return .answer(render(error, request))
    }
  }

  /// Gives libmicrohttpd the answer that `goOnBeforehand` made. False: there is none, and the connection is
  /// to be closed.
  func answer(_ request: Request) -> Bool {
    guard let held = request.answer, let response = held.response.take() else { return false }
    request.answer = nil
    return queue(response, request)
  }

  /// Ends a parked request that no client waits for. If the handler parks again, it is told at once that the
  /// client has left, until it gives up.
  func giveUp(_ resume: Resumption, _ reason: Wake) {
    do {
      var outcome = try resume(reason)
      while case .park(let parking) = consume outcome { outcome = try parking.resume(.hungUp) }
    } catch {
      // Nobody reads the answer, so nobody reads the error either.
    }
  }

  /// Parks a request. Nil: it waits, or is over. Otherwise why it goes on at once.
  func park(_ request: Request, _ parking: Parking, isSuspended: Bool = false) -> Wake? {
    request.resume = parking.resume
    request.waiter = parking.waiter
    guard let connection = request.connection else { return nil }
    let reason = lot.park(
      parking.waiter, connection, request.client, milliseconds: parking.milliseconds, parking.company,
      isSuspended: isSuspended)
    // A request that waits keeps `resume` for `goOn`.
    if reason != nil { request.resume = nil }
    return reason
  }

  /// The answer that an outcome comes to. Nil: the request is parked.
  private func response(
    of outcome: consuming Outcome, _ request: Request, isSuspended: Bool = false
  ) throws -> Response? {
    var outcome = outcome
    while true {
      switch consume outcome {
      case .receive: preconditionFailure("a handler has its body already")
      case .respond(let response): return response
      case .park(let parking):
        request.phase = .parked
        guard let reason = park(request, parking, isSuspended: isSuspended) else { return nil }
        request.phase = .running
        outcome = try parking.resume(reason)
      }
    }
  }

  /// Makes the connection's memory present when the first request on it parks.
  private func fill(_ client: ClientConnection, from head: UnsafePointer<CChar>) {
    guard !client.isFilled else { return }
    client.isFilled = true
    ConnectionMemory.fill(from: head, bytes: configuration.limits.connectionMemoryBytes)
  }

  /// The answer to a preflight of an origin that is allowed.
  private func preflight(_ request: Request, allow: String) -> Response? {
    guard let origin = request.header("Origin"), configuration.crossOrigin.allows(origin),
      request.header("Access-Control-Request-Method") != nil
    else { return nil }
    return configuration.crossOrigin.preflight(allow: allow)
  }

  private func options(_ request: Request, allow: String) -> Response {
    if let preflight = preflight(request, allow: allow) { return preflight }
    var response = Response.empty(204)
    response.add("Allow", allow)
    return response
  }

  /// Turns the error that a handler threw into an answer. An error that is no `Problem` is logged and not
  /// shown.
  func render(_ error: any Error, _ request: Request) -> Response {
    if let problem = error as? Problem {
      if let bound = ServerCounters.Bound(status: problem.status) { counters.refused(bound) }
      return configuration.renderProblem(problem, request.requestID)
    }
    let operation = request.endpoint?.route.operation ?? ""
    Log.line(
      .error, "request_failed",
      ["request_id": .text(request.requestID), "operation": .text(operation), "error": .text("\(error)")])
    return configuration.renderProblem(.unexpected, request.requestID)
  }

  // MARK: - Answers

  func queue(_ response: consuming Response, _ request: Request, closes: Bool = false) -> Bool {
    guard let connection = request.connection else { return false }
    // Nothing is read after a body whose framing was not measured (`RequestGuard`).
    let closes = closes || isStopping || !knowsLibrary && request.seen.hasBody
    let isPlain =
      knowsLibrary && !closes && request.header("Origin") == nil && request.header("X-Request-Id") == nil
    if case .shared(let shared, let value, _) = response.content {
      if isPlain, let handle = shared.stamped(id: request.number, value, decorate: decorate) {
        request.isWhole = true
        return queue(handle, response.status, response.byteCount, request, connection)
      }
      return queue(shared.makeResponse(value), request, closes: closes)
    }
    var response = response
    decorate(&response)
    request.withRequestID {
      response.add("X-Request-Id", UnsafeRawBufferPointer(start: $0, count: strlen($0)))
    }
    if let origin = request.header("Origin"), configuration.crossOrigin.allows(origin) {
      configuration.crossOrigin.mark(&response, origin: origin)
    }
    if closes {
      response.endConnection()
      request.seen.endsConnection = true
      request.client.isRefused = true
    }
    response.fit(lineBytes: Int(request.seen.freeBytes) - Response.ownHeadBytes)
    if case .stream(let reader) = response.content {
      reader.begin(
        at: .init(connection: connection, client: request.client, lot: lot, memory: streamMemory))
      request.client.activity.store(.streaming, ordering: .relaxed)
    }
    if case .whole = response.content { request.isWhole = true }
    let (status, byteCount) = (response.status, response.byteCount)
    // Only a shared answer has no object of its own, and it was queued above.
    let handle = knowsLibrary ? response.seal()!.handle : response.sealLineByLine()!
    defer { MHD_destroy_response(handle) }
    return queue(handle, status, byteCount, request, connection)
  }

  private func queue(
    _ handle: OpaquePointer, _ status: Int, _ byteCount: Int, _ request: Request, _ connection: OpaquePointer
  ) -> Bool {
    request.phase = .answered
    request.status = UInt16(status)
    request.client.sentBytes = request.method == .head ? 0 : byteCount
    // An upload may have taken longer than an answer may take.
    let from = request.intake?.pace == nil ? request.startedAt : lot.now()
    lot.setDeadline(
      request.client, lot.tick(at: from, plusSeconds: configuration.limits.sendSeconds))
    return mhd_queue(UnsafeMutableRawPointer(connection), UInt32(status), UnsafeMutableRawPointer(handle))
      == 1
  }

  /// The headers of every answer.
  func decorate(_ response: inout Response) {
    response.add("Server", configuration.serverName)
  }

  // MARK: - The end

  func complete(_ request: Request) {
    if let waiter = request.waiter {
      let reason = waiter.takeReason()
      waiter.end()
      if let resume = request.resume {
        request.resume = nil
        giveUp(resume, reason == .shutdown ? .shutdown : .hungUp)
      }
    }
    admitBody(of: request)
    let now = lot.now()
    let limits = configuration.limits
    lot.awaitClient(
      request.client, until: lot.tick(at: now, plusSeconds: limits.idleSeconds + limits.headSeconds))
    if request.status != 0 { log?.note(request, microseconds: (now &- request.startedAt) / 1000) }
    request.connection = nil
    request.client.idleSince = now
    request.client.activity.store(.idle, ordering: .relaxed)
    request.client.request = nil
    counters.end(status: Int(request.status))
  }
}
