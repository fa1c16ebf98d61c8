import MicroHTTP
import Platform

/// Answers from a recording alone (`Replay`). A request that is not in it gets 599, and is remembered.
package final class ReplayServer: Sendable {
  private let server: Server
  private let replay: Guarded<Replay>
  private let isTimed: Bool

  /// Replays the file at `path`; `isTimed`: each answer takes as long as the recorded one.
  package convenience init(path: String, listen: ListenAddress, isTimed: Bool = false) throws {
    try self.init(Recording(path: path), listen: listen, isTimed: isTimed)
  }

  init(
    _ recording: Recording, listen: ListenAddress = ListenAddress(host: "127.0.0.1", port: 0),
    isTimed: Bool = false
  ) throws {
    replay = Guarded(Replay(recording))
    self.isTimed = isTimed
    server = try Server(MicroHTTP.Configuration(listen: listen))
  }

  /// The port it listens on; known once started.
  package var port: UInt16 { server.port }

  /// Starts to serve. Returns the port.
  @discardableResult
  package func start() throws -> UInt16 {
    try server.start(AnyPath.routes { [unowned self] request, path in self.answer(request, path) })
    return server.port
  }

  /// Stops the server.
  package func stop() { server.shutDown(withinSeconds: 2) }

  /// Requests that were not in the recording.
  package var unknown: [String] { replay.withLock { $0.unknown } }

  /// Requests that may change something, were recorded, and did not come.
  package var unsent: [String] { replay.withLock { $0.unsent } }

  private func answer(_ request: Request, _ path: [String]) -> Outcome {
    let asked = AnyPath.exchange(request, path)
    let found = replay.withLock { $0.answer(asked) }
    guard let found else {
      Log.line(.warning, "not_recorded", ["request": .text(asked.asked)])
      return .respond(.text("This is not in the recording: \(asked.asked)\n", status: 599))
    }
    guard isTimed, found.milliseconds > 0 else { return .respond(AnyPath.response(found)) }
    return .park(
      Parking(request.makeWaiter(), milliseconds: Int(found.milliseconds)) { _ in
        .respond(AnyPath.response(found))
      })
  }
}
