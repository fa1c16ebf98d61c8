import CMicroHTTPD
import Glibc
import Platform
import Synchronization

/// One line of JSON per answered request, gathered in memory and written at least each second.
///
/// The route's template stands for the path and the query is never written: both may hold what is nobody's
/// business. When the reader of the log stalls, lines beyond the buffer are dropped and counted, and requests
/// go on.
final class AccessLog: @unchecked Sendable {  // because the buffer is guarded
  private static let flushBytes = 65_536
  private static let mostBytes = 1_048_576

  private let file: Int32
  private let clock: Clock
  private let lock = Lock()
  private let writing = Lock()
  private var lines = ByteBuffer(capacity: AccessLog.flushBytes + 1024)
  private var dropped = 0

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
      write(request, microseconds, to: &lines)
      return lines.count >= AccessLog.flushBytes
    }
    if isFull { flush() }
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

  /// Writes what has gathered.
  func flush() {
    writing.withLock {
      var full = ByteBuffer(capacity: AccessLog.flushBytes + 1024)
      var lost = 0
      lock.withLock {
        swap(&full, &lines)
        swap(&lost, &dropped)
      }
      var done = 0
      while done < full.count {
        let wrote = Glibc.write(file, full.base + done, full.count - done)
        if wrote < 0, errno == EINTR { continue }
        guard wrote > 0 else { break }
        done += wrote
      }
      if lost > 0 { Log.line(.warning, "access_log_dropped", ["lines": .number(Int64(lost))]) }
    }
  }

  var isEmpty: Bool { lock.withLock { lines.count == 0 } }
}
