/// Where a server is in its life. It goes through these in their order.
enum ServerLife {
  /// It does not listen yet.
  case made
  /// It answers requests.
  case serving(ServerThreads)
  /// It takes no more connections and lets requests end.
  case stopping(ServerThreads)
  /// Nothing of it runs any more.
  case stopped(port: UInt16)

  /// What runs now.
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
