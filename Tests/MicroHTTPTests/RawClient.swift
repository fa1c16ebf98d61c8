import Glibc

/// A client that writes bytes and reads bytes; it knows just enough of HTTP to find an answer's end.
final class RawClient {
  let socket: Int32
  private var pending: [UInt8] = []
  /// Whether the server neither answered nor closed within the time allowed.
  private(set) var isTimedOut = false

  struct Answer {
    var status = 0
    var headers: [(name: String, value: String)] = []
    var body: [UInt8] = []

    func header(_ name: String) -> String? {
      headers.first { $0.name.lowercased() == name.lowercased() }?.value
    }
    var text: String { String(decoding: body, as: UTF8.self) }
  }

  /// Connects to the port on 127.0.0.1, from 127.0.0.`source` if one is given.
  init?(port: UInt16, source: Int? = nil) {
    socket = Glibc.socket(AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
    var wait = timeval(tv_sec: 5, tv_usec: 0)
    setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &wait, socklen_t(MemoryLayout<timeval>.size))
    if let source {
      var yes: Int32 = 1
      setsockopt(socket, 0, 24, &yes, 4)  // IP_BIND_ADDRESS_NO_PORT
      var address = RawClient.address(last: source, port: 0)
      _ = withUnsafePointer(to: &address) {
        bind(socket, UnsafeRawPointer($0).assumingMemoryBound(to: sockaddr.self), 16)
      }
    }
    var address = RawClient.address(last: 1, port: port)
    let code = withUnsafePointer(to: &address) {
      connect(socket, UnsafeRawPointer($0).assumingMemoryBound(to: sockaddr.self), 16)
    }
    guard socket >= 0, code == 0 else { return nil }
  }

  deinit { close(socket) }

  private static func address(last: Int, port: UInt16) -> sockaddr_in {
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_port = port.bigEndian
    address.sin_addr.s_addr = UInt32(0x7F00_0000 + last).bigEndian
    return address
  }

  /// False when the server has closed the connection.
  @discardableResult
  func send(_ bytes: [UInt8]) -> Bool {
    var done = 0
    while done < bytes.count {
      let sent = bytes.withUnsafeBytes {
        Glibc.send(socket, $0.baseAddress! + done, bytes.count - done, Int32(MSG_NOSIGNAL))
      }
      if sent <= 0 { return false }
      done += sent
    }
    return true
  }

  @discardableResult
  func send(_ text: String) -> Bool { send(Array(text.utf8)) }

  /// Sends as much as the sockets take without waiting.
  func sendUntilFull(_ bytes: [UInt8]) {
    _ = bytes.withUnsafeBytes {
      Glibc.send(socket, $0.baseAddress!, $0.count, Int32(MSG_NOSIGNAL | MSG_DONTWAIT))
    }
  }

  func endSending() { shutdown(socket, Int32(SHUT_WR)) }

  /// More bytes; false at the end of the stream or after 20 s.
  private func fill() -> Bool {
    var room = [UInt8](repeating: 0, count: 65_536)
    let count = recv(socket, &room, room.count, 0)
    guard count > 0 else {
      isTimedOut = count < 0 && errno == EAGAIN
      return false
    }
    pending += room[..<count]
    return true
  }

  /// Waits for any bytes and returns them.
  func readSome() -> [UInt8]? {
    if pending.isEmpty, !fill() { return nil }
    defer { pending = [] }
    return pending
  }

  /// Whether there are no bytes to read now.
  var isQuiet: Bool {
    var byte: UInt8 = 0
    return pending.isEmpty && recv(socket, &byte, 1, Int32(MSG_PEEK | MSG_DONTWAIT)) < 0
  }

  /// Whether the server closes the connection without another byte.
  var isClosed: Bool { pending.isEmpty && !fill() && !isTimedOut }

  /// The next answer; nil when the connection closes before it is whole.
  func read(head: Bool = false) -> Answer? {
    while true {
      while pending.firstRange(of: [13, 10, 13, 10]) == nil { if !fill() { return nil } }
      let end = pending.firstRange(of: [13, 10, 13, 10])!.lowerBound
      var lines = String(decoding: pending[..<end], as: UTF8.self).split(separator: "\r\n")[...]
      pending.removeFirst(end + 4)
      var answer = Answer()
      answer.status = RawClient.status(lines.removeFirst())
      for line in lines {
        let colon = line.firstIndex(of: ":")!
        answer.headers.append(
          (String(line[..<colon]), String(line[line.index(after: colon)...].drop { $0 == " " })))
      }
      if answer.status == 100 { continue }
      if head || answer.status == 204 || answer.status == 304 { return answer }
      if answer.header("Transfer-Encoding") == "chunked" { return readChunks(answer) }
      guard let length = answer.header("Content-Length").flatMap({ Int($0) }) else {
        while fill() {}
        answer.body = pending
        pending = []
        return answer
      }
      while pending.count < length { if !fill() { return nil } }
      answer.body = Array(pending[..<length])
      pending.removeFirst(length)
      return answer
    }
  }

  private static func status(_ line: Substring) -> Int {
    let words = line.split(separator: " ")
    return words.count > 1 ? Int(words[1]) ?? -1 : -1
  }

  private func readChunks(_ head: Answer) -> Answer? {
    var answer = head
    while let chunk = readChunk() {
      if chunk.isEmpty { return answer }
      answer.body += chunk
    }
    return nil
  }

  /// The head of an answer whose body is read by `readChunk`.
  func readHead() -> Answer? {
    while pending.firstRange(of: [13, 10, 13, 10]) == nil { if !fill() { return nil } }
    let end = pending.firstRange(of: [13, 10, 13, 10])!.lowerBound
    let lines = String(decoding: pending[..<end], as: UTF8.self).split(separator: "\r\n")
    pending.removeFirst(end + 4)
    var answer = Answer()
    answer.status = RawClient.status(lines[0])
    for line in lines.dropFirst() {
      let colon = line.firstIndex(of: ":")!
      answer.headers.append(
        (String(line[..<colon]), String(line[line.index(after: colon)...].drop { $0 == " " })))
    }
    return answer
  }

  /// One chunk; empty at the regular end, nil when the connection closes.
  func readChunk() -> [UInt8]? {
    while pending.firstRange(of: [13, 10]) == nil { if !fill() { return nil } }
    let end = pending.firstRange(of: [13, 10])!.lowerBound
    let size = Int(String(decoding: pending[..<end], as: UTF8.self), radix: 16)!
    while pending.count < end + 4 + size { if !fill() { return nil } }
    let chunk = Array(pending[(end + 2)..<(end + 2 + size)])
    pending.removeFirst(end + 4 + size)
    return chunk
  }

  /// Sends a request with a Host and reads its answer.
  func get(_ path: String, method: String = "GET", headers: [String] = [], body: String? = nil) -> Answer? {
    var request = "\(method) \(path) HTTP/1.1\r\nHost: test\r\n"
    for header in headers { request += header + "\r\n" }
    if let body { request += "Content-Length: \(body.utf8.count)\r\n" }
    send(request + "\r\n" + (body ?? ""))
    return read(head: method == "HEAD")
  }
}

extension Array where Element == UInt8 {
  func firstRange(of needle: [UInt8]) -> Range<Int>? {
    guard count >= needle.count else { return nil }
    for start in 0...(count - needle.count) where self[start] == needle[0] {
      if self[start..<(start + needle.count)].elementsEqual(needle) { return start..<(start + needle.count) }
    }
    return nil
  }
}
