import Glibc
import TestSupport

/// One kept connection to a server, for many requests one after the other.
final class Line {
  private let port: UInt16
  private var socket: Int32 = -1
  private var bytes: [UInt8] = []

  init(port: UInt16) { self.port = port }

  deinit { if socket >= 0 { close(socket) } }

  /// The status and body; nil if the connection ended without a complete answer. The next request opens a new
  /// one.
  func exchange(
    _ method: String, _ path: String, _ body: String = "", seconds: Int = 10,
    type: String = "application/json"
  ) -> (Int, [UInt8])? {
    if socket < 0, !open(seconds) { return nil }
    let request =
      "\(method) \(path) HTTP/1.1\r\nHost: 127.0.0.1:\(port)\r\nApi-Token: origin\r\n"
      + "Content-Type: \(type)\r\nContent-Length: \(body.utf8.count)\r\n\r\n\(body)"
    guard send(socket, request, request.utf8.count, Int32(MSG_NOSIGNAL)) == request.utf8.count,
      let answer = read()
    else {
      hangUp()
      return nil
    }
    return answer
  }

  func hangUp() {
    if socket >= 0 { close(socket) }
    socket = -1
    bytes = []
  }

  private func open(_ seconds: Int) -> Bool {
    socket = Loopback.connect(port: port, seconds: Double(seconds))
    return socket >= 0
  }

  private func read() -> (Int, [UInt8])? {
    while true {
      if let end = headEnd() {
        let head = String(decoding: bytes[..<end], as: UTF8.self)
        let lines = head.split(separator: "\r\n")
        guard let status = lines.first.flatMap({ Int($0.dropFirst(9).prefix(3)) }),
          let length = lines.first(where: { $0.lowercased().hasPrefix("content-length:") }).flatMap({
            Int($0.dropFirst(15).drop { $0 == " " })
          })
        else { return nil }
        while bytes.count < end + 4 + length { guard receive() else { return nil } }
        let body = Array(bytes[(end + 4)..<(end + 4 + length)])
        bytes.removeFirst(end + 4 + length)
        return (status, body)
      }
      guard receive() else { return nil }
    }
  }

  private func headEnd() -> Int? {
    guard bytes.count > 3 else { return nil }
    return (0..<(bytes.count - 3)).first {
      bytes[$0] == 13 && bytes[$0 + 1] == 10 && bytes[$0 + 2] == 13 && bytes[$0 + 3] == 10
    }
  }

  private func receive() -> Bool {
    let count = withUnsafeTemporaryAllocation(byteCount: 65_536, alignment: 1) { room in
      let count = recv(socket, room.baseAddress, room.count, 0)
      if count > 0 { bytes.append(contentsOf: UnsafeRawBufferPointer(rebasing: room[..<count])) }
      return count
    }
    return count > 0
  }
}
