import Glibc

/// The signals that end the service, taken by one thread that waits for them.
enum Signals {
  private static func set() -> sigset_t {
    var set = sigset_t()
    sigemptyset(&set)
    sigaddset(&set, SIGTERM)
    sigaddset(&set, SIGINT)
    return set
  }

  /// Blocks them for this thread and all that it starts. Before any thread.
  static func block() {
    var set = set()
    pthread_sigmask(SIG_BLOCK, &set, nil)
  }

  /// Waits for one of them, at most so long; false: none came.
  static func arrives(withinMilliseconds milliseconds: Int) -> Bool {
    var set = set()
    var time = timespec(tv_sec: milliseconds / 1000, tv_nsec: milliseconds % 1000 * 1_000_000)
    return sigtimedwait(&set, nil, &time) > 0
  }

  /// Waits for one of them.
  static func wait() -> Int32 {
    var set = set()
    var signal: Int32 = 0
    while sigwait(&set, &signal) != 0 {}
    return signal
  }
}
