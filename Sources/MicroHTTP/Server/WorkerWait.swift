import CMicroHTTPD
import Glibc
import Synchronization

/// The wait of a worker's thread for its daemon's events and for news from other threads.
///
/// The daemon's epoll descriptor is one of the descriptors here. That descriptor also becomes ready for
/// resumed connections.
final class WorkerWait: Sendable {
  private let queue: Int32
  private let news: Int32
  private let hasNewsNow = Atomic<Bool>(false)

  init() throws(ServerError) {
    queue = epoll_create1(Int32(EPOLL_CLOEXEC))
    news = eventfd(0, Int32(EFD_CLOEXEC) | Int32(EFD_NONBLOCK))
    guard queue >= 0, news >= 0 else { throw ServerError(detail: "no descriptors left for the workers") }
    // Edge-triggered: each write is an event of its own, so no thread has to read the counter.
    watch(news, EPOLLET.rawValue)
  }

  deinit {
    close(queue)
    close(news)
  }

  /// Adds a descriptor: the wait ends while it is readable.
  func watch(_ descriptor: Int32, _ flags: UInt32 = 0) {
    var event = epoll_event(events: EPOLLIN.rawValue | flags, data: epoll_data_t(fd: descriptor))
    epoll_ctl(queue, EPOLL_CTL_ADD, descriptor, &event)
  }

  /// Waits until a descriptor is ready, at most `milliseconds`; nil: without a limit.
  func forEvents(atMost milliseconds: UInt64?) {
    if milliseconds == 0 { return }
    var events = (epoll_event(), epoll_event())
    withUnsafeMutableBytes(of: &events) {
      _ = epoll_wait(
        queue, $0.assumingMemoryBound(to: epoll_event.self).baseAddress, 2,
        milliseconds.map { Int32(clamping: $0) } ?? -1)
    }
  }

  /// Tells the thread that it has something to take, and wakes it unless it was told already.
  func tellNews() {
    if !hasNewsNow.exchange(true, ordering: .sequentiallyConsistent) { wake() }
  }

  /// Whether there was news since the last call.
  func hasNews() -> Bool {
    hasNewsNow.load(ordering: .relaxed) && hasNewsNow.exchange(false, ordering: .sequentiallyConsistent)
  }

  /// Ends the thread's present wait, or its next one.
  func wake() {
    var one: UInt64 = 1
    write(news, &one, 8)
  }
}
