import CMicroHTTPD
import Glibc
import Platform
import Synchronization

/// Takes connections and gives each to the worker that has the fewest.
///
/// libmicrohttpd's workers would each take what comes to a socket they share, and by chance one of them would
/// have nearly all: half the server would stand idle. So every worker is a daemon of its own without a
/// socket, and one thread gives them their connections. It also keeps their number: 0.9.75 leaves a lock
/// behind when it meets its own limit while it takes up a connection that was given to it.
final class Acceptor: Sendable {
  private let socket: Int32
  private let workers: [Worker]
  private let most: Int
  private let signal: AcceptSignal
  private let isEnding = Atomic<Bool>(false)

  /// The longest wait for room; a descriptor may also be given back by somebody else.
  private static let roomMilliseconds: Int32 = 200

  /// Over a listening socket, which it closes at its end. At most so many connections are open at once.
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

  /// Takes what waits. False when there is room for no more and some may still wait.
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

  /// Says what keeps connections waiting, once in ten seconds.
  private func tellFault(_ fault: Int32) {
    let now = Clock.system.monotonicNanoseconds()
    guard now &- toldAt.load(ordering: .relaxed) > 10_000_000_000 else { return }
    toldAt.store(now, ordering: .relaxed)
    Log.line(.warning, "connections_wait", ["reason": .text(String(cString: strerror(fault)))])
  }
}
