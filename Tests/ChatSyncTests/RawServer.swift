import Glibc
import Platform

/// A socket that answers each connection as a script says, for the transport's tests.
final class RawServer: Sendable {
  /// What happens on a connection, given the request's bytes.
  enum Answer: Sendable {
    case text(String)
    case bytes([UInt8])
    /// Accept, read, and never answer.
    case silence
    /// Close without an answer.
    case hangUp
    /// Close after this text.
    case lastText(String)
  }

  let port: Int
  private let listener: Int32
  private let open = Guarded<[Int32]>([])
  private let acceptor = Guarded<Thread?>(nil)
  private let threads = Guarded<[Thread]>([])
  let requests = Guarded<[String]>([])
  /// The number of connections that this server closed without an answer.
  let hangUps = Guarded(0)

  init(_ answer: @escaping @Sendable (String) -> Answer) {
    let socket = Glibc.socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
    var length = socklen_t(MemoryLayout<sockaddr_in>.size)
    withUnsafeMutablePointer(to: &address) { pointer in
      pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { raw in
        _ = bind(socket, raw, length)
        getsockname(socket, raw, &length)
      }
    }
    listen(socket, 64)
    listener = socket
    port = Int(UInt16(bigEndian: address.sin_port))
    let accepting = Thread("raw-accept") { [self] in
      while true {
        let peer = accept(listener, nil, nil)
        guard peer >= 0 else { return }
        open.withLock { $0.append(peer) }
        let serving = Thread("raw-peer") { [self] in serve(peer, answer) }
        threads.withLock { $0.append(serving) }
      }
    }
    acceptor.withLock { $0 = accepting }
  }

  private func serve(_ peer: Int32, _ answer: (String) -> Answer) {
    var bytes = [UInt8](repeating: 0, count: 65_536)
    while true {
      let count = recv(peer, &bytes, bytes.count, 0)
      guard count > 0 else { break }
      let request = String(decoding: bytes[..<count], as: UTF8.self)
      requests.withLock { $0.append(request) }
      switch answer(request) {
      case .silence: continue
      case .hangUp:
        return hangUp(peer)
      case .text(let text): RawServer.send(Array(text.utf8), to: peer)
      case .bytes(let bytes): RawServer.send(bytes, to: peer)
      case .lastText(let text):
        RawServer.send(Array(text.utf8), to: peer)
        return hangUp(peer)
      }
    }
  }

  private static func send(_ bytes: [UInt8], to peer: Int32) {
    var done = 0
    while done < bytes.count {
      let sent = bytes[done...].withUnsafeBytes {
        Glibc.send(peer, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
      }
      guard sent > 0 else { return }
      done += sent
    }
  }

  private func hangUp(_ peer: Int32) {
    shutdown(peer, Int32(SHUT_RDWR))
    hangUps.withLock { $0 += 1 }
  }

  /// Takes no further connections.
  func stopListening() { shutdown(listener, Int32(SHUT_RDWR)) }

  var connectionCount: Int { open.withLock { $0.count } }

  func close() {
    shutdown(listener, Int32(SHUT_RDWR))
    acceptor.withLock { $0 }?.join()
    for peer in open.withLock({ $0 }) { shutdown(peer, Int32(SHUT_RDWR)) }
    // Only after the threads ended: a descriptor that is closed while a thread uses it may become another
    // server's socket.
    while let thread = threads.withLock({ $0.popLast() }) { thread.join() }
    Glibc.close(listener)
    for peer in open.withLock({ $0 }) { Glibc.close(peer) }
  }

  static func ok(_ body: String, headers: String = "") -> Answer {
    .text("HTTP/1.1 200 OK\r\nContent-Length: \(body.utf8.count)\r\n\(headers)\r\n\(body)")
  }
}
