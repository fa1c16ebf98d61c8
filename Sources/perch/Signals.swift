import Glibc

/// The signals that the service obeys, taken by one thread that waits for them.
enum Signals {
  private static func set(_ signals: [Int32]) -> sigset_t {
    var set = sigset_t()
    sigemptyset(&set)
    for signal in signals { sigaddset(&set, signal) }
    return set
  }

  /// Blocks the signals for this thread and all that it starts; called before any thread starts. Ignores
  /// SIGXFSZ: a write over the limit of file sizes then fails as on a full disk (B60), and does not end the
  /// process.
  static func block() {
    signal(SIGXFSZ, SIG_IGN)
    var set = set([SIGTERM, SIGINT, SIGHUP])
    pthread_sigmask(SIG_BLOCK, &set, nil)
  }

  /// Waits for SIGTERM or SIGINT, at most so long; false: none came.
  static func arrives(withinMilliseconds milliseconds: Int) -> Bool {
    var set = set([SIGTERM, SIGINT])
    var time = timespec(tv_sec: milliseconds / 1000, tv_nsec: milliseconds % 1000 * 1_000_000)
    return sigtimedwait(&set, nil, &time) > 0
  }

  /// Waits for a signal that ends the service. SIGHUP reads secrets and the cache's limit again (B55, B61).
  static func wait(rereading reread: () -> Void = {}) -> Int32 {
    var set = set([SIGTERM, SIGINT, SIGHUP])
    while true {
      var signal: Int32 = 0
      guard sigwait(&set, &signal) == 0 else { continue }
      guard signal == SIGHUP else { return signal }
      reread()
    }
  }
}
