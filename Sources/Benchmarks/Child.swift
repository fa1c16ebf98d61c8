import Glibc

/// A process with its output in a file. It ends when this value is freed.
final class Child {
  let pid: pid_t
  private let output: String
  private var isOver = false

  /// Starts `words[0]`, looked up on PATH. Its output is kept, and its errors are shown.
  init(_ words: [String]) throws {
    output = "/tmp/perch-bench-\(getpid())-\(Child.next())"
    var actions = posix_spawn_file_actions_t()
    posix_spawn_file_actions_init(&actions)
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, output, O_WRONLY | O_CREAT | O_TRUNC, 0o600)
    defer { posix_spawn_file_actions_destroy(&actions) }
    var arguments = words.map { strdup($0) } + [nil]
    defer { for argument in arguments { free(argument) } }
    var started: pid_t = 0
    let code = posix_spawnp(&started, words[0], &actions, nil, &arguments, environ)
    guard code == 0 else {
      throw BenchFailure(description: "cannot start \(words[0]): \(String(cString: strerror(code)))")
    }
    pid = started
  }

  private nonisolated static func next() -> Int { Int(clock()) &+ Int.random(in: 0..<1_000_000) }

  deinit {
    stop()
    unlink(output)
  }

  /// The path of the program `name` that was built together with this one.
  static func besides(_ name: String) throws -> String {
    var room = [CChar](repeating: 0, count: 4096)
    let count = readlink("/proc/self/exe", &room, room.count)
    let own = String(decoding: room.prefix(max(0, count)).map { UInt8(bitPattern: $0) }, as: UTF8.self)
    let path = "/" + (own.split(separator: "/").dropLast() + [Substring(name)]).joined(separator: "/")
    guard access(path, X_OK) == 0 else { throw BenchFailure(description: "there is no \(path)") }
    return path
  }

  /// Sends SIGTERM, and waits for the end.
  func stop() {
    guard !isOver else { return }
    kill(pid, SIGTERM)
    wait()
  }

  /// Waits for its end.
  func wait() {
    var status: Int32 = 0
    while waitpid(pid, &status, 0) < 0, errno == EINTR {}
    isOver = true
  }

  /// What it has written so far.
  var written: String {
    guard let file = fopen(output, "re") else { return "" }
    defer { fclose(file) }
    var room = [UInt8](repeating: 0, count: 65_536)
    let count = fread(&room, 1, room.count, file)
    return String(decoding: room[..<count], as: UTF8.self)
  }

  /// Runs a program to its end and returns its output.
  static func output(_ words: [String]) throws -> String {
    let child = try Child(words)
    child.wait()
    return child.written
  }

  /// The child process and its own children.
  var family: [pid_t] {
    let children = ProcFile.text("/proc/\(pid)/task/\(pid)/children")
    return [pid] + children.split(separator: " ").compactMap { pid_t($0) }
  }

  /// Processor time of the family so far, in µs.
  var processorMicroseconds: Double {
    family.reduce(0) { sum, pid in
      ProcFile.names("/proc/\(pid)/task").reduce(sum) { sum, thread in
        let text = ProcFile.text("/proc/\(pid)/task/\(thread)/schedstat")
        return sum + (text.split(separator: " ").first.flatMap { Double($0) } ?? 0) / 1000
      }
    }
  }
}

/// Files of /proc.
enum ProcFile {
  /// A file's text; "" if the file is gone.
  static func text(_ path: String) -> String {
    guard let file = fopen(path, "re") else { return "" }
    defer { fclose(file) }
    var bytes: [UInt8] = []
    var room = [UInt8](repeating: 0, count: 4096)
    while case let count = fread(&room, 1, room.count, file), count > 0 { bytes += room[..<count] }
    return String(decoding: bytes, as: UTF8.self)
  }

  /// The names in a directory, without the dots.
  static func names(_ path: String) -> [String] {
    guard let directory = opendir(path) else { return [] }
    defer { closedir(directory) }
    var names: [String] = []
    while let entry = readdir(directory) {
      let name = withUnsafeBytes(of: &entry.pointee.d_name) {
        String(cString: $0.baseAddress!.assumingMemoryBound(to: CChar.self))
      }
      if !name.hasPrefix(".") { names.append(name) }
    }
    return names
  }
}
