import Glibc
import Platform

/// What runs while a server answers requests.
struct ServerThreads: Sendable {
  /// The port it listens on.
  let port: UInt16
  let workers: [Worker]
  let acceptor: Acceptor
  /// The thread of `acceptor`.
  let accepting: Thread
  /// Those that watch deadlines and clients that leave.
  let others: [Thread]

  /// Waits until the workers have closed every connection, for a second at most: version 0.9.75 crashes when
  /// it is stopped just while it refuses a request, because it takes a response as queued that is not.
  func awaitClosing() {
    let end = Clock.system.monotonicNanoseconds() + 1_000_000_000
    while workers.contains(where: { $0.connections > 0 }), Clock.system.monotonicNanoseconds() < end {
      // The workers close at once; nothing but their counts tells of it.
      usleep(500)
    }
  }
}
