import ChatAPI
import MicroHTTP
import Platform

/// The service's HTTP servers: one for clients, and with `--admin-listen` a second one for operators.
struct Listeners {
  /// The clients' server.
  let main: Server
  /// The operators' server; nil where `main` has everything.
  private let admin: Server?
  private let scheme: String
  private let host: String
  private let adminHost: String

  /// The most connections to the operators' server, if there are enough file descriptors.
  static let adminConnections = 64
  /// The worker threads of the operators' server.
  private static let adminWorkers = 1

  /// Two servers with `configuration`, which do not listen yet. The second has `adminConnections` at once.
  init(
    _ configuration: Configuration, admin address: ListenAddress?, adminConnections: Int
  ) throws(ServerError) {
    main = try Server(configuration)
    scheme = configuration.tls == nil ? "http" : "https"
    host = configuration.listen.host
    adminHost = address?.host ?? ""
    guard let address else {
      admin = nil
      return
    }
    var configuration = configuration
    configuration.listen = address
    configuration.limits.connections = adminConnections
    configuration.workers = Listeners.adminWorkers
    admin = try Server(configuration)
  }

  /// The url of the clients' server.
  var url: String { url(main, host) }

  /// The lines on stdout once both servers listen.
  var lines: String {
    let second = admin.map { "admin listening on \(url($0, adminHost))\n" } ?? ""
    return "listening on \(url)\n" + second
  }

  private func url(_ server: Server, _ host: String) -> String {
    "\(scheme)://\(ListenAddress(host: host, port: server.port).description)"
  }

  /// Listens on both addresses, or on none.
  func start(_ routes: [Route], otherwise: Problem) throws(ServerError) {
    try main.start(routes, otherwise: otherwise)
    do throws(ServerError) { try admin?.start(routes, otherwise: otherwise) } catch {
      main.shutDown(withinSeconds: 0)
      throw error
    }
  }

  /// Serves each operation of the contract on its server. `guarded` may change every route first.
  func serve(_ parts: RouteParts, and demoRoutes: [Route], guarded: ([Route]) -> [Route]) {
    guard let admin else {
      main.serve(guarded(Routes.all(parts) + demoRoutes))
      return
    }
    main.serve(guarded(Routes.all(parts, for: .clients) + demoRoutes), otherwise: Routes.notForClients)
    admin.serve(guarded(Routes.all(parts, for: .operators)))
  }

  /// Stops both servers within `seconds` altogether. The clients' server stops first, while `/readyz` still
  /// answers operators.
  func shutDown(withinSeconds seconds: Double) {
    let start = Clock.system.monotonicNanoseconds()
    main.shutDown(withinSeconds: seconds)
    let used = Double(Clock.system.monotonicNanoseconds() - start) / 1e9
    admin?.shutDown(withinSeconds: seconds - used)
  }
}
