import CMicroHTTPD
import Glibc
import Synchronization

/// The wait of a worker's thread for its daemons' events and for news from other threads.
///
/// The daemons' epoll descriptors are among the descriptors here.
final class WorkerWait: Sendable {
  private let queue: Int32
  private let news: Int32
  /// Stands for `news`; the daemons have the numbers from 0.
  private static let newsNumber = -1
  /// The most descriptors that one wait finds. Those that it leaves are found by the next.
  private static let foundAtOnce = 32
  private let hasNewsNow = Atomic<Bool>(false)

  init() throws(ServerError) {
    queue = epoll_create1(Int32(EPOLL_CLOEXEC))
    news = eventfd(0, Int32(EFD_CLOEXEC) | Int32(EFD_NONBLOCK))
    // Edge-triggered: each write is an event of its own, so no thread has to read the counter.
    guard queue >= 0, news >= 0, watch(news, EPOLLET.rawValue, number: WorkerWait.newsNumber) else {
      throw ServerError(detail: "no descriptors left for the workers")
    }
  }

  deinit {
    close(queue)
    close(news)
  }

  /// Adds a daemon's descriptor: the wait ends while it is readable. False: the kernel refused.
  func watch(_ descriptor: Int32, number: Int) -> Bool { watch(descriptor, 0, number: number) }

  private func watch(_ descriptor: Int32, _ flags: UInt32, number: Int) -> Bool {
    let data = epoll_data_t(u64: UInt64(bitPattern: Int64(number)))
    var event = epoll_event(events: EPOLLIN.rawValue | flags, data: data)
    return epoll_ctl(queue, EPOLL_CTL_ADD, descriptor, &event) == 0
  }

  /// Waits until a descriptor is ready, at most `milliseconds`; nil: without a limit. Calls `found` with the
  /// number of each daemon whose descriptor is ready.
  func forEvents(atMost milliseconds: UInt64?, found: (Int) -> Void) {
    withUnsafeTemporaryAllocation(of: epoll_event.self, capacity: WorkerWait.foundAtOnce) { events in
      let count = epoll_wait(
        queue, events.baseAddress, Int32(events.count), milliseconds.map { Int32(clamping: $0) } ?? -1)
      for event in events.prefix(max(0, Int(count))) {
        let number = Int(Int64(bitPattern: event.data.u64))
        if number != WorkerWait.newsNumber { found(number) }
      }
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
