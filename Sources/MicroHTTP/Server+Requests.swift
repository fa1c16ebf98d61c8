import CMicroHTTPD
import CMicroHTTPDRefusals
import Glibc
import Platform

// How a request goes through libmicrohttpd: `beginRequest` when its first line is read (the raw target is still
// there), `handleAccess` when its head is whole, again for each piece of the body, once more when the body is whole,
// and again after each resume; `noticeCompleted` when the answer is sent or the connection lost.
//
// An answer on the first call closes the connection. That is wanted where the framing cannot be trusted or a body is
// not going to be read; everything else is answered on a later call.

extension Server {
  fileprivate func begin(_ connection: OpaquePointer, _ target: UnsafePointer<CChar>)
    -> UnsafeMutableRawPointer?
  {
    guard let context = mhd_socket_context(connection) else { return nil }
    let link = Unmanaged<Link>.fromOpaque(context).takeUnretainedValue()
    counters.begin()
    let request = Request(server: self, link: link, connection: connection, target: target, at: lot.now())
    return Unmanaged.passRetained(request).toOpaque()
  }

  /// The head is whole.
  fileprivate func accept(
    _ request: Request, _ connection: OpaquePointer, method: UnsafePointer<CChar>,
    version: UnsafePointer<CChar>
  ) -> Bool {
    do throws(Problem) {
      let limits = configuration.limits
      request.seen = try RequestGuard.inspect(
        connection, method: method, version: version, limit: limits.headerBytes)
      try request.target.split()
      try route(request, method)
      request.phase = .body
      let hasBody = request.seen.isChunked || (request.seen.contentLength ?? 0) > 0
      if hasBody, let refusal = request.refusal { throw refusal }
      try checkExpectation(request)
      if request.refusal == nil { try request.prepareBody() }
      let deadline =
        hasBody ? lot.tick(at: request.startedAt, plusSeconds: limits.bodySeconds) : Link.noDeadline
      lot.setDeadline(request.link, deadline)
      return true
    } catch {
      // A 411 or 415 without a body leaves the framing whole and can wait for the second call.
      let hasBody = request.seen.isChunked || (request.seen.contentLength ?? 0) > 0
      if !error.closes, !hasBody {
        request.refusal = error
        request.phase = .body
        return true
      }
      return queue(render(error, request), request, closes: true)
    }
  }

