import CMicroHTTPD
import Glibc
import Platform
import Synchronization

/// One thread that reads requests and answers, and the connections it has.
///
/// The thread waits by itself, for libmicrohttpd's events and for news from other threads (`WorkerWait`), and
/// then runs the daemons that have something to do. The library's own threads are not used: version 0.9.75
/// fetches 128 events at a time, and after exactly 128 it waits for more events before it serves them.
final class Worker: @unchecked Sendable {  // because all but atomics is used before, on and after its thread
  unowned(unsafe) let server: Server  // it stops its workers before it ends
  let recent = RecentAnswers()
  private var daemons: [Daemon] = []
  /// The daemon whose woken requests went on last.
  private var lastTurn = 0
  private var certificate: CertificateTexts?
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
    self.certificate = certificate
    guard addDaemon() != nil else {
      throw ServerError(detail: "libmicrohttpd did not start; are certificate and key a pair?")
    }
    thread.start("http-worker") { [self] in run() }
  }

  /// Ends the thread, and every connection that is still open.
  func stop() {
    isEnding.store(true, ordering: .sequentiallyConsistent)
    wait.wake()
    thread.join()
    for new in inbox.withLock({ $0 }) { close(new.socket) }
    for daemon in daemons { daemon.stop() }
  }

  private func run() {
    var yields = YieldRule()
    while !isEnding.load(ordering: .sequentiallyConsistent) {
      if wait.hasNews() {
        takeConnections()
        for daemon in daemons { daemon.takeResumed() }
      }
      let before = completedRequests
      for daemon in daemons where daemon.isReady { daemon.run() }
      var mayWait = !letSomeGoOn()
      if completedRequests != before {
        server.answered.wrappingAdd(completedRequests - before, ordering: .relaxed)
        if mayWait { mayWait = !letOthersRun(&yields) }
      }
      findReady(mayWait: mayWait)
    }
  }

  /// Lets some of the requests go on that a change woke together, of one daemon after the other. Then the
  /// worker looks for other requests (decision 0061). True if more are to go on.
  private func letSomeGoOn() -> Bool {
    guard daemons.contains(where: \.hasWoken) else { return false }
    var left = server.configuration.wokenAtOnce
    for _ in daemons where left > 0 {
      lastTurn = (lastTurn + 1) % daemons.count
      left -= daemons[lastTurn].letSomeGoOn(atMost: left)
    }
    return daemons.contains(where: \.hasWoken)
  }

  /// Finds the daemons that have something to do, and waits for one if `mayWait`.
  private func findReady(mayWait: Bool) {
    let now = Daemon.now()
    var milliseconds: UInt64? = mayWait ? nil : 0
    for daemon in daemons {
      guard let deadline = daemon.deadline else { continue }
      if deadline <= now { daemon.isReady = true }
      milliseconds = min(milliseconds ?? .max, deadline > now ? deadline - now : 0)
    }
    // A lone daemon needs no question here: when it runs, it asks the kernel for its events.
    if milliseconds == 0, daemons.count == 1 {
      daemons[0].isReady = true
    } else {
      wait.forEvents(atMost: milliseconds) { daemons[$0].isReady = true }
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
    for connection in new {
      daemonForNext()?.take(connection)
    }
  }

  /// The first daemon that has room, so that few connections are all at one. If all are full, a new one; if
  /// that cannot be had, the one with the fewest.
  private func daemonForNext() -> Daemon? {
    daemons.first { $0.connections < Daemon.mostConnections } ?? addDaemon()
      ?? daemons.min { $0.connections < $1.connections }
  }

  private func addDaemon() -> Daemon? {
    guard let daemon = Daemon(self, certificate) else { return nil }
    guard wait.watch(daemon.descriptor, number: daemons.count) else {
      daemon.stop()
      return nil
    }
    daemons.append(daemon)
    return daemon
  }

  /// Connections given and not closed yet.
  var connections: Int { count.load(ordering: .sequentiallyConsistent) }

  /// Hands a connection to the thread.
  func give(_ connection: NewConnection) {
    count.wrappingAdd(1, ordering: .sequentiallyConsistent)
    inbox.withLock { $0.append(connection) }
    wait.tellNews()
  }

  /// A parked connection of a daemon was resumed.
  func noteResumed() { wait.tellNews() }

  /// A connection was closed.
  func noteClosed() {
    count.wrappingSubtract(1, ordering: .sequentiallyConsistent)
    signal.noteClosed()
  }
}
