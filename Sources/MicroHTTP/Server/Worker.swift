import CMicroHTTPD
import Glibc
import Synchronization

/// One thread of libmicrohttpd's that reads requests and answers, and the connections it has.
final class Worker: @unchecked Sendable {  // because `daemon` is set before the first connection is given
  unowned(unsafe) let server: Server  // it stops its workers before it ends
  let recent = RecentAnswers()
  private var daemon: OpaquePointer?
  private let count = Atomic<Int>(0)
  private let signal: AcceptSignal

  init(_ server: Server, _ signal: AcceptSignal) {
    self.server = server
    self.signal = signal
  }

  /// Starts the thread.
  func start(_ certificate: CertificateTexts?) throws(ServerError) {
    daemon = makeDaemon(certificate)
    guard daemon != nil else {
      throw ServerError(detail: "libmicrohttpd did not start; are certificate and key a pair?")
    }
  }

  /// Ends the thread, and every connection that is still open.
  func stop() { MHD_stop_daemon(daemon) }

  /// Connections given and not closed yet.
  var connections: Int { count.load(ordering: .sequentiallyConsistent) }

  /// Hands the connection over; the daemon closes it if it does not take it.
  func give(_ socket: Int32, _ address: UnsafeRawPointer, _ length: socklen_t) {
    count.wrappingAdd(1, ordering: .sequentiallyConsistent)
    let address = address.assumingMemoryBound(to: sockaddr.self)
    if MHD_add_connection(daemon, socket, address, length) != .YES { noteClosed() }
  }

  /// A connection was closed.
  func noteClosed() {
    count.wrappingSubtract(1, ordering: .sequentiallyConsistent)
    signal.noteClosed()
  }

  // MARK: - The daemon

  private func makeDaemon(_ certificate: CertificateTexts?) -> OpaquePointer? {
    let server = Unmanaged.passUnretained(server).toOpaque()
    var options = options(server, certificate)
    var flags =
      MHD_USE_EPOLL_INTERNAL_THREAD.rawValue | MHD_ALLOW_SUSPEND_RESUME.rawValue | MHD_USE_ITC.rawValue
      | MHD_USE_NO_LISTEN_SOCKET.rawValue
    if certificate != nil { flags |= MHD_USE_TLS.rawValue }
    if !self.server.knowsLibrary {
      options.append(MHD_OptionItem(option: .STRICT_FOR_CLIENT, value: 1, ptr_value: nil))
    } else if certificate == nil {
      // In the version that is known this only leaves out a `shutdown` before each `close`, so that a request
      // line which the library refuses in silence can still be answered (`Server.closing`).
      flags |= MHD_USE_TURBO.rawValue
    }
    options.append(MHD_OptionItem(option: .END, value: 0, ptr_value: nil))
    return options.withUnsafeBufferPointer { options in
      let list: [CVarArg] = [
        Int32(bitPattern: MHD_OPTION.ARRAY.rawValue), OpaquePointer(options.baseAddress!),
        Int32(bitPattern: MHD_OPTION.END.rawValue),
      ]
      return withVaList(list) { MHD_start_daemon_va(flags, 0, nil, nil, handleAccess, server, $0) }
    }
  }

  private func options(
    _ server: UnsafeMutableRawPointer, _ certificate: CertificateTexts?
  ) -> [MHD_OptionItem] {
    let limits = self.server.configuration.limits
    let me = Unmanaged.passUnretained(self).toOpaque()
    var options: [MHD_OptionItem] = []
    func set(_ option: MHD_OPTION, _ value: Int, _ pointer: UnsafeMutableRawPointer? = nil) {
      options.append(MHD_OptionItem(option: option, value: value, ptr_value: pointer))
    }
    // The acceptor keeps the limit; the library never comes near its own.
    set(.CONNECTION_LIMIT, 2 * limits.connections)
    set(.CONNECTION_MEMORY_LIMIT, limits.connectionMemoryBytes)
    set(.CONNECTION_TIMEOUT, limits.idleSeconds)
    set(.NOTIFY_CONNECTION, unsafeBitCast(noticeConnection, to: Int.self), me)
    set(.NOTIFY_COMPLETED, unsafeBitCast(noticeCompleted, to: Int.self), server)
    set(.URI_LOG_CALLBACK, unsafeBitCast(beginRequest, to: Int.self), server)
    set(.UNESCAPE_CALLBACK, unsafeBitCast(leaveEscaped, to: Int.self), nil)
    if let certificate {
      set(.HTTPS_MEM_CERT, 0, certificate.certificate)
      set(.HTTPS_MEM_KEY, 0, certificate.key)
    }
    return options
  }
}
