import Glibc
import Platform

/// The port and the threads of a running server.
struct ServerThreads: Sendable {
  /// The port it listens on.
  let port: UInt16
  let workers: [Worker]
  let acceptor: Acceptor
  /// The thread of `acceptor`.
  let accepting: Thread
  /// The threads that watch deadlines and clients that leave.
  let others: [Thread]

  /// Waits at most a second until the workers have closed every connection. libmicrohttpd 0.9.75 crashes if
  /// it is stopped while it refuses a request, because it then treats a response as queued that is not.
  func awaitClosing() {
    let end = Clock.system.monotonicNanoseconds() + 1_000_000_000
    while workers.contains(where: { $0.connections > 0 }), Clock.system.monotonicNanoseconds() < end {
      // The workers close connections at once. Only their counts show when they are done.
      usleep(500)
    }
  }
}
