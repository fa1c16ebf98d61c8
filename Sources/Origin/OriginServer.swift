import Glibc
import MicroHTTP
import Platform

/// The stand-in upstream: a small chat server of its own.
///
/// An operation runs alone in one transaction; its answer leaves after the commit is on disk. Faults come
/// before the work (dark, refusal, status), after it (lost replies, cut pages) or around its webhooks.
package final class OriginServer: Sendable {
  /// What it is made of.
  package struct Configuration: Sendable {
    /// Where it listens; port 0 picks a free one.
    package var listen = ListenAddress(host: "127.0.0.1", port: 0)
    /// The directory of the database and the uploads, or `:memory:`.
    package var dataPath = ":memory:"
    /// What clients send as `Api-Token`.
    package var token = "origin"
    /// Where webhooks go; nil sends none.
    package var webhookURL: String?
    /// The key of the webhooks' signature; the token where nil.
    package var webhookSecret: String?
    /// What an empty database is filled with.
    package var seed = Seed.none
    /// Time; whatever the server stamps is stamped by it.
    package var clock = Clock.system

    /// Everything at its default: memory only, no seed, a free port.
    package init() {}
  }

  /// Takes the files of a form.
  func files(of request: Request) -> FormFiles {
    let cut = desk.isCutOff ? nil : desk.take([.cutUpload], path: request.path, method: request.method)
    return FormFiles(in: directory?.path ?? "/tmp", of: request, cutAfter: cut?.bytes)
  }

  /// Threads that answer; as many snapshots can be read at once.
  private static let workers = 4

  let configuration: Configuration
  private let directory: OriginDirectory?
  let store: Store
  let desk: FaultDesk
  let webhooks = Guarded<Webhooks?>(nil)
  let lateWork = LateWork()
  private let server: Server
  private let chatter = Guarded<Chatter?>(nil)

  /// Opens the database and fills it if it is empty.
  package init(_ configuration: Configuration) throws {
    self.configuration = configuration
    desk = FaultDesk(clock: configuration.clock)
    directory =
      configuration.dataPath == ":memory:" ? nil : try OriginDirectory(configuration.dataPath)
    store = try Store(
      path: directory.map { $0.path + "/origin.db" } ?? ":memory:", clock: configuration.clock,
      readerCount: OriginServer.workers)
    var http = MicroHTTP.Configuration(listen: configuration.listen)
    http.workers = OriginServer.workers
    http.uploadDirectory = directory?.path ?? "/tmp"
    http.renderProblem = { problem, _ in Refusal(problem).response }
    server = try Server(http)
    try configuration.seed.fill(store)
    if let url = configuration.webhookURL { sendWebhooks(to: url) }
  }

  /// Sends webhooks there from now on, signed with the secret, or the token where there is none.
  package func sendWebhooks(to url: String) {
    let made = Webhooks(url: url, secret: configuration.webhookSecret ?? configuration.token)
    let old = webhooks.withLock { webhooks in
      defer { webhooks = made }
      return webhooks
    }
    old?.stop()
  }

  /// Serves; the port it got.
  @discardableResult
  package func start() throws -> UInt16 {
    try server.start(OriginRoutes.all(self))
    return server.port
  }

  /// The port it listens on; known once started.
  package var port: UInt16 { server.port }

  /// Whether the network to it is gone: every request finds its connection cut, no webhook leaves.
  package var isCutOff: Bool {
    get { desk.isCutOff }
    set { desk.isCutOff = newValue }
  }

  /// Replaces all faults; where answers are to come from the past, the past is kept from now on.
  func setFaults(_ value: Value) throws {
    try desk.set(value)
    store.keepPast(milliseconds: desk.reachBack)
  }

  /// Takes all faults away.
  func clearFaults() {
    desk.clear()
    store.keepPast(milliseconds: 0)
  }

  /// Ends everything that it started.
  package func stop() {
    chatter.withLock { $0 }?.stop()
    lateWork.stop()
    server.shutDown(withinSeconds: 2)
    webhooks.withLock { $0 }?.stop()
  }

  /// Lets the seeded users talk, so many things a second, until it stops.
  package func startChatter(perSecond: Int) {
    chatter.withLock { $0 = Chatter(self, perSecond: perSecond) }
  }

  /// This server as its configuration names it.
  package var base: String {
    "http://" + ListenAddress(host: configuration.listen.host, port: port).description
  }
}
