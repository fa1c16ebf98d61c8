import Glibc
import MicroHTTP

extension Command {
  /// `perch health`
  static let health = Command(
    name: "health", summary: "asks a running service whether it is well; exit code 0 only if so",
    settings: [
      Setting(
        "url", .text, default: "http://127.0.0.1:8080/healthz",
        "what to ask; plain http, answered with a 2xx if well")
    ]
  ) { values in
    let probe = try HealthProbe(url: values.text("url"))
    let line = try probe.statusLine()
    let parts = line.split(separator: " ")
    guard parts.count >= 2, parts[0].hasPrefix("HTTP/1."), let status = Int(parts[1]) else {
      throw CommandFailure(description: "\(values.text("url")) does not speak HTTP")
    }
    guard (200..<300).contains(status) else {
      throw CommandFailure(description: "\(values.text("url")) answered \(status)")
    }
    return 0
  }
}

/// One GET over a socket of its own, so that a container needs no other program for its health check.
private struct HealthProbe {
  private let address: ListenAddress
  private let path: String

  init(url: String) throws {
    guard url.hasPrefix("http://") else {
      throw SettingError(description: "--url: \(url) does not begin with http://")
    }
    let rest = url.dropFirst("http://".count)
    let slash = rest.firstIndex(of: "/") ?? rest.endIndex
    let authority = String(rest[..<slash])
    guard let address = ListenAddress(authority) ?? ListenAddress(authority + ":80") else {
      throw SettingError(description: "--url: \(url) has no host")
    }
    self.address = address
    path = slash == rest.endIndex ? "/healthz" : String(rest[slash...])
  }

  /// The first line of the answer; 5 s at most for each step.
  func statusLine() throws -> String {
    var hints = addrinfo()
    hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
    var found: UnsafeMutablePointer<addrinfo>?
    guard getaddrinfo(address.host, "\(address.port)", &hints, &found) == 0, let found else {
      throw CommandFailure(description: "no address is known for \(address.host)")
    }
    defer { freeaddrinfo(found) }
    let socket = Glibc.socket(found.pointee.ai_family, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
    defer { close(socket) }
    var limit = timeval(tv_sec: 5, tv_usec: 0)
    let size = socklen_t(MemoryLayout<timeval>.size)
    setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &limit, size)
    setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &limit, size)
    let request = "GET \(path) HTTP/1.1\r\nHost: \(address.description)\r\nConnection: close\r\n\r\n"
    guard connect(socket, found.pointee.ai_addr, found.pointee.ai_addrlen) == 0,
      send(socket, request, request.utf8.count, Int32(MSG_NOSIGNAL)) == request.utf8.count
    else {
      throw CommandFailure(
        description: "nothing answers on \(address.description): \(String(cString: strerror(errno)))")
    }
    var room = [UInt8](repeating: 0, count: 512)
    let count = recv(socket, &room, room.count, 0)
    guard count > 0 else {
      throw CommandFailure(description: "\(address.description) did not answer within 5 s")
    }
    return String(decoding: room[..<count].prefix { $0 != 13 }, as: UTF8.self)
  }
}
