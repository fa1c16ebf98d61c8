import Glibc
import Platform

/// One line of JSON per answered request.
///
/// The route's template is written instead of the path, and the query never, because both may hold private
/// data. When the reader of the log stalls, lines beyond the queue's bound are dropped and counted, and
/// requests go on.
final class AccessLog: Sendable {
  private let clock: Clock
  private let queue: LogQueue
  /// Whether only this server uses the queue, so that the queue ends with the server.
  private let isOwn: Bool

  /// Writes lines to `file`. Lines to stderr go through the process's log queue.
  init(file: Int32, clock: Clock) {
    self.clock = clock
    isOwn = file != STDERR_FILENO
    queue = isOwn ? LogQueue(file: file, clock: clock) : Log.queue
  }

  /// Adds the line of a finished request.
  func note(_ request: Request, microseconds: UInt64) {
    queue.add(.request) { write(request, microseconds, to: &$0) }
  }

  /// Ends the writing. The lines that were added are still written if the reader takes them.
  func end() {
    if isOwn { queue.end() }
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
    lines.append(decimal: Int64(request.client.sentBytes))
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
}
