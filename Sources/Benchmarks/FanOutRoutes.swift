import MicroHTTP
import Platform

/// `GET /sub/x` parks until `POST /pub/x`, whose body all parked requests get.
enum FanOutRoutes {
  private struct Board {
    var waiters: [Waiter] = []
    var latest: SharedResponse?
  }

  static func routes() -> [Route] {
    let board = Guarded(Board())
    return [
      Route(.get, "/sub/{name}", operation: "subscribe") { request in
        let waiter = request.makeWaiter()
        board.withLock { $0.waiters.append(waiter) }
        return .park(
          Parking(waiter, milliseconds: nil, .many) { reason in
            guard reason == .woken, let latest = board.withLock({ $0.latest }) else {
              return .respond(.empty(204))
            }
            return .respond(latest.response)
          })
      },
      Route(.post, "/pub/{name}", operation: "publish", body: .collected(limit: 65_536)) { request in
        var body = ByteBuffer(capacity: request.body.count)
        body.append(request.body)
        let shared = SharedResponse(body: body)
        let waiters = board.withLock { board in
          board.latest = shared
          defer { board.waiters = [] }
          return board.waiters
        }
        Waiter.wakeAll(waiters)
        return .respond(.empty(204))
      },
    ]
  }
}
