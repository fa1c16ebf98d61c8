import Glibc
import MicroHTTP
import TestSupport

/// A server's answer.
struct Answer {
  var status = 0
  var head = ""
  var body = ""

  /// The value of a header.
  subscript(_ name: String) -> String? {
    head.split(separator: "\r\n").first { $0.lowercased().hasPrefix(name.lowercased() + ":") }
      .map { String($0.dropFirst(name.count + 1).drop { $0 == " " }) }
  }
}

/// A kept connection for many requests. The same arguments make the same bytes.
final class Line {
  private let socket: Int32
  private let headers: String

  /// Headers for every request, each with its line end.
  init(_ server: Server, headers: String) {
    socket = Loopback.connect(port: server.port)
    self.headers = headers
  }

  deinit { close(socket) }

  /// Requests a path, and reads the whole answer: a 304, or one with a `Content-Length`.
  func get(_ path: String, tag: String? = nil) -> Answer {
    let known = tag.map { "If-None-Match: \($0)\r\n" } ?? ""
    let request = "GET \(path) HTTP/1.1\r\nHost: x\r\n\(headers)\(known)\r\n"
    _ = send(socket, request, request.utf8.count, Int32(MSG_NOSIGNAL))
    var bytes: [UInt8] = []
    var room = [UInt8](repeating: 0, count: 4096)
    while case let count = recv(socket, &room, room.count, 0), count > 0 {
      bytes += room[..<count]
      let answer = Answer(bytes)
      if answer.status == 304 || answer["Content-Length"] == "\(answer.body.utf8.count)" { return answer }
    }
    return Answer()
  }
}

extension Answer {
  /// An answer from its bytes.
  fileprivate init(_ bytes: [UInt8]) {
    let end = bytes.indices.first { bytes[$0...].starts(with: "\r\n\r\n".utf8) } ?? bytes.count
    head = String(decoding: bytes[..<end], as: UTF8.self)
    status = head.split(separator: " ").dropFirst().first.flatMap { Int($0) } ?? 0
    body = String(decoding: bytes.dropFirst(end + 4), as: UTF8.self)
  }
}

/// Sends a request over a connection of its own, and reads until the connection ends.
func ask(
  _ server: Server, _ path: String, method: String = "GET", headers: [String: String] = [:], body: String = ""
) -> Answer {
  let socket = Loopback.connect(port: server.port)
  guard socket >= 0 else { return Answer() }
  defer { close(socket) }
  let lines = headers.map { "\($0.key): \($0.value)\r\n" }.joined()
  let length = body.isEmpty ? "" : "Content-Length: \(body.utf8.count)\r\n"
  let request =
    "\(method) \(path) HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\(lines)\(length)\r\n\(body)"
  _ = send(socket, request, request.utf8.count, Int32(MSG_NOSIGNAL))
  var bytes: [UInt8] = []
  var room = [UInt8](repeating: 0, count: 4096)
  while case let count = recv(socket, &room, room.count, 0), count > 0 { bytes += room[..<count] }
  return Answer(bytes)
}
