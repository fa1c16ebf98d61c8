import Glibc
import Testing

/// `perch origin` as a process of its own, with its log in a file. Killed with this value at the latest.
final class ChildOrigin {
  private let pid: pid_t
  private let place: Scratch
  private var logPath: String { place.path + "/log" }
  private var isOver = false
  let port: UInt16

  /// Starts the program that was built beside the tests.
  init(_ words: [String], logIn place: Scratch) throws {
    var room = [CChar](repeating: 0, count: 4096)
    let count = readlink("/proc/self/exe", &room, room.count)
    let own = String(decoding: room.prefix(max(0, count)).map { UInt8(bitPattern: $0) }, as: UTF8.self)
    let program = "/" + own.split(separator: "/").dropLast().joined(separator: "/") + "/perch"
    self.place = place
    var ends: [Int32] = [0, 0]
    try #require(pipe(&ends) == 0)
    for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
    var actions = posix_spawn_file_actions_t()
    posix_spawn_file_actions_init(&actions)
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO)
    posix_spawn_file_actions_addopen(
      &actions, STDERR_FILENO, place.path + "/log", O_WRONLY | O_CREAT | O_TRUNC, 0o600)
    defer { posix_spawn_file_actions_destroy(&actions) }
    var arguments =
      ([program, "origin", "--listen", "127.0.0.1:0"] + words).map { strdup($0) } + [nil]
    defer { for argument in arguments { free(argument) } }
    // The tests' own variables are none that the program knows.
    var variables = ChildOrigin.environment().filter { !$0.hasPrefix("PERCH_") }.map { strdup($0) } + [nil]
    defer { for variable in variables { free(variable) } }
    var started: pid_t = 0
    let code = posix_spawn(&started, program, &actions, nil, &arguments, &variables)
    close(ends[1])
    defer { close(ends[0]) }
    try #require(code == 0, "\(program) could not be started")
    pid = started
    var line: [UInt8] = []
    var byte: UInt8 = 0
    while Glibc.read(ends[0], &byte, 1) == 1, byte != 10 { line.append(byte) }
    let text = String(decoding: line, as: UTF8.self)
    port = try #require(text.split(separator: ":").last.flatMap { UInt16($0) }, "it said: \(text)")
  }

  deinit { end(SIGKILL) }

  private static func environment() -> [String] {
    var entries: [String] = []
    var place = environ
    while let entry = place.pointee {
      entries.append(String(cString: entry))
      place += 1
    }
    return entries
  }

  /// Sends a signal and waits for the process's end.
  func end(_ signal: Int32) {
    guard !isOver else { return }
    isOver = true
    kill(pid, signal)
    var status: Int32 = 0
    while waitpid(pid, &status, 0) < 0, errno == EINTR {}
  }

  /// What it has logged so far.
  var log: String {
    guard let file = fopen(logPath, "re") else { return "" }
    defer { fclose(file) }
    var bytes = [UInt8](repeating: 0, count: 4 << 20)
    let count = fread(&bytes, 1, bytes.count, file)
    return String(decoding: bytes[..<count], as: UTF8.self)
  }
}

/// A directory that goes with this value.
final class Scratch {
  let path: String

  init() throws {
    var template = Array("/tmp/origin-test-XXXXXX".utf8CString)
    try #require(mkdtemp(&template) != nil)
    path = template.withUnsafeBufferPointer { String(cString: $0.baseAddress!) }
  }

  /// The names in it.
  var names: [String] { Scratch.names(path) }

  static func names(_ path: String) -> [String] {
    guard let directory = opendir(path) else { return [] }
    defer { closedir(directory) }
    var names: [String] = []
    while let entry = readdir(directory) {
      let name = withUnsafeBytes(of: &entry.pointee.d_name) {
        String(cString: $0.baseAddress!.assumingMemoryBound(to: CChar.self))
      }
      if name != ".", name != ".." { names.append(name) }
    }
    return names
  }

  deinit {
    for name in names { unlink(path + "/" + name) }
    rmdir(path)
  }
}