  private func route(_ request: Request, _ method: UnsafePointer<CChar>) throws(Problem) {
    guard isToken(UnsafeRawBufferPointer(start: method, count: strlen(method))) else {
      throw Problem.malformed("the method is not a token")
    }
    let known = Method(wire: method)
    request.method = known ?? .get
    if request.target.isAsterisk {
      guard known == .options else { throw Problem.malformed("only OPTIONS asks about the whole server") }
      request.allow = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"
      return
    }
    guard let node = try router.find(&request.target) else {
      request.refusal = Problem(
        404, "route_not_found", detail: "look at /openapi.yaml for the paths there are")
      return
    }
    if let known, let endpoint = node.endpoint(known) {
      request.endpoint = endpoint
    } else if known == .options {
      request.allow = node.allow
    } else {
      request.refusal = Problem(
        405, "method_not_allowed", detail: "use one of \(node.allow)", headers: [("Allow", node.allow)])
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

  /// The request is whole.
  fileprivate func run(_ request: Request) -> Bool {
    request.phase = .running
    request.link.isReading.store(false, ordering: .relaxed)
    lot.setDeadline(request.link, Link.noDeadline)
    if let fault = request.refusal ?? request.intake?.fault { return queue(render(fault, request), request) }
    if let allow = request.allow { return queue(options(request, allow: allow), request) }
    do {
      return settle(try request.endpoint!.route.handler(request), request)
    } catch {
      return queue(render(error, request), request)
    }
  }

  /// A parked request was resumed.
  fileprivate func goOn(_ request: Request) -> Bool {
    guard let waiter = request.waiter, let reason = lot.takeReason(waiter) else { return true }
    guard let resume = request.resume else { return false }
    request.resume = nil
    request.phase = .running
    do {
      let outcome = try resume(reason)
      return reason == .hungUp ? false : settle(outcome, request)
    } catch {
      return reason == .hungUp ? false : queue(render(error, request), request)
    }
  }

  private func settle(_ outcome: consuming Outcome, _ request: Request) -> Bool {
    var outcome = outcome
    while true {
      switch consume outcome {
      case .respond(let response): return queue(response, request)
      case .park(let parking):
        request.phase = .parked
        request.resume = parking.resume
        request.waiter = parking.waiter
        guard let connection = request.connection,
          let reason = lot.park(parking.waiter, connection, request.link, milliseconds: parking.milliseconds)
        else { return true }
        request.phase = .running
        request.resume = nil
        do { outcome = try parking.resume(reason) } catch { return queue(render(error, request), request) }
      }
    }
  }

  private func options(_ request: Request, allow: String) -> Response {
    if request.seen.hasOrigin, let origin = request.header("Origin"),
      configuration.crossOrigin.allows(origin),
      request.header("Access-Control-Request-Method") != nil
    {
      return configuration.crossOrigin.preflight(allow: allow)
    }
    let response = Response.empty(204)
    response.add("Allow", allow)
    return response
  }

  /// Turns whatever a handler threw into an answer. What is not a problem is a bug: logged, and not shown.
  private func render(_ error: any Error, _ request: Request) -> Response {
    if let problem = error as? Problem { return configuration.renderProblem(problem, request.requestID) }
    let operation = request.endpoint?.route.operation ?? ""
    Log.line(
      .error, "request_failed",
      ["request_id": .text(request.requestID), "operation": .text(operation), "error": .text("\(error)")])
    return configuration.renderProblem(.unexpected, request.requestID)
  }

  // MARK: - Answers

  private func queue(_ response: consuming Response, _ request: Request, closes: Bool = false) -> Bool {
    guard let connection = request.connection else { return false }
    let isPlain = !request.seen.hasOrigin && !request.seen.hasRequestID && !closes && !isStopping
    if case .shared(let shared) = response.content {
      if isPlain, let handle = shared.stamped(id: request.number, decorate: decorate) {
        return queue(handle, response.status, response.byteCount, request, connection)
      }
      return queue(shared.makeResponse(), request, closes: closes)
    }
    decorate(response)
    request.withRequestID {
      response.add("X-Request-Id", UnsafeRawBufferPointer(start: $0, count: strlen($0)))
    }
    if request.seen.hasOrigin, let origin = request.header("Origin"), configuration.crossOrigin.allows(origin)
    {
      configuration.crossOrigin.mark(response, origin: origin)
    }
    if closes || isStopping { response.add("Connection", "close") }
    if case .stream(let reader) = response.content { reader.request = request }
    return queue(response.raw!, response.status, response.byteCount, request, connection)
  }

  private func queue(
    _ handle: OpaquePointer, _ status: Int, _ byteCount: Int, _ request: Request, _ connection: OpaquePointer
  ) -> Bool {
    request.phase = .answered
    request.status = UInt16(status)
    request.sentBytes = request.method == .head ? 0 : byteCount
    lot.setDeadline(
      request.link, lot.tick(at: request.startedAt, plusSeconds: configuration.limits.sendSeconds))
    return mhd_queue(UnsafeMutableRawPointer(connection), UInt32(status), UnsafeMutableRawPointer(handle))
      == 1
  }

  /// The headers of every answer.
  private func decorate(_ response: borrowing Response) {
    response.add("Server", configuration.serverName)
    response.add("X-Content-Type-Options", "nosniff")
  }

  /// libmicrohttpd refuses a request by itself.
  fileprivate func refusal(_ connection: OpaquePointer, status: Int) -> OpaquePointer? {
    let id = RequestID.text(RequestID.next())
    var response = configuration.renderProblem(.refused(status), id)
    decorate(response)
    response.add("X-Request-Id", id)
    // After a Content-Length it cannot read, 0.9.75 sends the head twice. So the answer is written here, past the
    // library, which then finds the socket shut.
    if MHD_lookup_connection_value(connection, .HEADER_KIND, "Content-Length") != nil,
      configuration.tls == nil
    {
      response.write(to: mhd_fd(connection))
    }
    return response.disown()
  }

  // MARK: - The end

  fileprivate func complete(_ request: Request) {
    if let waiter = request.waiter {
      let reason = lot.takeReason(waiter)
      lot.end(waiter)
      if let resume = request.resume {
        request.resume = nil
        // The client is gone, so nobody reads what comes of it, an error included.
        _ = try? resume(reason == .shutdown ? .shutdown : .hungUp)
      }
    }
    let now = lot.now()
    let limits = configuration.limits
    request.link.isReading.store(true, ordering: .relaxed)
    lot.setDeadline(request.link, lot.tick(at: now, plusSeconds: limits.idleSeconds + limits.headSeconds))
    if request.status != 0 { log?.note(request, microseconds: (now &- request.startedAt) / 1000) }
    request.connection = nil
    counters.end(status: Int(request.status))
  }
}

extension Problem {
  static let unexpected = Problem(
    500, "internal_error", detail: "this is the server's fault; give the request id to its operator")

  static func refused(_ status: Int) -> Problem {
    switch status {
    case 413: Problem(413, "content_too_large", detail: "send a smaller body")
    case 414: Problem(414, "target_too_long", detail: "send a shorter request target")
    case 431: Problem(431, "header_fields_too_large", detail: "send fewer or shorter headers")
    case 505: Problem(505, "version_not_supported", detail: "speak HTTP/1.1")
    case 500...: Problem(status, "internal_error", detail: "the server is short of memory; try again later")
    default: Problem(status, "malformed_request", detail: "the request is not well-formed HTTP/1.1")
    }
  }
}

// MARK: - Callbacks

let admitConnection: MHD_AcceptPolicyCallback = { server, _, _ in
  guard let server else { return .NO }
  return Unmanaged<Server>.fromOpaque(server).takeUnretainedValue().isStopping ? .NO : .YES
}

let noticeConnection: MHD_NotifyConnectionCallback = { server, connection, context, event in
  guard let server, let connection, let context else { return }
  let me = Unmanaged<Server>.fromOpaque(server).takeUnretainedValue()
  if event == .CONNECTION_NOTIFY_STARTED {
    let seconds = me.configuration.limits.headSeconds
    context.pointee = me.lot.open(socket: mhd_fd(connection), server: me, headSeconds: seconds).toOpaque()
  } else if let link = context.pointee {
    context.pointee = nil
    me.lot.close(Unmanaged.fromOpaque(link))
  }
}

let beginRequest:
  @convention(c) (UnsafeMutableRawPointer?, UnsafePointer<CChar>?, OpaquePointer?) -> UnsafeMutableRawPointer? =
    {
      server, target, connection in
      guard let server, let target, let connection else { return nil }
      return Unmanaged<Server>.fromOpaque(server).takeUnretainedValue().begin(connection, target)
    }

/// libmicrohttpd decodes nothing: the router does, segment by segment.
let leaveEscaped:
  @convention(c) (UnsafeMutableRawPointer?, OpaquePointer?, UnsafeMutablePointer<CChar>?) -> Int = {
    _, _, text in
    text.map { strlen($0) } ?? 0
  }

let handleAccess: MHD_AccessHandlerCallback = { _, connection, _, method, version, bytes, count, context in
  guard let connection, let method, let version, let count, let context = context?.pointee else { return .NO }
  let request = Unmanaged<Request>.fromOpaque(context).takeUnretainedValue()
  let server = request.server
  switch request.phase {
  case .head: return server.accept(request, connection, method: method, version: version) ? .YES : .NO
  case .body:
    guard count.pointee > 0, let bytes else { return server.run(request) ? .YES : .NO }
    let overrun = server.configuration.limits.overrunBytes
    let piece = UnsafeRawBufferPointer(start: bytes, count: count.pointee)
    guard request.intake?.take(piece, overrun: overrun) ?? true else { return .NO }
    count.pointee = 0
    return .YES
  case .parked: return server.goOn(request) ? .YES : .NO
  case .running, .answered: return .YES
  }
}

let noticeCompleted: MHD_RequestCompletedCallback = { server, _, context, _ in
  guard let server, let context, let pointer = context.pointee else { return }
  context.pointee = nil
  let request = Unmanaged<Request>.fromOpaque(pointer)
  Unmanaged<Server>.fromOpaque(server).takeUnretainedValue().complete(request.takeUnretainedValue())
  request.release()
}

let makeRefusal: mhd_refusal_maker = { connection, status in
  guard let connection else { return nil }
  guard let context = mhd_socket_context(OpaquePointer(connection)) else { return nil }
  let server = Unmanaged<Link>.fromOpaque(context).takeUnretainedValue().server
  return server.refusal(OpaquePointer(connection), status: Int(status)).map { UnsafeMutableRawPointer($0) }
}
