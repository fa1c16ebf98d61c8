import MicroHTTP
import Platform

@testable import Origin

/// A server that receives webhooks and keeps them.
final class WebhookReceiver {
  struct Delivery {
    let body: String
    let signature: String
    var category: String { Value(stored: body)["category"]?.string ?? "" }
    var text: String { Value(stored: body)["payload"]?["message"]?.string ?? "" }
  }

  private struct State {
    var deliveries: [Delivery] = []
    /// How many of the next webhooks are answered with 500.
    var failures = 0
  }

  private let state: Watched<State>
  private let server: Server
  let url: String

  /// Answers the first `failures` deliveries with 500, and all that contain `refused`.
  init(failures: Int = 0, refused: String? = nil) throws {
    let state = Watched(State(failures: failures))
    self.state = state
    server = try Server(MicroHTTP.Configuration(listen: ListenAddress(host: "127.0.0.1", port: 0)))
    let route = Route(.post, "/hook", operation: "hook", body: .collected(limit: 1 << 20)) { request in
      let delivery = Delivery(
        body: String(decoding: request.body, as: UTF8.self),
        signature: request.headerText("x-sendbird-signature") ?? "")
      let isFailure = state.update { state in
        state.deliveries.append(delivery)
        state.failures -= 1
        return state.failures >= 0 || refused.map(delivery.body.contains) ?? false
      }
      return .respond(Response.text("", status: isFailure ? 500 : 200))
    }
    try server.start([route])
    url = "http://127.0.0.1:\(server.port)/hook"
  }

  deinit { server.shutDown(withinSeconds: 1) }

  /// The webhooks so far, once there are `count`; fewer after `seconds`.
  func deliveries(_ count: Int, seconds: UInt64 = 10) -> [Delivery] {
    let deadline = Clock.system.monotonicNanoseconds() + seconds * 1_000_000_000
    _ = state.wait(until: deadline) { $0.deliveries.count >= count ? true : nil }
    return state.read { $0.deliveries }
  }
}
