/// The phases of a server's life. A server goes through them in this order.
enum ServerLife {
  /// It does not listen yet.
  case made
  /// It answers requests.
  case serving(ServerThreads)
  /// It takes no more connections and lets requests end.
  case stopping(ServerThreads)
  /// Nothing of it runs any more.
  case stopped(port: UInt16)

  /// The threads that run now; nil if none do.
  var threads: ServerThreads? {
    switch self {
    case .made, .stopped: nil
    case .serving(let threads), .stopping(let threads): threads
    }
  }

  /// The port it listens on, or did; 0 before the start.
  var port: UInt16 {
    switch self {
    case .made: 0
    case .serving(let threads), .stopping(let threads): threads.port
    case .stopped(let port): port
    }
  }
}
