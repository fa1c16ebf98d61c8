import Glibc
import TestSupport

/// The writer as a process of its own, and the writes that it has reported as answered.
final class Child {
  private let process: ChildProcess
  private var line: [UInt8] = []
  /// The last number that was answered.
  private(set) var answered = 0

  /// Starts the program that was built beside the tests; `mode`: a seed, or the name of another mode.
  init(_ directory: String, mode: String) throws {
    process = try ChildProcess("KilledWriter", [directory, mode], log: directory + ".log")
  }

  /// Reads until `more` further writes were answered. False: the process ended by itself, or was silent for
  /// 10 s.
  func hear(_ more: Int) -> Bool {
    var byte: UInt8 = 0
    var heard = 0
    while heard < more {
      var look = pollfd(fd: process.output, events: Int16(POLLIN), revents: 0)
      guard poll(&look, 1, 10_000) == 1, read(process.output, &byte, 1) == 1 else { return false }
      if take(byte) { heard += 1 }
    }
    return true
  }

  /// Waits for the end of the process. True: it killed itself; false: it ended otherwise.
  func hasKilledItself() -> Bool {
    var byte: UInt8 = 0
    while read(process.output, &byte, 1) == 1 { _ = take(byte) }
    guard let status = process.end(0) else { return false }
    return status & 0x7F == SIGKILL
  }

  /// Kills the process, and reads the rest of its output. Returns whether the kill ended it.
  func die() -> Bool {
    guard let status = process.end(SIGKILL) else { return false }
    var byte: UInt8 = 0
    while read(process.output, &byte, 1) == 1 { _ = take(byte) }
    return status & 0x7F == SIGKILL
  }

  /// Takes a byte of output. A line that the kill cut was not answered.
  private func take(_ byte: UInt8) -> Bool {
    guard byte == UInt8(ascii: "\n") else {
      line.append(byte)
      return false
    }
    answered = Int(String(decoding: line, as: UTF8.self)) ?? answered
    line = []
    return true
  }
}
