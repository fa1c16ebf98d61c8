import CMicroHTTPD
import Glibc
import Platform

/// Refuses heads that libmicrohttpd lets through and that other servers may read differently (request
/// smuggling).
///
/// libmicrohttpd splits the head in its own buffer and writes zeroes over the line ends. So there must be
/// exactly two bytes between the end of one value and the next name: one byte means a bare LF, any other
/// number a folded line or a NUL inside. The distances from the version to the first name, and from the last
/// value to the end of the head, are checked in the same way.
///
/// Where the library's buffer is not known (`LibraryCheck`), no distance is measured. Then the parts that the
/// library shows, with one space after each colon and CRLF after each line, must add up to the head's size.
/// Two faults can cancel each other out in that sum, so the server closes such a connection after a request
/// with a body: nothing that follows is taken for a request.
struct RequestGuard {
  private var notes = HeaderNotes()
  private var hosts = 0
  private var lengths = 0
  private var codings = 0
  private var bytes = 0
  private var headers = 0
  private var cookieBytes = 0
  private var fault: String?
  /// The end of the previous header's value; nil if distances are not measured.
  private var previousEnd: UnsafeRawPointer?

  /// Where the parts of a request's first line begin in the library's buffer.
  struct Line {
    let method: UnsafePointer<CChar>
    let target: UnsafePointer<CChar>
    let version: UnsafePointer<CChar>
  }

  /// Checks the whole head. A fault's problem closes the connection. `measures`: whether the distances in the
  /// library's buffer can be trusted.
  static func inspect(
    _ connection: OpaquePointer, _ line: Line, targetLength: Int, limits: Limits, measures: Bool
  ) throws(Problem) -> HeaderNotes {
    if measures, line.target + targetLength + 1 != line.version {
      throw Problem.malformed("write one space after the target, and no zero byte in it")
    }
    let version = strlen(line.version)
    var pass = RequestGuard(previousEnd: measures ? UnsafeRawPointer(line.version) + version : nil)
    withUnsafeMutablePointer(to: &pass) { pass in
      _ = MHD_get_connection_values_n(connection, .HEADER_KIND, visitHeader, pass)
    }
    let size = mhd_head_size(connection)
    if let previousEnd = pass.previousEnd {
      // Four bytes follow the last value: its line end, and that of the empty line.
      if pass.hosts > 0, pass.fault == nil, previousEnd + 4 != UnsafeRawPointer(line.method) + size {
        pass.fault = "the head holds a zero byte or ends with a bare line feed"
      }
    } else if size != strlen(line.method) + 1 + targetLength + 1 + version + 2 + pass.bytes + 2 {
      pass.fault = pass.fault ?? "write one space after each colon and CRLF after each line, and nothing else"
    }
    let isHTTP11 = strcmp(line.version, "HTTP/1.1") == 0
    pass.notes.endsConnection = pass.notes.endsConnection || !isHTTP11
    let cookies = pass.cookieBytes == 0 ? 0 : MHD_get_connection_values_n(connection, .COOKIE_KIND, nil, nil)
    // Where the buffer is known, `QueryArguments` keeps the library from making arguments.
    let arguments = measures ? 0 : MHD_get_connection_values_n(connection, .GET_ARGUMENT_KIND, nil, nil)
    pass.noteFree(of: limits.connectionMemoryBytes, size, others: Int(cookies + arguments))
    return try pass.verdict(isHTTP11: isHTTP11, limits)
  }

  private init(previousEnd: UnsafeRawPointer?) { self.previousEnd = previousEnd }

  /// The bytes that version 0.9.75 takes from the pool for each header, cookie and query argument.
  private static let bytesOfHeader = 64

  /// Notes how many bytes of the pool are left beside the head and the library's index of it.
  private mutating func noteFree(of pool: Int, _ size: Int, others: Int) {
    let index = (headers + others) * RequestGuard.bytesOfHeader
    notes.freeBytes = UInt16(clamping: pool - size - cookieBytes - index)
  }

  private func verdict(isHTTP11: Bool, _ limits: Limits) throws(Problem) -> HeaderNotes {
    if bytes > limits.headerBytes {
      throw Problem.tooMuchHead("send at most \(limits.headerBytes) bytes of headers")
    }
    if let fault { throw Problem.malformed(fault) }
    if notes.freeBytes < limits.answerHeadBytes {
      throw Problem.tooMuchHead("send a shorter request target, or fewer or shorter headers")
    }
    if hosts > 1 || (hosts == 0 && isHTTP11) { throw Problem.malformed("send exactly one Host header") }
    if lengths > 1 { throw Problem.malformed("send at most one Content-Length header") }
    if codings > 0 {
      if codings > 1 || lengths > 0 {
        throw Problem.malformed("send one Transfer-Encoding header, and no Content-Length with it")
      }
      if !isHTTP11 { throw Problem.malformed("Transfer-Encoding needs HTTP/1.1") }
      if !notes.isChunked { throw Problem.malformed("the only transfer coding allowed is chunked") }
    }
    return notes
  }

  fileprivate mutating func visit(
    _ name: UnsafePointer<CChar>, _ nameCount: Int, _ value: UnsafePointer<CChar>?, _ valueCount: Int
  ) {
    bytes += nameCount + valueCount + 4
    headers += 1
    guard let value else {
      fault = "a header has no value"
      return
    }
    if let previousEnd {
      if UnsafeRawPointer(name) - previousEnd != 2 { fault = "end header lines with CRLF; do not fold them" }
      self.previousEnd = UnsafeRawPointer(value) + valueCount
    }
    let nameBytes = UnsafeRawBufferPointer(start: name, count: nameCount)
    notes.names.insert(nameBytes)
    if !isToken(nameBytes) { fault = "a header name holds a character that names cannot have" }
    let valueBytes = UnsafeRawBufferPointer(start: value, count: valueCount)
    if holdsControl(valueBytes) { fault = "a header holds a control character" }
    switch nameCount {
    case 4 where matches(name, "host"): hosts += 1
    case 6 where matches(name, "cookie"): cookieBytes += valueCount + 16
    case 10 where matches(name, "connection"):
      // Any value other than `keep-alive` ends the connection: no further request is expected.
      notes.endsConnection = notes.endsConnection || valueCount != 10 || !matches(value, "keep-alive")
    case 14 where matches(name, "content-length"):
      lengths += 1
      notes.contentLength = readLength(valueBytes)
      if notes.contentLength == nil { fault = "Content-Length is not a number" }
    case 17 where matches(name, "transfer-encoding"):
      codings += 1
      notes.isChunked = valueCount == 7 && matches(value, "chunked")
    default: break
    }
  }

  private func matches(_ text: UnsafePointer<CChar>, _ literal: StaticString) -> Bool {
    strncasecmp(text, literal.cString, literal.utf8CodeUnitCount) == 0
  }

  private func readLength(_ digits: UnsafeRawBufferPointer) -> Int? {
    guard (1...18).contains(digits.count), digits[0] != UInt8(ascii: "-") else { return nil }
    return DecimalText.read(digits).map { Int($0) }
  }
}

private let visitHeader: MHD_KeyValueIteratorN = { context, _, name, nameCount, value, valueCount in
  guard let context, let name else { return .YES }
  context.assumingMemoryBound(to: RequestGuard.self).pointee.visit(name, nameCount, value, valueCount)
  return .YES
}
