/// Some kept connections to one server. A request that finds none free waits for the next free one.
final class ConnectionPool {
  private let host: Host
  private var free: [HTTPConnection]
  private var waiting: [(request: [UInt8], finish: HTTPConnection.Finish)] = []
  private var next = 0

  init(to host: Host, _ loop: EventLoop, connections: Int) {
    self.host = host
    free = (0..<connections).map { _ in HTTPConnection(to: host, loop) }
  }

  /// Sends a request over the next free connection.
  func send(_ request: Request, _ finish: @escaping HTTPConnection.Finish) {
    let bytes = request.bytes(for: host)
    guard let connection = free.popLast() else { return waiting.append((bytes, finish)) }
    send(bytes, over: connection, finish)
  }

  private func send(
    _ bytes: [UInt8], over connection: HTTPConnection, _ finish: @escaping HTTPConnection.Finish
  ) {
    connection.send(bytes) { [self] status, body in
      finish(status, body)
      guard next < waiting.count else {
        waiting = []
        next = 0
        return free.append(connection)
      }
      let following = waiting[next]
      next += 1
      send(following.request, over: connection, following.finish)
    }
  }
}
