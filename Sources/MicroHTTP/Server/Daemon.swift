import CMicroHTTPD
import Glibc
import Platform
import Synchronization

/// A daemon of libmicrohttpd with some of a worker's connections.
///
/// When one connection is resumed, the library looks through all that are suspended at its daemon. So a
/// worker with many connections shares them out among several daemons (decision 0051).
///
/// Parked requests that a change wakes together go on when the worker says so, some at a time (decision
/// 0061). Costly ones go on before the library looks at their connections (decision 0054).
final class Daemon: @unchecked Sendable {  // because the worker's thread alone uses all but what was resumed
  /// The most connections of one daemon.
  static let mostConnections = 256
  /// The descriptors that a daemon has open: its epoll, and an eventfd for resumed connections.
  static let descriptors = 2

  unowned(unsafe) let worker: Worker  // it stops its daemons before it ends
  /// The connections that it has.
  private(set) var connections = 0
  /// Whether it has something to do.
  var isReady = false
  /// When it has to run even if nothing happens (monotonic milliseconds); nil: never.
  private(set) var deadline: UInt64?
  private var daemon: OpaquePointer?
  private let isResuming = Atomic<Bool>(false)
  private let resumed = Guarded<[Resumed]>([])
  /// The connections whose requests a change woke together with others, and that are not resumed yet.
  private var woken: ArraySlice<Resumed> = []

  /// A suspended connection that is to be resumed, and so is not closed before.
  private struct Resumed: @unchecked Sendable {  // because the worker's thread alone looks into it
    let connection: OpaquePointer
    let client: Unmanaged<ClientConnection>
    let company: Company

    /// The request on the connection, which a wake lets go on. Nil: the library has ended the request.
    var request: Request? { client._withUnsafeGuaranteedRef { $0.request?.takeUnretainedValue() } }
  }

  /// After so many nanoseconds no further costly request goes on before the library sends the answers.
  private static let longestAtOnce: UInt64 = 1_000_000

  /// Nil: the library did not start it.
  init?(_ worker: Worker, _ certificate: CertificateTexts?) {
    self.worker = worker
    daemon = make(certificate)
    if daemon == nil { return nil }
  }

  /// The descriptor that is readable while there is something to do.
  var descriptor: Int32 { mhd_epoll_fd(daemon) }

  /// Ends it, and every connection that is still open.
  func stop() {
    for one in woken + resumed.withLock({ $0 }) { MHD_resume_connection(one.connection) }
    MHD_stop_daemon(daemon)
  }

  /// Serves what is ready, and never waits.
  func run() {
    MHD_run(daemon)
    var milliseconds: UInt64 = 0
    if MHD_get_timeout(daemon, &milliseconds) == .NO { milliseconds = .max }
    isReady = false
    deadline = milliseconds == .max ? nil : Daemon.now() &+ milliseconds
  }

  /// Whether requests that a change woke together are still to go on.
  var hasWoken: Bool { !woken.isEmpty }

  /// Lets some of the requests go on that a change woke together. Connections of costly ones are resumed only
  /// when these have their answers. Returns how many went on.
  func letSomeGoOn(atMost most: Int) -> Int {
    guard hasWoken else { return 0 }
    let waiting = woken.count
    let end = Clock.system.monotonicNanoseconds() + Daemon.longestAtOnce
    var isTimeLeft = true
    while isTimeLeft, waiting - woken.count < most, let next = woken.popFirst() {
      if next.company == .costly, let request = next.request, request.phase == .parked {
        let hasGoneOn = worker.server.goOnBeforehand(request)
        isTimeLeft = Clock.system.monotonicNanoseconds() < end
        guard hasGoneOn else { continue }
      }
      MHD_resume_connection(next.connection)
    }
    run()
    return waiting - woken.count
  }

  /// Takes the connections that are to be resumed. Those whose requests wait for something of their own are
  /// resumed at once.
  func takeResumed() {
    guard isResuming.load(ordering: .relaxed), isResuming.exchange(false, ordering: .acquiringAndReleasing)
    else { return }
    let taken = resumed.withLock { resumed in
      defer { resumed = [] }
      return resumed
    }
    for one in taken {
      if one.company == .alone {
        MHD_resume_connection(one.connection)
        isReady = true
      } else {
        woken.append(one)
      }
    }
  }

  /// The time that deadlines are compared with.
  static func now() -> UInt64 { Clock.system.monotonicNanoseconds() / 1_000_000 }

  /// Takes a connection. The library closes the socket also if it does not take it.
  func take(_ connection: NewConnection) {
    isReady = true
    let before = connections
    connections += 1
    var connection = connection
    let isTaken = withUnsafePointer(to: &connection.address) {
      MHD_add_connection(
        daemon, connection.socket, UnsafeRawPointer($0).assumingMemoryBound(to: sockaddr.self),
        connection.length)
    }
    // If the library had begun to serve it, the close was noted already.
    if isTaken != .YES, connections > before { noteClosed() }
  }

  /// A connection was closed.
  func noteClosed() {
    connections -= 1
    worker.noteClosed()
  }

  /// A suspended connection is to be resumed: the worker's thread does that, and then runs the daemon.
  func noteResumed(
    _ connection: OpaquePointer, _ client: Unmanaged<ClientConnection>, _ company: Company
  ) {
    resumed.withLock { $0.append(Resumed(connection: connection, client: client, company: company)) }
    isResuming.store(true, ordering: .releasing)
    worker.noteResumed()
  }

  // MARK: - The library's options

  private func make(_ certificate: CertificateTexts?) -> OpaquePointer? {
    let server = Unmanaged.passUnretained(worker.server).toOpaque()
    var options = options(server, certificate)
    var flags =
      MHD_USE_EPOLL.rawValue | MHD_ALLOW_SUSPEND_RESUME.rawValue | MHD_USE_ITC.rawValue
      | MHD_USE_NO_LISTEN_SOCKET.rawValue
    if certificate != nil { flags |= MHD_USE_TLS.rawValue }
    if !worker.server.knowsLibrary {
      options.append(MHD_OptionItem(option: .STRICT_FOR_CLIENT, value: 1, ptr_value: nil))
    } else if certificate == nil {
      // In the version that is known this only leaves out a `shutdown` before each `close`, so that a request
      // line which the library refuses in silence can still be answered (`Server.closing`).
      flags |= MHD_USE_TURBO.rawValue
    }
    options.append(MHD_OptionItem(option: .END, value: 0, ptr_value: nil))
    // Not empty, so it has a base address.
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
    let limits = worker.server.configuration.limits
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
