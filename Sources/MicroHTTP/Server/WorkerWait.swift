import CMicroHTTPD
import Glibc
import Synchronization

/// What a worker's thread waits for: its daemon's events, and news from other threads.
///
/// The daemon's epoll is one descriptor here. Resumed connections are among its events.
final class WorkerWait: Sendable {
  private let queue: Int32
  private let news: Int32
  private let hasNewsNow = Atomic<Bool>(false)

  init() throws(ServerError) {
    queue = epoll_create1(Int32(EPOLL_CLOEXEC))
    news = eventfd(0, Int32(EFD_CLOEXEC) | Int32(EFD_NONBLOCK))
    guard queue >= 0, news >= 0 else { throw ServerError(detail: "no descriptors left for the workers") }
    // Each write is an event of its own, so that nobody has to read what was written.
    watch(news, EPOLLET.rawValue)
  }

  deinit {
    close(queue)
    close(news)
  }

  /// Waits for that descriptor too, as long as it is readable.
  func watch(_ descriptor: Int32, _ flags: UInt32 = 0) {
    var event = epoll_event(events: EPOLLIN.rawValue | flags, data: epoll_data_t(fd: descriptor))
    epoll_ctl(queue, EPOLL_CTL_ADD, descriptor, &event)
  }

  /// Waits until something is ready, for so many milliseconds at most.
  func forEvents(atMost milliseconds: UInt64?) {
    if milliseconds == 0 { return }
    var events = (epoll_event(), epoll_event())
    withUnsafeMutableBytes(of: &events) {
      _ = epoll_wait(
        queue, $0.assumingMemoryBound(to: epoll_event.self).baseAddress, 2,
        milliseconds.map { Int32(clamping: $0) } ?? -1)
    }
  }

  /// The thread has something to take, and wakes if it was not told so already.
  func tellNews() {
    if !hasNewsNow.exchange(true, ordering: .sequentiallyConsistent) { wake() }
  }

  /// Whether there was news since this was asked last.
  func hasNews() -> Bool {
    hasNewsNow.load(ordering: .relaxed) && hasNewsNow.exchange(false, ordering: .sequentiallyConsistent)
  }

  /// The thread wakes, or does not fall asleep the next time.
  func wake() {
    var one: UInt64 = 1
    write(news, &one, 8)
  }
}
