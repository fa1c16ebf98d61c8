import CMicroHTTPD
import Glibc
import Synchronization

/// Wakes the acceptor when a connection closes while it waits for room, and when accepting ends.
final class AcceptSignal: Sendable {
  /// Readable once the signal was given.
  let descriptor: Int32
  private let awaitsRoom = Atomic<Bool>(false)

  init() throws(ServerError) {
    descriptor = eventfd(0, Int32(EFD_CLOEXEC) | Int32(EFD_NONBLOCK))
    guard descriptor >= 0 else { throw ServerError(detail: "no descriptors left for accepting connections") }
  }

  deinit { close(descriptor) }

  /// A connection was closed.
  func noteClosed() { if awaitsRoom.load(ordering: .sequentiallyConsistent) { give() } }

  /// Sets whether a closed connection gives the signal. Returns the setting before.
  @discardableResult
  func awaitRoom(_ awaits: Bool) -> Bool { awaitsRoom.exchange(awaits, ordering: .sequentiallyConsistent) }

  func give() {
    var one: UInt64 = 1
    write(descriptor, &one, 8)
  }

  /// Makes it unreadable until it is given again.
  func clear() {
    var count: UInt64 = 0
    read(descriptor, &count, 8)
  }
}
