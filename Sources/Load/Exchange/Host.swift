import Glibc

/// The address of a server that speaks HTTP without TLS.
package struct Host: Sendable {
  /// `host:port`, as the header `Host` says it.
  package let name: String
  private let address: [UInt8]
  private let family: Int32

  /// Looks a name up; nil: it has no address.
  package init?(_ host: String, port: UInt16, named name: String) {
    var hints = addrinfo()
    hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
    var found: UnsafeMutablePointer<addrinfo>?
    guard getaddrinfo(host, "\(port)", &hints, &found) == 0, let found else { return nil }
    defer { freeaddrinfo(found) }
    address = Array(
      UnsafeRawBufferPointer(start: found.pointee.ai_addr, count: Int(found.pointee.ai_addrlen)))
    family = found.pointee.ai_family
    self.name = name
  }

  /// A socket that is being connected; negative: there is none.
  func connect() -> Int32 {
    let socket = Glibc.socket(
      family, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue), 0)
    guard socket >= 0 else { return socket }
    var one: Int32 = 1
    setsockopt(socket, Int32(IPPROTO_TCP), TCP_NODELAY, &one, socklen_t(MemoryLayout<Int32>.size))
    let code = address.withUnsafeBytes {
      Glibc.connect(socket, $0.baseAddress!.assumingMemoryBound(to: sockaddr.self), socklen_t($0.count))
    }
    guard code == 0 || errno == EINPROGRESS else {
      close(socket)
      return -1
    }
    return socket
  }
}
