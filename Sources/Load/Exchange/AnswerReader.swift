import Glibc

/// Cuts a byte stream into HTTP/1.1 answers that tell their length.
struct AnswerReader {
  private var bytes: [UInt8] = []
  private var count = 0
  /// The answer's head, once all of it came.
  private var head: Head?

  struct Head: Equatable {
    let status: Int
    /// The number of bytes of head and body.
    let end: Int
    let bodyStart: Int
    let isLast: Bool
  }

  /// The answer is none that this reader understands.
  struct Malformed: Error {}

  private static let roomBytes = 16 << 10
  private static let mostBytes = 1 << 30

  /// Receives bytes from a socket; -1 or 0 as `recv` says.
  mutating func receive(from socket: Int32) -> Int {
    if bytes.count - count < AnswerReader.roomBytes / 2 {
      bytes += [UInt8](repeating: 0, count: max(AnswerReader.roomBytes, bytes.count))
    }
    let (start, room) = (count, bytes.count - count)
    let received = bytes.withUnsafeMutableBytes { recv(socket, $0.baseAddress! + start, room, 0) }
    if received > 0 { count += received }
    return received
  }

  /// Adds bytes, for tests.
  mutating func add(_ more: some Sequence<UInt8>) {
    bytes = Array(bytes[..<count]) + more
    count = bytes.count
  }

  /// Lends the next whole answer to `body` and takes it out. Nil: it is not whole yet.
  mutating func next<Result>(_ body: (Head, UnsafeRawBufferPointer) -> Result) throws -> Result? {
    if head == nil { head = try readHead() }
    guard let head, count >= head.end else { return nil }
    let result = bytes.withUnsafeBytes {
      body(head, UnsafeRawBufferPointer(rebasing: $0[head.bodyStart..<head.end]))
    }
    let rest = count - head.end
    if rest > 0 { bytes.replaceSubrange(0..<rest, with: bytes[head.end..<count]) }
    if rest == 0, bytes.count > 4 * AnswerReader.roomBytes { bytes = [] }
    count = rest
    self.head = nil
    return result
  }

  private func readHead() throws -> Head? {
    try bytes.withUnsafeBytes { all in
      let came = UnsafeRawBufferPointer(rebasing: all[..<count])
      guard let end = came.offset(of: "\r\n\r\n") else { return nil }
      // The head without the empty line at its end.
      var lines = UnsafeRawBufferPointer(rebasing: came[..<(end + 2)])
      guard let first = lines.takeLine(), first.starts(with: "HTTP/1.1 ".utf8),
        let status = first.number(from: "HTTP/1.1 ".utf8.count)
      else { throw Malformed() }
      var length = status == 204 || status == 304 ? 0 : nil as Int?
      var isLast = false
      while let line = lines.takeLine() {
        if let start = line.valueStart(of: "content-length:") { length = line.number(from: start) }
        if let start = line.valueStart(of: "connection:") {
          isLast = UnsafeRawBufferPointer(rebasing: line[start...]).valueStart(of: "close") != nil
        }
      }
      guard let length, 0...AnswerReader.mostBytes ~= length else { throw Malformed() }
      return Head(status: status, end: end + 4 + length, bodyStart: end + 4, isLast: isLast)
    }
  }
}

extension UnsafeRawBufferPointer {
  /// The offset of the first `text` in these bytes; nil: there is none. `text` has to begin with a carriage
  /// return.
  fileprivate func offset(of text: StaticString) -> Int? {
    let length = text.utf8CodeUnitCount
    var start = 0
    while start + length <= count, let found = memchr(baseAddress! + start, 0x0D, count - start) {
      start = UnsafeRawPointer(found) - baseAddress!
      if start + length <= count, memcmp(found, text.utf8Start, length) == 0 { return start }
      start += 1
    }
    return nil
  }

  /// Removes the first line with its line end from these bytes and returns the line; nil: there is no whole
  /// line.
  fileprivate mutating func takeLine() -> UnsafeRawBufferPointer? {
    guard let end = offset(of: "\r\n") else { return nil }
    defer { self = UnsafeRawBufferPointer(rebasing: self[(end + 2)...]) }
    return UnsafeRawBufferPointer(rebasing: self[..<end])
  }

  /// The offset of the value in a header line that begins with `name`, in upper or lower case. Nil: the line
  /// begins with something else.
  fileprivate func valueStart(of name: StaticString) -> Int? {
    let length = name.utf8CodeUnitCount
    guard count >= length, strncasecmp(baseAddress!, name.utf8Start, length) == 0 else { return nil }
    return self[length...].firstIndex { $0 != UInt8(ascii: " ") } ?? count
  }

  /// The decimal number at that offset; nil: there is no digit, or the number has more than 18 digits.
  fileprivate func number(from start: Int) -> Int? {
    let digits = self[start...].prefix { UInt8(ascii: "0")...UInt8(ascii: "9") ~= $0 }
    guard !digits.isEmpty, digits.count <= 18 else { return nil }
    return digits.reduce(0) { $0 * 10 + Int($1 - UInt8(ascii: "0")) }
  }
}
