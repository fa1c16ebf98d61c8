import Glibc

/// One kept connection of a client that sends a request, waits for the whole answer and measures that time.
final class KeptConnection {
  private let port: Int
  private let headers: String
  private let socket: Int32
  private var bytes = [UInt8](repeating: 0, count: 4 << 20)

  /// Connects; `headers` go with every request, each with its line end.
  init(port: Int, headers: String) throws {
    self.port = port
    self.headers = headers
    socket = Glibc.socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
    var one: Int32 = 1
    setsockopt(socket, Int32(IPPROTO_TCP), TCP_NODELAY, &one, socklen_t(MemoryLayout<Int32>.size))
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_port = in_port_t(port).bigEndian
    address.sin_addr.s_addr = in_addr_t(0x7f00_0001).bigEndian
    let code = withUnsafeBytes(of: &address) {
      connect(socket, $0.baseAddress!.assumingMemoryBound(to: sockaddr.self), socklen_t($0.count))
    }
    guard code == 0 else { throw BenchFailure(description: "nothing listens on port \(port)") }
  }

  deinit { close(socket) }

  /// The head and body of the answer, whose status must begin with 20, and the milliseconds until all of it
  /// came.
  func ask(_ method: String, _ path: String, _ body: String = "") throws -> (
    head: String, body: String, milliseconds: Double
  ) {
    let (head, body, took) = try exchange(method, path, body)
    guard head.hasPrefix("HTTP/1.1 20") else {
      throw BenchFailure(description: "\(method) \(path): \(head.prefix(200))")
    }
    return (head, body, took)
  }

  /// The status of the answer, whatever it is.
  func status(_ method: String, _ path: String) throws -> Int? {
    Int(try exchange(method, path, "").head.dropFirst("HTTP/1.1 ".count).prefix(3))
  }

  private func exchange(_ method: String, _ path: String, _ body: String) throws -> (
    head: String, body: String, milliseconds: Double
  ) {
    let request =
      "\(method) \(path) HTTP/1.1\r\nHost: 127.0.0.1:\(port)\r\n\(headers)"
      + "Content-Type: application/json\r\nContent-Length: \(body.utf8.count)\r\n\r\n\(body)"
    let began = KeptConnection.now()
    guard send(socket, request, request.utf8.count, Int32(MSG_NOSIGNAL)) == request.utf8.count else {
      throw BenchFailure(description: "the connection to port \(port) is gone")
    }
    let (head, range) = try receive()
    let took = KeptConnection.now() - began
    return (head, String(decoding: bytes[range], as: UTF8.self), took)
  }

  private func receive() throws -> (head: String, body: Range<Int>) {
    var count = 0
    var body: Range<Int>?
    var head = ""
    while true {
      let got = bytes.withUnsafeMutableBytes { recv(socket, $0.baseAddress! + count, $0.count - count, 0) }
      guard got > 0 else { throw BenchFailure(description: "port \(port) ended the connection") }
      count += got
      if body == nil, let end = headEnd(count) {
        head = String(decoding: bytes[..<end], as: UTF8.self)
        let line = head.split(separator: "\r\n").first { $0.lowercased().hasPrefix("content-length:") }
        let length =
          head.hasPrefix("HTTP/1.1 204") ? 0 : line.flatMap { Int($0.dropFirst(15).drop { $0 == " " }) }
        guard let length, end + 4 + length < bytes.count else {
          throw BenchFailure(description: "an answer without a length, or too long: \(head)")
        }
        body = (end + 4)..<(end + 4 + length)
      }
      if let body, count >= body.upperBound { return (head, body) }
    }
  }

  private func headEnd(_ count: Int) -> Int? {
    guard count > 3 else { return nil }
    return bytes.withUnsafeBytes { bytes in
      (0..<(count - 3)).first {
        bytes[$0] == 13 && bytes[$0 + 1] == 10 && bytes[$0 + 2] == 13 && bytes[$0 + 3] == 10
      }
    }
  }

  private static func now() -> Double {
    var time = timespec()
    clock_gettime(CLOCK_MONOTONIC, &time)
    return Double(time.tv_sec) * 1000 + Double(time.tv_nsec) / 1_000_000
  }
}

extension [Double] {
  /// The value that `share` percent of the values do not exceed.
  func percentile(_ share: Double) -> Double {
    let sorted = self.sorted()
    return sorted.isEmpty
      ? .nan : sorted[Swift.min(sorted.count - 1, Int(Double(sorted.count) * share / 100))]
  }
}
