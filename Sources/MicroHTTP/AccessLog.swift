import CMicroHTTPD
import Glibc
import Platform
import Synchronization

/// One line of JSON per answered request, gathered in memory and written at least each second, by a thread of
/// its own.
///
/// The route's template stands for the path and the query is never written: both may hold what is nobody's
/// business. When the reader of the log stalls, lines beyond the buffer are dropped and counted, and requests
/// go on; the end waits a second for it, unless somebody else's lines fill the file just then.
final class AccessLog: @unchecked Sendable {  // because the lines are guarded, and one thread writes
  private static let flushBytes = 65_536
  private static let mostBytes = 1_048_576
  /// What a pipe takes as a whole where it takes anything.
  private static let pieceBytes = Int(PIPE_BUF)
  /// How often a writer that waits for its reader looks whether it is to end.
  private static let lookMilliseconds: Int32 = 100
  /// How long it goes on then.
  private static let lastNanoseconds: UInt64 = 1_000_000_000

  private enum Bell: Equatable { case silent, full, end(by: UInt64) }

  private let file: Int32
  private let clock: Clock
  private let lock = Lock()
  private let bell = Watched(Bell.silent)
  private var lines = ByteBuffer(capacity: AccessLog.flushBytes + 1024)
  private var dropped = 0
  /// What is being written; the writing thread's own.
  private var full = ByteBuffer(capacity: AccessLog.flushBytes + 1024)

  init(file: Int32, clock: Clock) {
    self.file = file
    self.clock = clock
  }

  /// Adds the line of a finished request.
  func note(_ request: Request, microseconds: UInt64) {
    let isFull = lock.withLock { () -> Bool in
      if lines.count > AccessLog.mostBytes {
        dropped += 1
        return false
      }
      let before = lines.count
      write(request, microseconds, to: &lines)
      return before < AccessLog.flushBytes && lines.count >= AccessLog.flushBytes
    }
    if isFull { bell.update { if $0 == .silent { $0 = .full } } }
  }

  private func write(_ request: Request, _ microseconds: UInt64, to lines: inout ByteBuffer) {
    lines.append("{\"at\":")
    lines.append(decimal: clock.wallMilliseconds())
    lines.append(",\"method\":\"")
    lines.append(request.method.name)
    lines.append("\",")
    if let endpoint = request.endpoint {
      endpoint.logged.withUnsafeBytes { lines.append($0) }
    } else {
      lines.append("\"route\":null")
    }
    lines.append(",\"status\":")
    lines.append(decimal: Int64(request.status))
    lines.append(",\"bytes\":")
    lines.append(decimal: Int64(request.sentBytes))
    lines.append(",\"us\":")
    lines.append(decimal: Int64(clamping: microseconds))
    lines.append(",\"request_id\":\"")
    request.withRequestID { lines.append(UnsafeRawBufferPointer(start: $0, count: strlen($0))) }
    lines.append("\"")
    if let user = request.user {
      lines.append(",\"user\":")
      lines.append(quoted: user)
    }
    if let trace = request.header("traceparent"), RequestID.isWellFormed(trace) {
      lines.append(",\"traceparent\":\"")
      lines.append(trace)
      lines.append("\"")
    }
    lines.append("}\n")
  }

  /// Writes what gathers, until `end`.
  func run() {
    var isLast = false
    while !isLast {
      let second = Clock.system.monotonicNanoseconds() + 1_000_000_000
      bell.wait(until: second) { $0 == .silent ? nil : () }
      isLast = bell.read { bell in
        defer { if bell == .full { bell = .silent } }
        if case .end = bell { return true }
        return false
      }
      flush()
    }
  }

  /// Ends the writing; what has gathered is written if somebody reads it.
  func end() {
    let moment = Clock.system.monotonicNanoseconds() + AccessLog.lastNanoseconds
    bell.update { $0 = .end(by: moment) }
  }

  private var isOverdue: Bool {
    guard case .end(let moment) = bell.read({ $0 }) else { return false }
    return Clock.system.monotonicNanoseconds() > moment
  }

  private func flush() {
    var lost = 0
    lock.withLock {
      swap(&full, &lines)
      swap(&lost, &dropped)
    }
    if lost > 0 { tell(lost) }
    writeAll()
    full.clear()
  }

  /// Says among the lines how many were dropped after them.
  private func tell(_ lost: Int) {
    full.append("{\"at\":")
    full.append(decimal: clock.wallMilliseconds())
    full.append(",\"level\":\"warning\",\"event\":\"access_log_dropped\",\"lines\":")
    full.append(decimal: Int64(lost))
    full.append("}\n")
  }

  /// Writes line by line as far as the file takes them: a reader that stalls must not hold up the end.
  private func writeAll() {
    var rest = full.bytes
    while !rest.isEmpty, !isOverdue {
      var waiting = pollfd(fd: file, events: Int16(POLLOUT), revents: 0)
      let ready = poll(&waiting, 1, AccessLog.lookMilliseconds)
      if ready < 0, errno != EINTR { return }
      guard ready > 0 else { continue }
      let wrote = Glibc.write(file, rest.baseAddress!, AccessLog.piece(of: rest))
      if wrote < 0, errno == EINTR || errno == EAGAIN { continue }
      guard wrote > 0 else { return }
      rest = UnsafeRawBufferPointer(rebasing: rest[wrote...])
    }
  }

  /// How many bytes are whole lines, and no more than are taken at once.
  private static func piece(of bytes: UnsafeRawBufferPointer) -> Int {
    guard bytes.count > pieceBytes else { return bytes.count }
    let newline = bytes[..<pieceBytes].lastIndex(of: UInt8(ascii: "\n"))
    return newline.map { $0 + 1 } ?? pieceBytes
  }
}
