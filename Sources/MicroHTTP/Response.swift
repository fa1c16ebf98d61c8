import CMicroHTTPD
import CMicroHTTPDRefusals
import Glibc
import Platform

/// An answer: status, headers and a body that is handed over without a copy.
///
/// It is libmicrohttpd's own object from the start, so that nothing is stored twice. The server adds to every
/// answer `X-Request-Id`, `Server`, `X-Content-Type-Options`, `Date` and, for allowed origins, the CORS
/// headers.
package struct Response: ~Copyable {
  /// The HTTP status.
  package let status: Int
  /// What the body is.
  let content: Content
  /// Bytes of the body, as far as they are known.
  let byteCount: Int
  /// The bytes of a whole body, in libmicrohttpd's keeping; empty for files, streams and shared bodies.
  private(set) var body = UnsafeRawBufferPointer(start: nil, count: 0)
  /// libmicrohttpd's object; nil for a shared answer, which finds its own when it is queued.
  private var handle: OpaquePointer?

  enum Content {
    case whole
    case shared(SharedResponse, String?, again: (() -> Bool)? = nil)
    case stream(EventStream.Reader)
  }

  init(status: Int, handle: OpaquePointer?, byteCount: Int, content: Content = .whole) {
    self.status = status
    self.handle = handle
    self.byteCount = byteCount
    self.content = content
  }

  deinit { if let handle { MHD_destroy_response(handle) } }

  /// Gives the object away.
  mutating func disown() -> OpaquePointer? {
    defer { handle = nil }
    return handle
  }

  /// A body of `type`; the buffer's memory becomes the library's.
  package init(status: Int, type: StaticString, body: consuming ByteBuffer) {
    let block = body.release()
    guard let handle = MHD_create_response_from_buffer(block.count, block.start, .RESPMEM_MUST_FREE) else {
      preconditionFailure("out of memory")
    }
    self.init(status: status, handle: handle, byteCount: block.count)
    self.body = UnsafeRawBufferPointer(start: block.start, count: block.count)
    add("Content-Type", type)
  }

  /// Writes the whole answer to a socket and shuts it, past the library.
  func write(to socket: Int32) {
    var bytes = ByteBuffer(capacity: 1024)
    bytes.append("HTTP/1.1 ")
    bytes.append(decimal: Int64(status))
    bytes.append(" \(String(cString: MHD_get_reason_phrase_for(UInt32(status))))\r\nConnection: close\r\n")
    withUnsafeMutablePointer(to: &bytes) { bytes in
      _ = MHD_get_response_headers(handle, appendHeader, bytes)
    }
    bytes.append("Content-Length: \(byteCount)\r\n\r\n")
    bytes.append(body)
    send(socket, bytes.base, bytes.count, Int32(MSG_NOSIGNAL))
    shutdown(socket, Int32(SHUT_RDWR))
  }

  /// An answer without a body.
  package static func empty(_ status: Int) -> Response {
    Response(status: status, handle: emptyHandle(), byteCount: 0)
  }

  static func emptyHandle() -> OpaquePointer {
    let nothing = UnsafeMutableRawPointer(mutating: ("" as StaticString).utf8Start)
    guard let handle = MHD_create_response_from_buffer(0, nothing, .RESPMEM_PERSISTENT) else {
      preconditionFailure("out of memory")
    }
    return handle
  }

  /// A JSON body.
  package static func json(_ body: consuming ByteBuffer, status: Int = 200) -> Response {
    Response(status: status, type: "application/json", body: body)
  }

  /// A body of text, for cold paths.
  package static func text(
    _ text: String, status: Int = 200, type: StaticString = "text/plain; charset=utf-8"
  ) -> Response {
    var body = ByteBuffer(capacity: text.utf8.count + 1)
    body.append(text)
    return Response(status: status, type: type, body: body)
  }

  /// libmicrohttpd's object, to be queued.
  var raw: OpaquePointer? { handle }

  // MARK: - Headers

  /// Adds a literal header.
  package func add(_ name: StaticString, _ value: StaticString) {
    add(name.cString, value.cString)
  }

  /// Adds a header of bytes.
  package func add(_ name: StaticString, _ value: UnsafeRawBufferPointer) {
    withUnsafeTemporaryAllocation(of: CChar.self, capacity: value.count + 1) { room in
      let start = room.baseAddress!
      if let bytes = value.baseAddress { memcpy(start, bytes, value.count) }
      start[value.count] = 0
      add(name.cString, start)
    }
  }

  /// Adds a header of text.
  package func add(_ name: StaticString, _ value: String) {
    value.withCString { add(name.cString, $0) }
  }

  /// Adds a header of text with a name that is text too, for cold paths. Disfavoured, so that a literal name
  /// is no String.
  @_disfavoredOverload
  package func add(_ name: String, _ value: String) {
    name.withCString { name in value.withCString { add(name, $0) } }
  }

  private func add(_ name: UnsafePointer<CChar>, _ value: UnsafePointer<CChar>) {
    guard let handle else { preconditionFailure("a shared response takes its headers when it is made") }
    if MHD_add_response_header(handle, name, value) != .YES {
      Log.line(.warning, "header_refused", ["name": .text(String(cString: name))])
    }
  }

  /// The value of a header added before.
  package func header(_ name: StaticString) -> String? {
    handle.flatMap { MHD_get_response_header($0, name.cString) }.map { String(cString: $0) }
  }
}

private let appendHeader: MHD_KeyValueIterator = { context, _, name, value in
  guard let buffer = context?.assumingMemoryBound(to: ByteBuffer.self), let name, let value else {
    return .YES
  }
  for text in [String(cString: name), ": ", String(cString: value), "\r\n"] { buffer.pointee.append(text) }
  return .YES
}
