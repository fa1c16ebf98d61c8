import Glibc

/// The signals that end a server, received by the thread that waits for them.
struct EndSignal {
  private let signals: sigset_t

  /// Blocks them for this thread and the threads that it starts. Call it before any thread starts.
  init() {
    var signals = sigset_t()
    sigemptyset(&signals)
    sigaddset(&signals, SIGTERM)
    sigaddset(&signals, SIGINT)
    pthread_sigmask(SIG_BLOCK, &signals, nil)
    self.signals = signals
  }

  /// Waits for one of them.
  func wait() {
    var signals = signals
    var signal: Int32 = 0
    sigwait(&signals, &signal)
  }
}
