import Glibc

/// `host:port` with a port of 0 for any free one; IPv6 in brackets.
package struct ListenAddress: Sendable, Equatable {
  /// A name or a numeric address, without brackets.
  package let host: String
  /// The port; 0 picks a free one.
  package let port: UInt16

  /// An address of its parts.
  package init(host: String, port: UInt16) {
    self.host = host
    self.port = port
  }

  /// Reads texts such as `127.0.0.1:8080`, `[::1]:0` and `localhost:80`; nil for any other form.
  package init?(_ text: String) {
    guard let colon = text.lastIndex(of: ":"), let port = UInt16(text[text.index(after: colon)...]) else {
      return nil
    }
    var host = text[..<colon]
    if host.first == "[", host.last == "]" {
      host = host.dropFirst().dropLast()
    } else if host.contains(":") {
      return nil
    }
    guard !host.isEmpty else { return nil }
    self.init(host: String(host), port: port)
  }

  /// As in a URL.
  package var description: String { host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)" }

  /// A bound, listening, non-blocking socket and the port it got.
  func open(backlog: Int) throws(ServerError) -> (socket: Int32, port: UInt16) {
    var hints = addrinfo()
    hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
    hints.ai_flags = AI_PASSIVE
    var found: UnsafeMutablePointer<addrinfo>?
    let code = getaddrinfo(host, "\(port)", &hints, &found)
    guard code == 0, let found else {
      throw ServerError(detail: "cannot listen on \(description): \(String(cString: gai_strerror(code)))")
    }
    defer { freeaddrinfo(found) }
    let type = Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue)
    let socket = Glibc.socket(found.pointee.ai_family, type, 0)
    var yes: Int32 = 1
    setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, socklen_t(MemoryLayout<Int32>.size))
    // The kernel keeps a connection to itself until its first bytes come, or a second went by: a crowd that
    // only connects costs no memory here.
    setsockopt(socket, Int32(IPPROTO_TCP), TCP_DEFER_ACCEPT, &yes, socklen_t(MemoryLayout<Int32>.size))
    guard socket >= 0, bind(socket, found.pointee.ai_addr, found.pointee.ai_addrlen) == 0,
      listen(socket, Int32(backlog)) == 0
    else {
      let reason = String(cString: strerror(errno))
      if socket >= 0 { close(socket) }
      throw ServerError(detail: "cannot listen on \(description): \(reason)")
    }
    return (socket, ListenAddress.boundPort(of: socket))
  }

  private static func boundPort(of socket: Int32) -> UInt16 {
    var address = sockaddr_in6()
    var length = socklen_t(MemoryLayout<sockaddr_in6>.size)
    withUnsafeMutableBytes(of: &address) {
      _ = getsockname(socket, $0.baseAddress!.assumingMemoryBound(to: sockaddr.self), &length)
    }
    // The port has the same offset in both families.
    return UInt16(bigEndian: address.sin6_port)
  }
}
