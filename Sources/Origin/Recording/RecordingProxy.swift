import Glibc
import MicroHTTP
import Platform

/// A proxy between a client and a real server that records their requests and answers.
///
/// A request is forwarded with its own `Api-Token`, which is never written. When the server has answered, the
/// exchange becomes a line of the file, with all texts blanked (`Blanking`). A request that the server does
/// not answer gets a 504 and is not recorded. Webhooks do not pass through the proxy.
package final class RecordingProxy: Sendable {
  /// The proxy's settings.
  package struct Configuration: Sendable {
    /// The address to listen on; port 0 picks a free port.
    package var listen = ListenAddress(host: "127.0.0.1", port: 0)
    /// The real server, such as `https://api-APP.sendbird.com`.
    package var upstream: String
    /// The path of the file, which must not exist yet.
    package var path: String
    /// Whether ids of users and channels are kept as they are.
    package var keepsIDs = false
    /// The largest size of the file, in bytes.
    var mostBytes = Recording.mostBytes

    /// A recording of `upstream` into the file at `path`.
    package init(upstream: String, path: String) {
      self.upstream = upstream
      self.path = path
    }
  }

  /// The result of a recording.
  package struct Report: Sendable {
    /// The number of exchanges in the file.
    package var exchanges = 0
    /// The number of requests without an answer, or whose exchange did not fit into the file.
    package var lost = 0
    /// Why the file could not be written; nil: it was written.
    package var failure: String?
  }

  private struct State {
    var blanking: Blanking
    var bytes = 0
    /// Whether an exchange did not fit into the file. The recording ends before that exchange.
    var isFull = false
    var report = Report()
  }

  private static let answerLimit = 70_000
  private let configuration: Configuration
  private let file: Int32
  private let server: Server
  private let forwarder: Forwarder
  private let state: Guarded<State>

  /// Makes the file.
  package init(_ configuration: Configuration) throws {
    var configuration = configuration
    while configuration.upstream.hasSuffix("/") { configuration.upstream.removeLast() }
    if configuration.upstream.hasSuffix("/v3") { configuration.upstream.removeLast(3) }
    self.configuration = configuration
    file = open(configuration.path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0o600)
    guard file >= 0 else {
      throw OriginError(
        description: "cannot make \(configuration.path): \(String(cString: strerror(errno)))")
    }
    let blanking = Blanking(seed: .random(in: 0 ... .max), keepsIDs: configuration.keepsIDs)
    state = Guarded(State(blanking: blanking))
    server = try Server(MicroHTTP.Configuration(listen: configuration.listen))
    forwarder = Forwarder(base: configuration.upstream)
    write(Recording.head)
  }

  deinit { close(file) }

  /// The port it listens on; known once started.
  package var port: UInt16 { server.port }

  /// Starts to serve. Returns the port.
  @discardableResult
  package func start() throws -> UInt16 {
    try server.start(AnyPath.routes { [unowned self] request, path in self.forward(request, path) })
    return server.port
  }

  /// Stops the proxy and returns the result.
  package func stop() -> Report {
    forwarder.stop()
    server.shutDown(withinSeconds: 2)
    return state.withLock { $0.report }
  }

  private func forward(_ request: Request, _ path: [String]) -> Outcome {
    guard let token = request.headerText("Api-Token") else {
      return .respond(Refusal(400401, "The Api-Token is missing.").response)
    }
    let exchange = AnyPath.exchange(request, path)
    let query = String(decoding: request.encodedQuery, as: UTF8.self)
    let type = request.headerText("Content-Type").map { ["Content-Type: \($0)"] } ?? []
    let answer = Guarded<Forwarder.Answer?>(nil)
    let waiter = request.makeWaiter()
    let outgoing = Forwarder.Outgoing(
      method: exchange.method,
      target: "/" + path.map { PercentEncoding.encode($0) }.joined(separator: "/")
        + (query.isEmpty ? "" : "?" + query),
      headers: ["Api-Token: \(token)"] + type, body: Array(request.body)
    ) { [self] came in
      record(exchange, came)
      answer.withLock { $0 = came }
      waiter.wake()
    }
    guard forwarder.add(outgoing) else { return .respond(.empty(503)) }
    return .park(
      Parking(waiter, milliseconds: RecordingProxy.answerLimit) { _ in
        guard let came = answer.withLock({ $0 }) else { return .respond(.empty(504)) }
        return .respond(RecordingProxy.response(came))
      })
  }

  /// The server's answer, unchanged.
  private static func response(_ came: Forwarder.Answer) -> Response {
    var body = ByteBuffer(capacity: came.body.count + 1)
    came.body.withUnsafeBytes { body.append($0) }
    let isHTML = came.headers["content-type"]?.hasPrefix("text/html") ?? false
    var response = Response(
      status: came.status, type: isHTML ? "text/html" : "application/json", body: body)
    for (name, value) in came.headers where name != "content-type" { response.add(name, value) }
    return response
  }

  /// Records the exchange with blanked texts.
  private func record(_ exchange: Exchange, _ came: Forwarder.Answer?) {
    guard let came else {
      state.withLock { $0.report.lost += 1 }
      return
    }
    var exchange = exchange
    exchange.status = came.status
    exchange.headers = came.headers
    exchange.answer = came.body.withUnsafeBytes { Exchange.Content($0, type: came.headers["content-type"]) }
    exchange.milliseconds = came.milliseconds
    state.withLock { state in
      guard state.report.failure == nil, !state.isFull else {
        state.report.lost += 1
        return
      }
      let line = state.blanking.blanked(exchange).line
      guard state.bytes + line.utf8.count < configuration.mostBytes else {
        state.isFull = true
        state.report.lost += 1
        return
      }
      state.bytes += line.utf8.count + 1
      state.report.exchanges += 1
      if !write(line) { state.report.failure = String(cString: strerror(errno)) }
    }
  }

  @discardableResult
  private func write(_ line: String) -> Bool {
    var rest = Array((line + "\n").utf8)[...]
    while !rest.isEmpty {
      let count = rest.withUnsafeBytes { Glibc.write(file, $0.baseAddress, $0.count) }
      if count < 0, errno == EINTR { continue }
      guard count > 0 else { return false }
      rest = rest.dropFirst(count)
    }
    return true
  }
}
