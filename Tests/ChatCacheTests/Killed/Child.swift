import Glibc
import Testing

/// The writer as a process of its own, and what it has said was answered.
final class Child {
  private let pid: pid_t
  private let answers: Int32
  private var isOver = false
  private var line: [UInt8] = []
  /// The last number that was answered.
  private(set) var answered = 0

  /// Starts the program that was built beside the tests.
  init(_ directory: String, seed: UInt64) throws {
    var room = [CChar](repeating: 0, count: 4096)
    let count = readlink("/proc/self/exe", &room, room.count)
    let own = String(decoding: room.prefix(max(0, count)).map { UInt8(bitPattern: $0) }, as: UTF8.self)
    let program = "/" + own.split(separator: "/").dropLast().joined(separator: "/") + "/KilledWriter"
    var ends: [Int32] = [0, 0]
    try #require(pipe(&ends) == 0)
    for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
    var actions = posix_spawn_file_actions_t()
    posix_spawn_file_actions_init(&actions)
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO)
    defer { posix_spawn_file_actions_destroy(&actions) }
    let words = [program, directory, "\(seed)"]
    var arguments = words.map { strdup($0) } + [nil]
    defer { for argument in arguments { free(argument) } }
    var started: pid_t = 0
    let code = posix_spawn(&started, program, &actions, nil, &arguments, environ)
    close(ends[1])
    answers = ends[0]
    try #require(code == 0, "\(program) could not be started")
    pid = started
  }

  deinit {
    _ = die()
    close(answers)
  }

  /// Reads until that many more were answered; false: it ended by itself, or said nothing for 10 s.
  func hear(_ more: Int) -> Bool {
    var byte: UInt8 = 0
    var heard = 0
    while heard < more {
      var look = pollfd(fd: answers, events: Int16(POLLIN), revents: 0)
      guard poll(&look, 1, 10_000) == 1, read(answers, &byte, 1) == 1 else { return false }
      if take(byte) { heard += 1 }
    }
    return true
  }

  /// Kills it, and hears what it had still said. Answers whether it died of that.
  func die() -> Bool {
    guard !isOver else { return false }
    isOver = true
    kill(pid, SIGKILL)
    var status: Int32 = 0
    while waitpid(pid, &status, 0) < 0, errno == EINTR {}
    var byte: UInt8 = 0
    while read(answers, &byte, 1) == 1 { _ = take(byte) }
    return status & 0x7F == SIGKILL
  }

  /// A line that was cut by the kill was not answered.
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
