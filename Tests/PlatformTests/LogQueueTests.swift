import Glibc
import Platform
import Testing

/// Lines for a file whose reader may stall.
@Suite struct LogQueueTests {
  private func pipe() -> (read: Int32, write: Int32) {
    var ends: [Int32] = [0, 0]
    Glibc.pipe(&ends)
    return (ends[0], ends[1])
  }

  private func readAll(_ file: Int32) -> [Substring] {
    var text: [UInt8] = []
    var room = [UInt8](repeating: 0, count: 65_536)
    while case let count = read(file, &room, room.count), count > 0 { text += room[..<count] }
    return String(decoding: text, as: UTF8.self).split(separator: "\n")
  }

  private func seconds(_ body: () -> Void) -> Double {
    let began = Clock.system.monotonicNanoseconds()
    body()
    return Double(Clock.system.monotonicNanoseconds() - began) / 1e9
  }

  @Test("a line of an event is in the file when it was added: a crash right after it does not lose it")
  func writtenAtOnce() {
    let ends = pipe()
    let queue = LogQueue(file: ends.write)
    for number in 0..<50 {
      queue.add(.event) { $0.append("line \(number)\n") }
      var room = [UInt8](repeating: 0, count: 64)
      // The pipe has no end, so reading a line that is not there would block.
      var there = pollfd(fd: ends.read, events: Int16(POLLIN), revents: 0)
      #expect(poll(&there, 1, 1000) == 1)
      let count = read(ends.read, &room, room.count)
      #expect(String(decoding: room[..<max(0, count)], as: UTF8.self) == "line \(number)\n")
    }
    queue.end()
    close(ends.write)
    close(ends.read)
  }

  @Test("a reader that stalls holds up nobody: lines are kept up to a bound, then dropped, counted and told")
  func stalled() {
    let ends = pipe()
    let queue = LogQueue(file: ends.write)
    let line = String(repeating: "x", count: 999) + "\n"
    let took = seconds { for _ in 0..<5000 { queue.add(.event) { $0.append(line) } } }
    #expect(took < 2)
    #expect(queue.droppedLines > 2000 && queue.droppedLines < 5000)
    #expect(seconds { queue.flush() } < 3, "the end waits a bounded time")
    let dropped = queue.droppedLines
    let lines = Guarded<[Substring]>([])
    let reader = Thread("reader") {
      let read = LogQueueTests().readAll(ends.read)
      lines.withLock { $0 = read }
    }
    queue.flush()
    queue.add(.event) { $0.append("last\n") }
    queue.end()
    close(ends.write)
    reader.join()
    close(ends.read)
    let told = lines.withLock { $0 }
    #expect(told.count { $0.count == 999 } == 5000 - dropped)
    #expect(told.contains { $0.contains(#""event":"log_lines_dropped","lines":\#(dropped)}"#) })
    #expect(told.last == "last")
  }

  @Test("lines of requests leave room for those of events")
  func room() {
    let ends = pipe()
    let queue = LogQueue(file: ends.write)
    let line = String(repeating: "x", count: 999) + "\n"
    for _ in 0..<4000 { queue.add(.request) { $0.append(line) } }
    let dropped = queue.droppedLines
    #expect(dropped > 1000)
    queue.add(.event) { $0.append("event\n") }
    #expect(queue.droppedLines == dropped)
    queue.end()
    close(ends.write)
    close(ends.read)
  }
}
