import CLinux
import Glibc
import Platform

/// Waits on one thread for all connections of a load, and calls closures at their times.
final class EventLoop {
  private let queue = epoll_create1(Int32(EPOLL_CLOEXEC))
  private var connections: [Int32: HTTPConnection] = [:]
  /// The closures that `after` was given, in the order in which they are called.
  private var later: [(at: UInt64, body: () -> Void)] = []
  private static let eventsAtOnce = 512

  deinit { close(queue) }

  /// Nanoseconds since some fixed moment.
  var now: UInt64 { Clock.system.monotonicNanoseconds() }

  /// Watches a connection's socket, or watches it for other events.
  func watch(_ connection: HTTPConnection, _ socket: Int32, isWriting: Bool) {
    let isKnown = connections.updateValue(connection, forKey: socket) != nil
    var event = epoll_event(
      events: EPOLLIN.rawValue | (isWriting ? EPOLLOUT.rawValue : 0), data: epoll_data_t(fd: socket))
    epoll_ctl(queue, isKnown ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, socket, &event)
  }

  /// Forgets a socket that is about to be closed.
  func forget(_ socket: Int32) { connections[socket] = nil }

  /// Calls `body` after so many milliseconds.
  func after(milliseconds: Int, _ body: @escaping () -> Void) {
    let at = now + UInt64(milliseconds) * 1_000_000
    let index = later.firstIndex { $0.at > at } ?? later.endIndex
    later.insert((at, body), at: index)
  }

  /// Handles connections and calls closures until that moment. `every`: called after each wait; it returns
  /// the latest moment at which it is called again. Nil: the run ends now.
  func run(until end: UInt64, every: () -> UInt64? = { .max }) {
    withUnsafeTemporaryAllocation(of: epoll_event.self, capacity: EventLoop.eventsAtOnce) { events in
      repeat {
        while let first = later.first, first.at <= now {
          later.removeFirst()
          first.body()
        }
        guard let asked = every() else { return }
        let next = min(asked, end, later.first?.at ?? .max)
        let start = now
        // Rounded up: a wait that ends too early would be repeated at once.
        let wait = next > start ? (next - start + 999_999) / 1_000_000 : 0
        let count = epoll_wait(
          queue, events.baseAddress!, Int32(EventLoop.eventsAtOnce), Int32(clamping: wait))
        for index in 0..<max(0, Int(count)) {
          connections[events[index].data.fd]?.isReady(events[index].events)
        }
      } while now < end
    }
  }
}
