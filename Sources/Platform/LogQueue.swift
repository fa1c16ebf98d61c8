import Glibc
import Synchronization

/// Lines for a file, written by a thread of their own, so that callers do not wait for a file's reader that
/// stalls.
///
/// The queue is bounded. When the reader stalls, further lines are dropped and counted, and the count is
/// logged once there is room. A line of an event is written at once. While the reader keeps up, the caller
/// waits a few milliseconds for that, so that the last lines before a crash are in the file. Lines of
/// requests are gathered and written at least each second.
package final class LogQueue: @unchecked Sendable {  // because the lines are guarded, and one thread writes
  /// What a line reports.
  package enum Kind: Sendable {
    /// An answered request: there are many of these.
    case request
    /// Something that happened to the process.
    case event
  }

  private static let flushBytes = 65_536
  /// Unwritten bytes beyond which lines of requests are dropped, and beyond which all lines are.
  private static let unwrittenBytes = 1_048_576
  private static let unwrittenBytesOfAll = 1_310_720
  /// The most bytes that one write to a pipe never splits.
  private static let pieceBytes = Int(PIPE_BUF)
  /// How often the thread, while it waits for the reader, checks whether it must end.
  private static let lookMilliseconds: Int32 = 100
  /// How long the caller of `add` waits until the line of an event is written.
  private static let settleNanoseconds: UInt64 = 5_000_000
  /// How long `end` and `flush` wait for the reader.
  private static let lastNanoseconds: UInt64 = 1_000_000_000

  private struct Signal {
    var isRaised = false
    var endsBy: UInt64?
    /// How many of the bytes added so far are written, or given up.
    var written: UInt64 = 0
    /// Whether a line was not written in time. While this is true, callers do not wait.
    var isStalled = false
  }

  private let file: Int32
  private let clock: Clock
  private let lock = Lock()
  private let signal = Watched(Signal())
  private let thread = ThreadSlot()
  private let isStarted = Atomic<Bool>(false)
  private let droppedInAll = Atomic<Int>(0)
  private var lines = ByteBuffer(capacity: LogQueue.flushBytes + 1024)
  private var added: UInt64 = 0
  private var dropped = (requests: 0, events: 0)
  /// The bytes being written; only the writing thread uses them.
  private var full = ByteBuffer(capacity: LogQueue.flushBytes + 1024)

  /// A queue for `file`, which stays the caller's.
  package init(file: Int32, clock: Clock = .system) {
    self.file = file
    self.clock = clock
  }

  /// Lines dropped so far.
  package var droppedLines: Int { droppedInAll.load(ordering: .relaxed) }

  /// Adds the line that `write` appends, with its line end.
  package func add(_ kind: Kind, _ write: (inout ByteBuffer) -> Void) {
    start()
    let mark = lock.withLock { () -> (isFull: Bool, end: UInt64)? in
      guard lines.count <= (kind == .request ? LogQueue.unwrittenBytes : LogQueue.unwrittenBytesOfAll) else {
        if kind == .request { dropped.requests += 1 } else { dropped.events += 1 }
        droppedInAll.wrappingAdd(1, ordering: .relaxed)
        return nil
      }
      let before = lines.count
      write(&lines)
      added += UInt64(lines.count - before)
      return (before < LogQueue.flushBytes && lines.count >= LogQueue.flushBytes, added)
    }
    guard let mark else { return }
    if kind == .event {
      settle(mark.end)
    } else if mark.isFull {
      signal.update { $0.isRaised = true }
    }
  }

  /// Waits a moment until the bytes up to `end` are written, but not while the reader stalls.
  private func settle(_ end: UInt64) {
    let isStalled = signal.update { signal in
      signal.isRaised = true
      return signal.isStalled
    }
    if isStalled { return }
    let moment = Clock.system.monotonicNanoseconds() + LogQueue.settleNanoseconds
    let isWritten: Void? = signal.wait(until: moment) { $0.written >= end ? () : nil }
    if isWritten == nil { signal.read { if $0.written < end { $0.isStalled = true } } }
  }

  /// Waits until all added lines are written, for at most a second.
  package func flush() {
    let end = lock.withLock { added }
    let moment = Clock.system.monotonicNanoseconds() + LogQueue.lastNanoseconds
    signal.update { $0.isRaised = true }
    _ = signal.wait(until: moment) { $0.written >= end ? () : nil }
  }

  /// Ends the thread. It first writes the added lines, for at most a second.
  package func end() {
    let moment = Clock.system.monotonicNanoseconds() + LogQueue.lastNanoseconds
    signal.update { $0.endsBy = moment }
    thread.join()
  }

  /// Starts the thread with the first line. The thread blocks all signals, because the code that waits for
  /// signals may not have blocked them yet.
  private func start() {
    guard !isStarted.load(ordering: .relaxed), !isStarted.exchange(true, ordering: .relaxed) else { return }
    var (all, before) = (sigset_t(), sigset_t())
    sigfillset(&all)
    pthread_sigmask(SIG_SETMASK, &all, &before)
    thread.start("perch-log") { [self] in run() }
    pthread_sigmask(SIG_SETMASK, &before, nil)
  }

  private func run() {
    var isLast = false
    while !isLast {
      let second = Clock.system.monotonicNanoseconds() + 1_000_000_000
      signal.wait(until: second) { $0.isRaised || $0.endsBy != nil ? () : nil }
      isLast = signal.read { signal in
        signal.isRaised = false
        return signal.endsBy != nil
      }
      writeOut()
    }
  }

  private var isOverdue: Bool {
    guard let moment = signal.read({ $0.endsBy }) else { return false }
    return Clock.system.monotonicNanoseconds() > moment
  }

  private func writeOut() {
    var lost = (requests: 0, events: 0)
    let end = lock.withLock { () -> UInt64 in
      swap(&full, &lines)
      swap(&lost, &dropped)
      return added
    }
    tell(lost.requests, dropped: "access_log_dropped")
    tell(lost.events, dropped: "log_lines_dropped")
    writeAll()
    full.clear()
    signal.update { signal in
      signal.written = end
      signal.isStalled = false
    }
  }

  /// Appends a line with the number of lines that were dropped after the others.
  private func tell(_ lost: Int, dropped event: StaticString) {
    guard lost > 0 else { return }
    full.append("{\"at\":")
    full.append(decimal: clock.wallMilliseconds())
    full.append(",\"level\":\"warning\",\"event\":\"")
    full.append(event)
    full.append("\",\"lines\":")
    full.append(decimal: Int64(lost))
    full.append("}\n")
  }

  /// Writes whole lines as long as the file takes them. A reader that stalls must not delay the end.
  private func writeAll() {
    var rest = full.bytes
    while !rest.isEmpty, !isOverdue {
      var waiting = pollfd(fd: file, events: Int16(POLLOUT), revents: 0)
      let ready = poll(&waiting, 1, LogQueue.lookMilliseconds)
      if ready < 0, errno != EINTR { return }
      guard ready > 0 else { continue }
      let wrote = Glibc.write(file, rest.baseAddress!, LogQueue.piece(of: rest))
      if wrote < 0, errno == EINTR || errno == EAGAIN { continue }
      guard wrote > 0 else { return }
      rest = UnsafeRawBufferPointer(rebasing: rest[wrote...])
    }
  }

  /// How many bytes to write at once: whole lines, if one fits.
  private static func piece(of bytes: UnsafeRawBufferPointer) -> Int {
    guard bytes.count > pieceBytes else { return bytes.count }
    let newline = bytes[..<pieceBytes].lastIndex(of: UInt8(ascii: "\n"))
    return newline.map { $0 + 1 } ?? pieceBytes
  }
}
