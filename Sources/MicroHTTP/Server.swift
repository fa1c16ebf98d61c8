import CMicroHTTPD
import CMicroHTTPDPatches
import Glibc
import Platform
import Synchronization

/// An HTTP/1.1 server over libmicrohttpd's epoll threads, each with its share of the connections.
package final class Server: @unchecked Sendable {  // because the rest is set before any request
  /// What it was made of.
  package let configuration: Configuration
  /// What it counts.
  package let counters = ServerCounters()
  /// What bodies may hold before a handler looks at their requests.
  package let bodyRoom: BodyRoom
  /// Whether the loaded libmicrohttpd's memory is laid out as in the version that is known.
  let knowsLibrary: Bool
  let lot: ParkingLot
  let streamMemory: StreamMemory
  let log: AccessLog?
  /// Every table there was, so that requests read the present one without a lock and without counting.
  private let tables = Guarded<[RouteTable]>([])
  private let table: Atomic<Unmanaged<RouteTable>>
  /// The threads that read requests and answer; empty before the start and after the end.
  private(set) var workers: [Worker] = []
  private(set) var acceptor: Acceptor?
  private let accepting = ThreadPlace()
  private var threads: [Thread] = []
  private let stopFlag = Atomic<Bool>(false)
  /// The port it listens on; known once started.
  package private(set) var port: UInt16 = 0

  /// A server that does not listen yet.
  package init(_ configuration: Configuration, clock: Clock = .system) throws(ServerError) {
    self.configuration = configuration
    knowsLibrary = LibraryCheck.verdict == .known && !configuration.distrustsLibrary
    bodyRoom = BodyRoom(most: configuration.limits.unadmittedBodyBytes)
    lot = try ParkingLot(clock: clock)
    streamMemory = StreamMemory(configuration.limits)
    log = configuration.accessLog.map { AccessLog(file: $0, clock: clock) }
    let empty = RouteTable([], otherwise: Server.notFound)
    tables.withLock { $0.append(empty) }
    table = Atomic(Unmanaged.passUnretained(empty))
  }

  /// Listens and serves `routes`; what no route takes is answered with `otherwise`, by default a 404. Signals
  /// to be waited for must be blocked before, so that the threads inherit that.
  package func start(_ routes: [Route], otherwise: Problem? = nil) throws(ServerError) {
    precondition(acceptor == nil, "a server starts once")
    try LibraryCheck.require()
    serve(routes, otherwise: otherwise)
    let texts = try certificateTexts()
    defer { for text in texts { free(text) } }
    let (socket, port) = try configuration.listen.open(backlog: configuration.limits.backlog)
    self.port = port
    signal(SIGPIPE, SIG_IGN)
    mhd_set_refusal_maker(makeRefusal)
    do throws(ServerError) {
      try startWorkers(texts)
      let acceptor = try Acceptor(
        socket: socket, workers: workers, most: configuration.limits.connections)
      self.acceptor = acceptor
      accepting.start("http-accept") { acceptor.run() }
    } catch {
      close(socket)
      stopWorkers()
      throw error
    }
    startThreads()
  }

  /// Serves these routes from now on; requests that are being answered go on as they began.
  package func serve(_ routes: [Route], otherwise: Problem? = nil) {
    let made = RouteTable(routes, otherwise: otherwise ?? Server.notFound)
    tables.withLock { $0.append(made) }
    table.store(Unmanaged.passUnretained(made), ordering: .releasing)
  }

  /// Which routes are served now.
  var servedTable: Unmanaged<RouteTable> { table.load(ordering: .acquiring) }

  /// Lends the routes served now.
  func withRoutes<Result, Failure: Error>(
    _ body: (RouteTable) throws(Failure) -> Result
  ) throws(Failure) -> Result {
    let result = servedTable._withUnsafeGuaranteedRef { routes in
      Swift.Result { () throws(Failure) in try body(routes) }
    }
    return try result.get()
  }

  private static let notFound = Problem(
    404, "route_not_found", detail: "look at /openapi.yaml for the paths there are")

  private func startWorkers(_ certificate: [UnsafeMutablePointer<CChar>]) throws(ServerError) {
    for _ in 0..<configuration.workers {
      let worker = Worker(self)
      worker.daemon = startDaemon(worker, certificate)
      guard worker.daemon != nil else {
        throw ServerError(detail: "libmicrohttpd did not start; are certificate and key a pair?")
      }
      workers.append(worker)
    }
  }

  private func stopWorkers() {
    for worker in workers { MHD_stop_daemon(worker.daemon) }
    workers = []
  }

  private func startDaemon(
    _ worker: Worker, _ certificate: [UnsafeMutablePointer<CChar>]
  ) -> OpaquePointer? {
    let me = Unmanaged.passUnretained(self).toOpaque()
    let limits = configuration.limits
    var options: [MHD_OptionItem] = []
    func set(_ option: MHD_OPTION, _ value: Int, _ pointer: UnsafeMutableRawPointer? = nil) {
      options.append(MHD_OptionItem(option: option, value: value, ptr_value: pointer))
    }
    // The acceptor keeps the limit; the library never comes near its own.
    set(.CONNECTION_LIMIT, 2 * limits.connections)
    set(.CONNECTION_MEMORY_LIMIT, limits.connectionMemoryBytes)
    set(.CONNECTION_TIMEOUT, limits.idleSeconds)
    set(
      .NOTIFY_CONNECTION, unsafeBitCast(noticeConnection, to: Int.self),
      Unmanaged.passUnretained(worker).toOpaque())
    set(.NOTIFY_COMPLETED, unsafeBitCast(noticeCompleted, to: Int.self), me)
    set(.URI_LOG_CALLBACK, unsafeBitCast(beginRequest, to: Int.self), me)
    set(.UNESCAPE_CALLBACK, unsafeBitCast(leaveEscaped, to: Int.self), nil)
    var flags =
      MHD_USE_EPOLL_INTERNAL_THREAD.rawValue | MHD_ALLOW_SUSPEND_RESUME.rawValue | MHD_USE_ITC.rawValue
      | MHD_USE_NO_LISTEN_SOCKET.rawValue
    if !knowsLibrary {
      set(.STRICT_FOR_CLIENT, 1)
    } else if certificate.isEmpty {
      // In the version that is known this only leaves out a `shutdown` before each `close`, so that a request
      // line which the library refuses in silence can still be answered (`closing`).
      flags |= MHD_USE_TURBO.rawValue
    }
    if certificate.count == 2 {
      flags |= MHD_USE_TLS.rawValue
      set(.HTTPS_MEM_CERT, 0, certificate[0])
      set(.HTTPS_MEM_KEY, 0, certificate[1])
    }
    set(.END, 0)
    return options.withUnsafeBufferPointer { options in
      let array = OpaquePointer(options.baseAddress!)
      let list: [CVarArg] = [
        Int32(bitPattern: MHD_OPTION.ARRAY.rawValue), array, Int32(bitPattern: MHD_OPTION.END.rawValue),
      ]
      return withVaList(list) { MHD_start_daemon_va(flags, 0, nil, nil, handleAccess, me, $0) }
    }
  }

  private func startThreads() {
    let lot = lot
    threads.append(
      Thread("http-deadlines") { [bodyRoom] in
        lot.runWheel { if bodyRoom.hasEmptied() { _ = malloc_trim(0) } }
      })
    threads.append(Thread("http-hang-ups") { lot.runHangUpWatch() })
  }

  private func certificateTexts() throws(ServerError) -> [UnsafeMutablePointer<CChar>] {
    guard let tls = configuration.tls else { return [] }
    let certificate = try Server.read(tls.certificate)
    return [certificate, try Server.read(tls.key)]
  }

  private static func read(_ path: String) throws(ServerError) -> UnsafeMutablePointer<CChar> {
    guard let file = fopen(path, "re") else {
      throw ServerError(detail: "cannot read \(path): \(String(cString: strerror(errno)))")
    }
    defer { fclose(file) }
    let room = 1_048_576
    let text = UnsafeMutableRawPointer(malloc(room)!).assumingMemoryBound(to: CChar.self)
    text[fread(text, 1, room - 1, file)] = 0
    return text
  }

  /// Whether `shutDown` has begun.
  package var isStopping: Bool { stopFlag.load(ordering: .relaxed) }

  /// Requests parked and connections open now.
  package var counts: (connections: Int, parked: Int) { lot.counts }

  /// Connections open now by what happens on them; it takes as long as there are many.
  package var connectionCounts: ConnectionCounts { lot.connectionCounts }

  /// Bytes that event streams keep until their clients have taken them, and streams that were closed because
  /// there was no room for their next piece.
  package var streamCounts: (bytes: Int, refused: Int) { (streamMemory.bytes, streamMemory.refused) }

  /// Stops: takes no more connections, answers everything parked with `.shutdown`, reads no request that is
  /// not whole to its end, lets running requests end
  /// for at most `seconds`, and does not wait for idle connections. Afterwards nothing of it runs any more.
  package func shutDown(withinSeconds seconds: Double) {
    guard let acceptor, !stopFlag.exchange(true, ordering: .sequentiallyConsistent) else { return }
    let deadline = Clock.system.monotonicNanoseconds() + UInt64(max(0, seconds) * 1e9)
    acceptor.end()
    accepting.join()
    lot.stopParking()
    lot.stopReading()
    if !counters.waitUntilIdle(until: deadline) {
      Log.line(.warning, "requests_cut", ["count": .number(Int64(counters.running))])
    }
    lot.shutSockets()
    awaitClosing()
    stopWorkers()
    lot.close()
    log?.end()
    for thread in threads { thread.join() }
    threads = []
  }

  /// Waits until the workers have closed every connection, for a second at most: version 0.9.75 crashes when
  /// it is stopped just while it refuses a request, because it takes a response as queued that is not.
  private func awaitClosing() {
    let end = Clock.system.monotonicNanoseconds() + 1_000_000_000
    while workers.contains(where: { $0.connections > 0 }), Clock.system.monotonicNanoseconds() < end {
      // The workers close at once; nothing but their counts tells of it.
      usleep(500)
    }
  }
}
