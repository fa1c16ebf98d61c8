import CMicroHTTPD
import Glibc
import Platform
import Synchronization

/// One immutable answer for many requests, such as an event that 10 000 parked polls wait for.
///
/// The body is in memory once and libmicrohttpd's object is made once per worker thread, so that answering
/// costs nothing but the sending. Each answer still carries its own `X-Request-Id`: the worker writes it over
/// the last one right before it queues the answer, and the library copies the head out before that worker
/// does anything else. One more header may vary in this way, if all its values have the same length. Requests
/// that need other headers (the client's own id, an allowed origin) get an object of their own over the same
/// body.
package final class SharedResponse: @unchecked Sendable {  // because each worker touches its own slot only
  /// The HTTP status.
  package let status: Int
  private let type: StaticString?
  private let headers: [(name: StaticString, value: String)]
  private let varying: Varying?
  private let body: Body
  private let perWorker: UnsafeMutablePointer<Stamped>
  private static let mostWorkers = 64

  /// A header that is written anew for each answer, with values of one length.
  package struct Varying: Sendable {
    let name: StaticString
    let width: Int

    /// A header called `name` whose values have `width` bytes.
    package init(_ name: StaticString, width: Int) {
      self.name = name
      self.width = width
    }
  }

  /// A worker's object, and the addresses in it of the two values that vary.
  private struct Stamped {
    var handle: OpaquePointer?
    var id: UnsafeMutablePointer<CChar>?
    var value: UnsafeMutableRawPointer?
  }

  /// The bytes, which live until the last answer over them is sent.
  private final class Body: @unchecked Sendable {  // because it never changes
    let start: UnsafeMutableRawPointer
    let count: Int
    init(_ buffer: consuming ByteBuffer) { (start, count) = buffer.release() }
    deinit { free(start) }
  }

  /// Takes the buffer's memory. An answer without a body has no `type`.
  package init(
    status: Int = 200, type: StaticString? = "application/json",
    headers: [(name: StaticString, value: String)] = [], varying: Varying? = nil, body: consuming ByteBuffer
  ) {
    self.status = status
    self.type = type
    self.varying = varying
    self.headers = headers
    self.body = Body(body)
    perWorker = .allocate(capacity: SharedResponse.mostWorkers)
    perWorker.initialize(repeating: Stamped(), count: SharedResponse.mostWorkers)
  }

  deinit {
    for worker in 0..<SharedResponse.mostWorkers {
      if let handle = perWorker[worker].handle { MHD_destroy_response(handle) }
    }
    perWorker.deallocate()
  }

  /// The number of bytes of the body.
  package var byteCount: Int { body.count }

  /// The answer for one request; hand it to `.respond`.
  package var response: Response {
    Response(status: status, handle: nil, byteCount: body.count, content: .shared(self, nil))
  }

  /// The answer for one request, with `value` for the varying header. A client that repeats the request gets
  /// the same answer without a handler, as long as `holds` returns true.
  package func response(_ value: String, again holds: (() -> Bool)? = nil) -> Response {
    precondition(value.utf8.count == varying?.width, "all values of the varying header have one length")
    return Response(
      status: status, handle: nil, byteCount: body.count, content: .shared(self, value, again: holds))
  }

  /// An answer over the shared body with the shared headers.
  func makeResponse(_ value: String?) -> Response {
    var response = makeResponse()
    if let varying, let value { response.add(varying.name, value) }
    return response
  }

  private func makeResponse() -> Response {
    let handle = MHD_create_response_from_buffer_with_free_callback_cls(
      body.count, body.start, releaseSharedBody, Unmanaged.passRetained(body).toOpaque())
    guard let handle else { preconditionFailure("out of memory") }
    var response = Response(status: status, handle: handle, byteCount: body.count)
    if let type { response.add("Content-Type", type) }
    for (name, value) in headers { response.add(name, value) }
    return response
  }

  /// The running worker's object with `id` and the varying header written into it. Nil on a worker with a
  /// number beyond the slots.
  func stamped(id number: UInt64, _ value: String?, decorate: (inout Response) -> Void) -> OpaquePointer? {
    let worker = WorkerNumber.current
    guard worker < SharedResponse.mostWorkers else { return nil }
    if perWorker[worker].handle == nil { perWorker[worker] = make(value, decorate) }
    let made = perWorker[worker]
    guard let handle = made.handle, let id = made.id else { return nil }
    RequestID.write(number, to: id)
    if let varying, let target = made.value, var value {
      value.withUTF8 { _ = memcpy(target, $0.baseAddress!, varying.width) }
    }
    return handle
  }

  private func make(_ value: String?, _ decorate: (inout Response) -> Void) -> Stamped {
    var response = makeResponse()
    decorate(&response)
    let id = response.reserve("X-Request-Id", width: RequestID.length)
    let offset = varying.map { response.reserve($0.name, width: $0.width) }
    guard let (handle, lines) = response.seal() else { return Stamped() }
    return Stamped(
      handle: handle, id: lines.assumingMemoryBound(to: CChar.self) + id, value: offset.map { lines + $0 })
  }

  fileprivate static func releaseBody(_ pointer: UnsafeMutableRawPointer) {
    Unmanaged<Body>.fromOpaque(pointer).release()
  }
}

private let releaseSharedBody: MHD_ContentReaderFreeCallback = { pointer in
  if let pointer { SharedResponse.releaseBody(pointer) }
}
