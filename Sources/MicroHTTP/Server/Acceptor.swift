import CMicroHTTPD
import Glibc
import Platform
import Synchronization

/// Takes connections and gives each to the worker that has the fewest.
///
/// If libmicrohttpd's workers shared a listening socket, one of them could by chance accept nearly all
/// connections, and the others would stand idle. So every worker has daemons of its own without a listening
/// socket, and one thread gives them their connections. The acceptor also limits their number, because
/// version 0.9.75 does not release a lock when it reaches its own limit while it adds a connection.
final class Acceptor: Sendable {
  private let socket: Int32
  private let workers: [Worker]
  private let most: Int
  private let signal: AcceptSignal
  private let isEnding = Atomic<Bool>(false)

  /// The longest wait for room. It has a limit because other code may free a descriptor without a signal.
  private static let roomMilliseconds: Int32 = 200

  /// Accepts on `socket`, and closes it at the end. At most `most` connections are open at once.
  init(socket: Int32, workers: [Worker], most: Int, _ signal: AcceptSignal) {
    self.socket = socket
    self.workers = workers
    self.most = most
    self.signal = signal
  }

  /// Accepts until `end`.
  func run() {
    var hasRoom = true
    while !isEnding.load(ordering: .sequentiallyConsistent) {
      wait(forConnection: hasRoom)
      hasRoom = takeAll()
    }
    close(socket)
  }

  /// Nothing is accepted from now on.
  func end() {
    isEnding.store(true, ordering: .sequentiallyConsistent)
    signal.give()
  }

  private func wait(forConnection hasRoom: Bool) {
    let socket = pollfd(fd: hasRoom ? socket : -1, events: Int16(POLLIN), revents: 0)
    var both = (socket, pollfd(fd: signal.descriptor, events: Int16(POLLIN), revents: 0))
    withUnsafeMutableBytes(of: &both) {
      let descriptors = $0.assumingMemoryBound(to: pollfd.self)
      poll(descriptors.baseAddress, 2, hasRoom ? -1 : Acceptor.roomMilliseconds)
    }
    signal.clear()
  }

  /// Accepts the waiting connections. False when there is no room for more, and some may still wait.
  private func takeAll() -> Bool {
    signal.awaitRoom(false)
    while true {
      let total = workers.reduce(0) { $0 + $1.connections }
      if total >= most {
        // A connection that closes from now on gives the signal; the second look sees one that closed before.
        if signal.awaitRoom(true) { return false }
        continue
      }
      var address = sockaddr_storage()
      var length: socklen_t = 0
      let taken = mhd_accept(socket, &address, &length)
      if taken >= 0 {
        workers.min { $0.connections < $1.connections }?.give(
          NewConnection(socket: taken, address: address, length: length))
        continue
      }
      switch errno {
      case EINTR, ECONNABORTED, EPROTO: continue
      case EMFILE, ENFILE, ENOBUFS, ENOMEM:
        tellFault(errno)
        signal.awaitRoom(true)
        return false
      default: return true
      }
    }
  }

  private let toldAt = Atomic<UInt64>(0)

  /// Logs why connections wait, at most once in ten seconds.
  private func tellFault(_ fault: Int32) {
    let now = Clock.system.monotonicNanoseconds()
    guard now &- toldAt.load(ordering: .relaxed) > 10_000_000_000 else { return }
    toldAt.store(now, ordering: .relaxed)
    Log.line(.warning, "connections_wait", ["reason": .text(String(cString: strerror(fault)))])
  }
}
