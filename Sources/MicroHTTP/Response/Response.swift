import CMicroHTTPD
import CMicroHTTPDPatches
import Glibc
import Platform

/// An answer: status, headers and a body that is handed over without a copy.
///
/// Its body is libmicrohttpd's own object from the start, so that nothing is stored twice. The server adds to
/// every answer `X-Request-Id`, `Server`, `X-Content-Type-Options`, `Date` and, for allowed origins, the CORS
/// headers.
package struct Response: ~Copyable {
  /// The HTTP status.
  package let status: Int
  /// The kind of body.
  let content: Content
  /// The length of the body in bytes, if it is known.
  let byteCount: Int
  /// The bytes of a whole body, in libmicrohttpd's keeping; empty for files, streams and shared bodies.
  private(set) var body = UnsafeRawBufferPointer(start: nil, count: 0)
  /// libmicrohttpd's object; nil for a shared answer, whose object is found when it is queued.
  private var handle: OpaquePointer?
  /// The header lines, each after a line end.
  private var lines = ByteBuffer(capacity: 0)
  /// The range in `lines` of the line that may be left out; empty for none.
  private var spareLine = 0..<0

  enum Content {
    case whole
    case file
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

  /// Writes the whole answer to a socket without the library, and closes the sending side. False: the socket
  /// does not take it.
  func write(to socket: Int32, withBody: Bool = true) -> Bool {
    var bytes = ByteBuffer(capacity: 1024)
    bytes.append("HTTP/1.1 ")
    bytes.append(decimal: Int64(status))
    bytes.append(" \(String(cString: MHD_get_reason_phrase_for(UInt32(status))))\r\nConnection: close")
    bytes.append("\r\n\(Response.first.name): \(Response.first.value)")
    bytes.append(lines.bytes)
    bytes.append("\r\nContent-Length: \(byteCount)\r\n\r\n")
    if withBody { bytes.append(body) }
    // Most of these sockets have sent nothing before, so the answer fits into the socket's buffer. If it does
    // not, the client is not reading.
    let sent = send(socket, bytes.base, bytes.count, Int32(MSG_NOSIGNAL | MSG_DONTWAIT))
    shutdown(socket, Int32(SHUT_WR))
    return sent == bytes.count
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

  // MARK: - Headers

  /// Adds a literal header.
  package mutating func add(_ name: StaticString, _ value: StaticString) {
    add(name, UnsafeRawBufferPointer(start: value.utf8Start, count: value.utf8CodeUnitCount))
  }

  /// Adds a header of bytes. A value with a control character could end the header early, so it is not added.
  package mutating func add(_ name: StaticString, _ value: UnsafeRawBufferPointer) {
    guard !holdsControl(value) else { return refuse(name.bytes) }
    begin(name.bytes)
    lines.append(value)
  }

  /// Adds a header whose value `write` appends. A value with a control character is not added.
  package mutating func add(_ name: StaticString, _ write: (inout ByteBuffer) -> Void) {
    let before = lines.count
    begin(name.bytes)
    let start = lines.count
    write(&lines)
    guard holdsControl(UnsafeRawBufferPointer(rebasing: lines.bytes[start...])) else { return }
    lines.truncate(to: before)
    refuse(name.bytes)
  }

  /// Adds a header that is left out if the connection's memory has no room for it. At most one per answer.
  package mutating func addIfItFits(_ name: StaticString, _ write: (inout ByteBuffer) -> Void) {
    let before = lines.count
    add(name, write)
    spareLine = before..<lines.count
  }

  /// Removes the line that may be left out, if the header lines have more than `most` bytes.
  mutating func fit(lineBytes most: Int) {
    guard lines.count > most, !spareLine.isEmpty else { return }
    lines.remove(spareLine)
    spareLine = 0..<0
  }

  /// Adds a header of text.
  package mutating func add(_ name: StaticString, _ value: String) {
    var value = value
    value.withUTF8 { add(name, UnsafeRawBufferPointer($0)) }
  }

  /// Adds a header of text with a name that is text too, for cold paths. Disfavoured, so that a literal name
  /// is no String.
  @_disfavoredOverload
  package mutating func add(_ name: String, _ value: String) {
    var (name, value) = (name, value)
    name.withUTF8 { name in
      let name = UnsafeRawBufferPointer(name)
      value.withUTF8 {
        let value = UnsafeRawBufferPointer($0)
        guard isToken(name), !holdsControl(value) else { return refuse(name) }
        begin(name)
        lines.append(value)
      }
    }
  }

  private func refuse(_ name: UnsafeRawBufferPointer) {
    Log.line(.warning, "header_refused", ["name": .text(String(decoding: name, as: UTF8.self))])
  }

  /// Adds a header whose value is written later. Returns the value's offset in the lines.
  mutating func reserve(_ name: StaticString, width: Int) -> Int {
    begin(name.bytes)
    lines.append(width) { memset($0.baseAddress!, Int32(UInt8(ascii: "0")), width) }
    return lines.count - width
  }

  private mutating func begin(_ name: UnsafeRawBufferPointer) {
    guard handle != nil else { preconditionFailure("a shared response takes its headers when it is made") }
    if lines.count == 0 { lines.reserve(Response.usualLineBytes) }
    lines.append("\r\n")
    lines.append(name)
    lines.append(": ")
  }

  /// Adds `Connection: close`, so that the connection is closed after this answer.
  func endConnection() { MHD_add_response_header(handle, "Connection", "close") }

  /// libmicrohttpd's response with the headers, which the caller now owns, and the address of the lines in
  /// it.
  ///
  /// The library copies each header and scans it several times. So it gets a single header, with a value as
  /// long as all lines together. The lines are then written over that value, and the library sends them as
  /// they are.
  mutating func seal() -> (handle: OpaquePointer, lines: UnsafeMutableRawPointer)? {
    guard let handle else { return nil }
    let first = Response.first
    let length = first.value.utf8CodeUnitCount
    withUnsafeTemporaryAllocation(of: CChar.self, capacity: length + lines.count + 1) { room in
      let start = room.baseAddress!
      memset(start, Int32(UInt8(ascii: ".")), length + lines.count)
      start[length + lines.count] = 0
      MHD_add_response_header(handle, first.name.cString, start)
    }
    guard let value = MHD_get_response_header(handle, first.name.cString) else {
      preconditionFailure("out of memory")
    }
    let start = UnsafeMutableRawPointer(mutating: value)
    memcpy(start, first.value.utf8Start, length)
    memcpy(start + length, lines.base, lines.count)
    self.handle = nil
    return (handle, start + length)
  }

  /// Does the same by the library's public interface alone: each line is added as a header. The library
  /// accepts no header without a value.
  mutating func sealLineByLine() -> OpaquePointer? {
    guard let handle else { return nil }
    MHD_add_response_header(handle, Response.first.name.cString, Response.first.value.cString)
    lines.append("\r\n")
    var rest = lines.bytes.dropFirst(2)
    while let end = rest.firstIndex(of: 0x0D), let colon = rest.firstIndex(of: UInt8(ascii: ":")) {
      let name = String(decoding: rest[..<colon], as: UTF8.self)
      MHD_add_response_header(handle, name, String(decoding: rest[(colon + 2)..<end], as: UTF8.self))
      rest = rest[(end + 2)...]
    }
    self.handle = nil
    return handle
  }

  /// The header that every answer has. The other lines are written into its value.
  private static let first: (name: StaticString, value: StaticString) = ("X-Content-Type-Options", "nosniff")
  /// The most bytes that the library itself adds to a head: the status line, Date, Connection, Content-Length
  /// or Transfer-Encoding, the first header and the line ends.
  static let ownHeadBytes = 224
  /// The usual length of all lines.
  private static let usualLineBytes = 512
}
