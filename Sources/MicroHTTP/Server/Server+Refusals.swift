import CMicroHTTPD
import CMicroHTTPDPatches
import Glibc
import Platform

// Requests that libmicrohttpd refuses by itself, and requests that it forgets.
//
// Version 0.9.75 refuses with MHD_queue_response. What it does next depends on its state: it may send the
// head twice, wait for a client that will not send, or close without an answer. So over plain HTTP the answer
// is written to the socket here, and the socket shut, so that the library closes the connection at once in
// any state. Under TLS the library has to send it; where it cannot, the connection closes without an answer.

extension Server {
  /// The library refuses the request that it reads on `connection`. Returns the response that it queues.
  func refusal(_ connection: OpaquePointer, _ client: ClientConnection, status: Int) -> OpaquePointer? {
    if let bound = ServerCounters.Bound(status: status) { counters.refused(bound) }
    let id = client.request?._withUnsafeGuaranteedRef { $0.number } ?? RequestID.next()
    client.awaitsRequest = false
    guard configuration.tls != nil else {
      write(.refused(status), to: client, id: id)
      return Response.emptyHandle()
    }
    // A refusal in the middle of the request line, or after a cookie or a length, goes wrong in the library.
    let isInHead = client.request?._withUnsafeGuaranteedRef { $0.phase == .head } ?? false
    let goesWrong =
      !knowsLibrary || hasHeader("Content-Length", connection) || hasHeader("Cookie", connection)
    if isInHead, goesWrong { shutdown(client.socket, Int32(SHUT_RDWR)) }
    var response = configuration.renderProblem(.refused(status), RequestID.text(id))
    decorate(&response)
    response.add("X-Request-Id", RequestID.text(id))
    return knowsLibrary ? response.seal()?.handle : response.sealLineByLine()
  }

  private func hasHeader(_ name: StaticString, _ connection: OpaquePointer) -> Bool {
    MHD_lookup_connection_value(connection, .HEADER_KIND, name.cString) != nil
  }

  /// Answers past the library, which is about to close the connection.
  @discardableResult
  func refuse(_ request: Request, _ problem: Problem) -> Bool {
    let isSent = write(problem, to: request.client, id: request.number, withBody: request.method != .head)
    if isSent { request.status = UInt16(problem.status) }
    return isSent
  }

  @discardableResult
  private func write(_ problem: Problem, to client: ClientConnection, id: UInt64, withBody: Bool = true)
    -> Bool
  {
    defer { shutdown(client.socket, Int32(SHUT_RDWR)) }
    guard configuration.tls == nil else { return false }
    var response = configuration.renderProblem(problem, RequestID.text(id))
    decorate(&response)
    response.add("X-Request-Id", RequestID.text(id))
    let isSent = response.write(to: client.socket, withBody: withBody)
    drain(client)
    return isSent
  }

  /// Throws away the client's unread bytes, because closing with unread bytes resets the connection, and the
  /// client may lose the answer.
  private func drain(_ client: ClientConnection) {
    withUnsafeTemporaryAllocation(byteCount: 16_384, alignment: 1) { room in
      var left = configuration.limits.drainBytes
      while left > 0 {
        let count = recv(client.socket, room.baseAddress, room.count, Int32(MSG_DONTWAIT))
        if count <= 0 { return }
        left -= count
      }
    }
  }

  // MARK: - The end of a request

  /// The library is done with a request.
  func completed(_ request: Request, _ reason: MHD_RequestTerminationCode) {
    let isDone = reason == .REQUEST_TERMINATED_COMPLETED_OK
    // The answer's head did not fit beside the request's, and nothing was sent yet. Nothing else leads here:
    // the body is in memory and cannot fail. If the socket failed, the refusal below sends nothing.
    if reason == .REQUEST_TERMINATED_WITH_ERROR, request.phase == .answered, request.isWhole {
      let problem = Problem.tooMuchHead("the answer's headers do not fit: send fewer or shorter headers")
      if refuse(request, problem) { counters.refused(.head) }
    }
    request.client.awaitsRequest = isDone && request.status != 0 && !request.seen.endsConnection
    request.client.worker.completedRequests &+= 1
    complete(request)
  }

  /// Ends a request that the library never completed. Its connection's memory may be gone already.
  func abandon(_ request: Unmanaged<Request>) {
    request._withUnsafeGuaranteedRef {
      $0.connection = nil
      complete($0)
    }
    request.release()
  }

  /// The library closes the connection; its socket is still open, the connection's memory is not.
  func closing(_ client: ClientConnection) {
    if let forgotten = client.request { abandon(forgotten) }
    if client.awaitsRequest, isRefusedInSilence(client) {
      write(.refused(400), to: client, id: RequestID.next())
    } else if client.isRefused {
      drain(client)
    }
  }

  /// Whether the library closes a connection on which a request was due, and neither the client nor this
  /// server has ended it: then the request line made no sense to the library.
  private func isRefusedInSilence(_ client: ClientConnection) -> Bool {
    guard knowsLibrary, configuration.tls == nil, !isStopping else { return false }
    // The library also ends connections that were idle for too long.
    let idle = lot.now() &- client.idleSince
    guard idle + 100_000_000 < UInt64(configuration.limits.idleSeconds) * 1_000_000_000 else { return false }
    var byte: UInt8 = 0
    let count = recv(client.socket, &byte, 1, Int32(MSG_PEEK | MSG_DONTWAIT))
    return count > 0 || count < 0 && errno == EAGAIN
  }
}
