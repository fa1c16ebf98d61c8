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
    let found = (0..<max(0, count - 3)).first { bytes[$0..<$0 + 4].elementsEqual("\r\n\r\n".utf8) }
    guard let found else { return nil }
    let lines = String(decoding: bytes[..<found], as: UTF8.self).split(separator: "\r\n")
    guard let first = lines.first, first.hasPrefix("HTTP/1.1 "),
      let status = Int(first.dropFirst("HTTP/1.1 ".count).prefix(3))
    else { throw Malformed() }
    var length = status == 204 || status == 304 ? 0 : nil as Int?
    var isLast = false
    for line in lines.dropFirst() {
      guard let colon = line.firstIndex(of: ":") else { continue }
      let value = line[line.index(after: colon)...].drop { $0 == " " }
      switch line[..<colon].lowercased() {
      case "content-length": length = Int(value)
      case "connection": isLast = value.lowercased() == "close"
      default: break
      }
    }
    guard let length, 0...AnswerReader.mostBytes ~= length else { throw Malformed() }
    return Head(status: status, end: found + 4 + length, bodyStart: found + 4, isLast: isLast)
  }
}
