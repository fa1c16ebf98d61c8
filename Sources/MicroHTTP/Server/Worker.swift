import CMicroHTTPD
import Glibc
import Platform
import Synchronization

/// One thread that reads requests and answers, and the connections it has.
///
/// The thread waits by itself, for libmicrohttpd's events and for new connections (`WorkerWait`), and calls
/// `MHD_run`, which handles what is ready and never waits. The library's own threads are not used: version
/// 0.9.75 fetches 128 events at a time, and after exactly 128 it waits for more events before it serves them.
final class Worker: @unchecked Sendable {  // because `daemon` is used before and after its thread, and on it
  unowned(unsafe) let server: Server  // it stops its workers before it ends
  let recent = RecentAnswers()
  private var daemon: OpaquePointer?
  private let wait: WorkerWait
  private let inbox = Guarded<[NewConnection]>([])
  private let thread = ThreadSlot()
  private let isEnding = Atomic<Bool>(false)
  /// How many requests were completed. Only the thread changes it.
  var completedRequests = 0
  private let count = Atomic<Int>(0)
  private let signal: AcceptSignal

  init(_ server: Server, _ signal: AcceptSignal) throws(ServerError) {
    self.server = server
    self.signal = signal
    wait = try WorkerWait()
  }

  /// Starts the thread.
  func start(_ certificate: CertificateTexts?) throws(ServerError) {
    daemon = makeDaemon(certificate)
    guard daemon != nil else {
      throw ServerError(detail: "libmicrohttpd did not start; are certificate and key a pair?")
    }
    wait.watch(mhd_epoll_fd(daemon))
    thread.start("http-worker") { [self] in run() }
  }

  /// Ends the thread, and every connection that is still open.
  func stop() {
    isEnding.store(true, ordering: .sequentiallyConsistent)
    wait.wake()
    thread.join()
    for new in inbox.withLock({ $0 }) { close(new.socket) }
    MHD_stop_daemon(daemon)
  }

  private func run() {
    var yields = YieldRule()
    while !isEnding.load(ordering: .sequentiallyConsistent) {
      if wait.hasNews() { takeConnections() }
      let before = completedRequests
      MHD_run(daemon)
      if completedRequests != before {
        server.answered.wrappingAdd(completedRequests - before, ordering: .relaxed)
        if letOthersRun(&yields) { continue }
      }
      var milliseconds: UInt64 = 0
      let hasDeadline = MHD_get_timeout(daemon, &milliseconds) == .YES
      wait.forEvents(atMost: hasDeadline ? milliseconds : nil)
    }
  }

  /// Yields if the rule allows it. True if it did: new requests may be waiting.
  private func letOthersRun(_ rule: inout YieldRule) -> Bool {
    let began = Clock.system.monotonicNanoseconds()
    guard rule.mayYield(now: began) else { return false }
    let before = server.answered.load(ordering: .relaxed)
    sched_yield()
    let answered = server.answered.load(ordering: .relaxed) - before
    rule.yielded(from: began, to: Clock.system.monotonicNanoseconds(), answered: answered)
    return true
  }

  /// The most connections that are taken up between two runs of the library, so that the memory of those that
  /// are refused at once serves the next ones.
  private static let takenAtOnce = 64

  private func takeConnections() {
    let (new, hasMore) = inbox.withLock { inbox in
      let new = Array(inbox.prefix(Worker.takenAtOnce))
      inbox.removeFirst(new.count)
      return (new, !inbox.isEmpty)
    }
    if hasMore { wait.tellNews() }
    for var connection in new {
      // The daemon closes the socket also if it does not take it.
      let taken = withUnsafePointer(to: &connection.address) {
        MHD_add_connection(
          daemon, connection.socket, UnsafeRawPointer($0).assumingMemoryBound(to: sockaddr.self),
          connection.length)
      }
      if taken != .YES { noteClosed() }
    }
  }

  /// Connections given and not closed yet.
  var connections: Int { count.load(ordering: .sequentiallyConsistent) }

  /// Hands a connection to the thread.
  func give(_ connection: NewConnection) {
    count.wrappingAdd(1, ordering: .sequentiallyConsistent)
    inbox.withLock { $0.append(connection) }
    wait.tellNews()
  }

  /// A parked connection was resumed: the thread runs the library once more. The library may clear the event
  /// for it without looking for resumed connections again.
  func noteResumed() { wait.tellNews() }

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
      MHD_USE_EPOLL.rawValue | MHD_ALLOW_SUSPEND_RESUME.rawValue | MHD_USE_ITC.rawValue
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
