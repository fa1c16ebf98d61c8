import CMicroHTTPD
import Glibc

/// An epoll instance of our own over parked sockets: libmicrohttpd does not look at a suspended connection,
/// so it would never notice that the client left.
///
/// Each socket is armed for one notice (`EPOLLONESHOT`) when it is accepted, and again when it parks after
/// that notice. A notice for a connection that is not parked only marks the connection as left. The
/// generation tells whether the descriptor was reused since.
final class HangUpWatch: Sendable {
  private let queue: Int32
  private let stopper: Int32
  private static let stopMark = UInt64.max

  init() throws(ServerError) {
    queue = epoll_create1(Int32(EPOLL_CLOEXEC))
    stopper = eventfd(0, Int32(EFD_CLOEXEC))
    guard queue >= 0, stopper >= 0 else {
      throw ServerError(detail: "no descriptors left for watching connections")
    }
    var event = epoll_event(events: EPOLLIN.rawValue, data: epoll_data_t(u64: HangUpWatch.stopMark))
    epoll_ctl(queue, EPOLL_CTL_ADD, stopper, &event)
  }

  deinit {
    close(queue)
    close(stopper)
  }

  /// Makes sure that the client's leaving is noticed. Called under the lot's lock.
  func arm(_ client: ClientConnection) {
    guard !client.isArmed else { return }
    let mark = UInt64(client.generation) << 32 | UInt64(UInt32(bitPattern: client.socket))
    var event = epoll_event(
      events: EPOLLRDHUP.rawValue | EPOLLONESHOT.rawValue, data: epoll_data_t(u64: mark))
    epoll_ctl(queue, client.isWatched ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, client.socket, &event)
    client.isWatched = true
    client.isArmed = true
  }

  /// Calls `notice` for each client that left, until `stop`.
  func run(_ notice: (_ socket: Int32, _ generation: UInt32) -> Void) {
    withUnsafeTemporaryAllocation(of: epoll_event.self, capacity: 256) { events in
      while true {
        let count = epoll_wait(queue, events.baseAddress!, 256, -1)
        for index in 0..<max(0, Int(count)) {
          let mark = events[index].data.u64
          if mark == HangUpWatch.stopMark { return }
          notice(Int32(truncatingIfNeeded: mark), UInt32(truncatingIfNeeded: mark >> 32))
        }
      }
    }
  }

  func stop() {
    var one: UInt64 = 1
    write(stopper, &one, 8)
  }
}
