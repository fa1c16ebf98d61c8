import CMicroHTTPD
import CMicroHTTPDPatches
import Glibc
import Platform
import Synchronization

/// An HTTP/1.1 server over libmicrohttpd: threads of its own, each with its share of the connections.
///
///     let server = try Server(Configuration(listen: address))
///     try server.start(routes)
///     …
///     server.shutDown(withinSeconds: 10)
package final class Server: Sendable {
  /// The settings it was made with.
  package let configuration: Configuration
  /// The counters for the metrics.
  package let counters = ServerCounters()
  /// How many requests the workers answered.
  let answered = Atomic<Int>(0)
  /// The memory that bodies may hold before a handler looks at their requests.
  package let bodyRoom: BodyRoom
  /// Whether the loaded libmicrohttpd's memory is laid out as in the version that is known.
  let knowsLibrary: Bool
  let lot: ParkingLot
  let streamMemory: StreamMemory
  let log: AccessLog?
  let routes = ServedRoutes(otherwise: Server.notFound)
  private let life = Guarded(ServerLife.made)

  /// A server that does not listen yet.
  package init(_ configuration: Configuration, clock: Clock = .system) throws(ServerError) {
    self.configuration = configuration
    knowsLibrary = LibraryCheck.verdict == .known && !configuration.distrustsLibrary
    bodyRoom = BodyRoom(most: configuration.limits.unadmittedBodyBytes)
    lot = try ParkingLot(clock: clock)
    streamMemory = StreamMemory(configuration.limits)
    log = configuration.accessLog.map { AccessLog(file: $0, clock: clock) }
  }

  // MARK: - Routes

  /// Serves these routes from now on; requests that are being answered go on as they began.
  package func serve(_ routes: [Route], otherwise: Problem? = nil) {
    self.routes.serve(routes, otherwise: otherwise ?? Server.notFound)
  }

  private static let notFound = Problem(
    404, "route_not_found", detail: "look at /openapi.yaml for the paths there are")

  // MARK: - Life

  /// Listens and serves `routes`; requests that no route takes are answered with `otherwise`, by default a
  /// 404. The caller must have blocked the signals it waits for, so that the threads inherit that. A server
  /// starts once.
  package func start(_ routes: [Route], otherwise: Problem? = nil) throws(ServerError) {
    try LibraryCheck.require()
    serve(routes, otherwise: otherwise)
    let certificate = try configuration.tls.map { tls throws(ServerError) in try CertificateTexts(tls) }
    signal(SIGPIPE, SIG_IGN)
    mhd_set_refusal_maker(makeRefusal)
    try life.withLock { life throws(ServerError) in
      guard case .made = life else { preconditionFailure("a server starts once") }
      life = .serving(try begin(certificate))
    }
  }

  /// Listens, and starts every thread or none.
  private func begin(_ certificate: CertificateTexts?) throws(ServerError) -> ServerThreads {
    let (socket, port) = try configuration.listen.open(backlog: configuration.limits.backlog)
    var workers: [Worker] = []
    do throws(ServerError) {
      let signal = try AcceptSignal()
      for _ in 0..<configuration.workers {
        let worker = try Worker(self, signal)
        try worker.start(certificate)
        workers.append(worker)
      }
      let acceptor = Acceptor(
        socket: socket, workers: workers, most: configuration.limits.connections, signal)
      return ServerThreads(
        port: port, workers: workers, acceptor: acceptor,
        accepting: Thread("http-accept") { acceptor.run() },
        others: [
          Thread("http-deadlines") { [lot, bodyRoom, streamMemory] in
            lot.runWheel {
              let mayTrim = (bodyRoom.hasEmptied(), streamMemory.hasComeToRest())
              if mayTrim.0 || mayTrim.1 { _ = malloc_trim(0) }
            }
          }, Thread("http-hang-ups") { [lot] in lot.runHangUpWatch() },
        ])
    } catch {
      close(socket)
      for worker in workers { worker.stop() }
      throw error
    }
  }

  /// Stops: takes no more connections, resumes parked requests with `.shutdown`, drops incomplete requests,
  /// lets running requests end for at most `seconds`, and does not wait for idle connections. Afterwards none
  /// of its threads runs any more.
  package func shutDown(withinSeconds seconds: Double) {
    let ending = life.withLock { life -> ServerThreads? in
      guard case .serving(let threads) = life else { return nil }
      life = .stopping(threads)
      return threads
    }
    guard let ending else { return }
    let deadline = Clock.system.monotonicNanoseconds() + UInt64(max(0, seconds) * 1e9)
    lot.beginEnd()
    ending.acceptor.end()
    ending.accepting.join()
    lot.stopParking()
    lot.stopReading()
    if !counters.waitUntilIdle(until: deadline) {
      Log.line(.warning, "requests_cut", ["count": .number(Int64(counters.running))])
    }
    lot.shutSockets()
    ending.awaitClosing()
    for worker in ending.workers { worker.stop() }
    lot.close()
    log?.end()
    for thread in ending.others { thread.join() }
    life.withLock { $0 = .stopped(port: ending.port) }
  }

  /// How many descriptors a server opens besides those of its connections.
  package static func descriptors(workers: Int, connections: Int) -> Int {
    let daemons = workers + connections / Daemon.mostConnections
    // For each worker an epoll and an eventfd. Besides them two epolls, three eventfds, and the listening
    // socket.
    return daemons * Daemon.descriptors + 2 * workers + 6
  }

  // MARK: - Counts

  /// The port it listens on, or did; 0 before the start.
  package var port: UInt16 { life.withLock { $0.port } }

  /// The threads that read requests and answer; empty before the start and after the end.
  var workers: [Worker] { life.withLock { $0.threads?.workers ?? [] } }

  /// Whether `shutDown` has begun.
  package var isStopping: Bool { lot.isEnding }

  /// Requests parked and connections open now.
  package var counts: (connections: Int, parked: Int) { lot.counts }

  /// Open connections for each activity. Takes time in proportion to the connections.
  package var connectionCounts: [ConnectionActivity: Int] { lot.connectionCounts }

  /// Bytes that event streams keep until their clients have taken them, and streams that were closed because
  /// there was no room for their next piece.
  package var streamCounts: (bytes: Int, refused: Int) { (streamMemory.bytes, streamMemory.refused) }
}
