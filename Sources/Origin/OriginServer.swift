import Glibc
import MicroHTTP
import Platform

/// The stand-in upstream: a small chat server of its own.
///
/// An operation runs alone in one transaction; its answer leaves after the commit is on disk. Faults come
/// before the work (dark, refusal, status), after it (lost replies, cut pages) or around its webhooks.
package final class OriginServer: Sendable {
  /// The server's settings.
  package struct Configuration: Sendable {
    /// The address to listen on; port 0 picks a free port.
    package var listen = ListenAddress(host: "127.0.0.1", port: 0)
    /// The directory of the database and the uploads, or `:memory:`.
    package var dataPath = ":memory:"
    /// The token that clients must send in the header `Api-Token`.
    package var token = "origin"
    /// The url that webhooks are sent to; nil: none are sent.
    package var webhookURL: String?
    /// The key that signs webhooks; nil: the token.
    package var webhookSecret: String?
    /// The data that an empty database is filled with.
    package var seed = Seed.none
    /// The clock from which all of the server's timestamps come.
    package var clock = Clock.system

    /// Everything at its default: memory only, no seed, a free port.
    package init() {}
  }

  /// Receives the files of a form.
  func files(of request: Request) -> FormFiles {
    let cut = desk.isCutOff ? nil : desk.take([.cutUpload], path: request.path, method: request.method)
    return FormFiles(in: directory?.path ?? "/tmp", of: request, cutAfter: cut?.bytes)
  }

  /// An uploaded file, as the stand-in serves it; nil: there is no such file.
  package func file(_ name: String) throws -> Response? {
    try Uploads.find(name, store).map(Uploads.whole)
  }

  /// The number of worker threads, and of snapshots that can be read at once.
  private static let workers = 4

  let configuration: Configuration
  private let directory: OriginDirectory?
  let store: Store
  let desk: FaultDesk
  let webhooks = Guarded<Webhooks?>(nil)
  let lateWork = LateWork()
  let fileCounts = FileCounts()
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

  /// Sends webhooks to this url from now on, signed with the secret or, without one, with the token.
  package func sendWebhooks(to url: String) {
    let made = Webhooks(url: url, secret: configuration.webhookSecret ?? configuration.token)
    let old = webhooks.withLock { webhooks in
      defer { webhooks = made }
      return webhooks
    }
    old?.stop()
  }

  /// Starts to serve. Returns the port.
  @discardableResult
  package func start() throws -> UInt16 {
    try server.start(OriginRoutes.all(self))
    return server.port
  }

  /// The port it listens on; known once started.
  package var port: UInt16 { server.port }

  /// Simulates a lost network: every request's connection is cut, and no webhook is sent.
  package var isCutOff: Bool {
    get { desk.isCutOff }
    set { desk.isCutOff = newValue }
  }

  /// Replaces all faults. If a fault makes answers come from the past, old states are kept from now on.
  func setFaults(_ value: Value) throws {
    try desk.set(value)
    store.keepPast(milliseconds: desk.reachBack)
  }

  /// Takes all faults away.
  func clearFaults() {
    desk.clear()
    store.keepPast(milliseconds: 0)
  }

  /// Stops the server and its threads.
  package func stop() {
    chatter.withLock { $0 }?.stop()
    lateWork.stop()
    server.shutDown(withinSeconds: 2)
    webhooks.withLock { $0 }?.stop()
  }

  /// Lets the seeded users act `perSecond` times a second until the server stops.
  package func startChatter(perSecond: Int) {
    chatter.withLock { $0 = Chatter(self, perSecond: perSecond) }
  }

  /// The url of this server: its configured host and its port.
  package var base: String {
    "http://" + ListenAddress(host: configuration.listen.host, port: port).description
  }
}
