import CLinux
import Glibc

/// One kept connection of a load, without waits: one request at a time.
final class HTTPConnection {
  /// Gets the status and body of an answer. No status: the connection ended before the answer came.
  typealias Finish = (_ status: Int?, _ body: UnsafeRawBufferPointer) -> Void

  private let host: Host
  private let loop: EventLoop
  private var socket: Int32 = -1
  private var reader = AnswerReader()
  private var unsent: ArraySlice<UInt8> = []
  /// Whether the loop watches for room to write.
  private var awaitsRoom = false
  private var finish: Finish?

  init(to host: Host, _ loop: EventLoop) {
    self.host = host
    self.loop = loop
  }

  deinit { if socket >= 0 { close(socket) } }

  /// Sends a request; `finish` is called once, from the loop.
  func send(_ request: [UInt8], _ finish: @escaping Finish) {
    precondition(self.finish == nil, "one request at a time")
    self.finish = finish
    unsent = request[...]
    if socket < 0, !connect() { return loop.after(milliseconds: 0) { self.end() } }
    write()
  }

  private func connect() -> Bool {
    reader = AnswerReader()
    socket = host.connect()
    guard socket >= 0 else { return false }
    watch(isWriting: true)
    return true
  }

  private func write() {
    while !unsent.isEmpty {
      let sent = unsent.withUnsafeBytes { Glibc.send(socket, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) }
      if sent < 0 {
        guard errno == EAGAIN || errno == ENOTCONN else { return end() }
        return watch(isWriting: true)
      }
      unsent = unsent.dropFirst(sent)
    }
    if awaitsRoom { watch(isWriting: false) }
  }

  private func watch(isWriting: Bool) {
    awaitsRoom = isWriting
    loop.watch(self, socket, isWriting: isWriting)
  }

  /// Called by the loop.
  func isReady(_ events: UInt32) {
    if events & EPOLLOUT.rawValue != 0, !unsent.isEmpty { write() }
    guard socket >= 0, events & ~EPOLLOUT.rawValue != 0 else { return }
    let count = reader.receive(from: socket)
    if count < 0, errno == EAGAIN || errno == EINTR { return }
    guard count > 0 else { return end() }
    takeAnswer()
  }

  private func takeAnswer() {
    guard let finish else { return end() }
    do {
      // The answer is taken out before `finish` runs, which may send the next request.
      let answer = try reader.next { head, body in (head, Array(body)) }
      guard let (head, body) = answer else { return }
      self.finish = nil
      if head.isLast { disconnect() }
      body.withUnsafeBytes { finish(head.status, $0) }
    } catch { end() }
  }

  /// The connection is gone; the request under way fails.
  private func end() {
    disconnect()
    unsent = []
    guard let finish else { return }
    self.finish = nil
    finish(nil, UnsafeRawBufferPointer(start: nil, count: 0))
  }

  private func disconnect() {
    guard socket >= 0 else { return }
    loop.forget(socket)
    close(socket)
    socket = -1
  }
}
