import Glibc

/// A program that was built beside the tests, as a process of its own, with its output to read. It is killed
/// at the latest when this value is freed.
package final class ChildProcess {
  /// The program could not be started.
  package struct NotStarted: Error {
    /// The path of the program.
    package let path: String
    /// `errno`.
    package let code: Int32
  }

  /// The descriptor from which its standard output is read.
  package let output: Int32
  private let pid: pid_t
  private var isOver = false

  /// Starts the program; `log`: the file that gets its standard error, `errors`: the open one that does;
  /// `files`: how many files it may have open. It does not get the tests' own variables, which it would
  /// refuse.
  package init(
    _ name: String, _ words: [String], log: String? = nil, errors: Int32? = nil, files: Int? = nil
  ) throws {
    let program = ChildProcess.folder + "/" + name
    let path = files == nil ? program : "/bin/sh"
    let limited = files.map { ["-c", "ulimit -n \($0); exec \"$0\" \"$@\"", program] } ?? []
    var ends: [Int32] = [0, 0]
    guard pipe(&ends) == 0 else { throw NotStarted(path: path, code: errno) }
    for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
    var actions = posix_spawn_file_actions_t()
    posix_spawn_file_actions_init(&actions)
    defer { posix_spawn_file_actions_destroy(&actions) }
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO)
    if let log {
      posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, log, O_WRONLY | O_CREAT | O_TRUNC, 0o600)
    }
    if let errors { posix_spawn_file_actions_adddup2(&actions, errors, STDERR_FILENO) }
    var arguments = ([path] + limited + words).map { strdup($0) } + [nil]
    defer { for argument in arguments { free(argument) } }
    var variables = ChildProcess.environment.filter { !$0.hasPrefix("PERCH_") }.map { strdup($0) } + [nil]
    defer { for variable in variables { free(variable) } }
    var started: pid_t = 0
    let code = posix_spawn(&started, path, &actions, nil, &arguments, &variables)
    close(ends[1])
    guard code == 0 else {
      close(ends[0])
      throw NotStarted(path: path, code: code)
    }
    output = ends[0]
    pid = started
  }

  deinit {
    end(SIGKILL)
    close(output)
  }

  /// How many files it has open.
  package var openFiles: Int {
    guard let directory = opendir("/proc/\(pid)/fd") else { return 0 }
    defer { closedir(directory) }
    var count = 0
    while readdir(directory) != nil { count += 1 }
    return count - 2
  }

  /// `prlimit`, which glibc's module does not show.
  private typealias SetLimit =
    @convention(c) (
      pid_t, Int32, UnsafePointer<rlimit>?, UnsafeMutablePointer<rlimit>?
    ) -> Int32

  /// Limits the size of its files from now on; nil: no limit. False if the limit cannot be set.
  package func limit(fileBytes: UInt?) -> Bool {
    guard let found = dlsym(nil, "prlimit") else { return false }
    let prlimit = unsafeBitCast(found, to: SetLimit.self)
    var limit = rlimit()
    let resource = Int32(RLIMIT_FSIZE.rawValue)
    guard prlimit(pid, resource, nil, &limit) == 0 else { return false }
    limit.rlim_cur = fileBytes ?? limit.rlim_max
    return prlimit(pid, resource, &limit, nil) == 0
  }

  /// Sends a signal.
  package func send(_ signal: Int32) { if !isOver { kill(pid, signal) } }

  /// Sends a signal and waits for the end. Returns the status of `waitpid`; nil if the process had ended
  /// before.
  @discardableResult
  package func end(_ signal: Int32) -> Int32? {
    guard !isOver else { return nil }
    isOver = true
    kill(pid, signal)
    var status: Int32 = 0
    while waitpid(pid, &status, 0) < 0, errno == EINTR {}
    return status
  }

  /// Sends a signal and waits for the end, at most `seconds`; then kills the process. Returns the status of
  /// `waitpid`; nil if the process was killed, or had ended before.
  package func end(_ signal: Int32, within seconds: Double) -> Int32? {
    guard !isOver else { return nil }
    kill(pid, signal)
    var status: Int32 = 0
    for _ in 0..<Int(seconds * 100) {
      if waitpid(pid, &status, WNOHANG) == pid {
        isOver = true
        return status
      }
      usleep(10_000)
    }
    end(SIGKILL)
    return nil
  }

  /// The folder of this program and of those that were built with it.
  private static var folder: String {
    var room = [CChar](repeating: 0, count: 4096)
    let count = readlink("/proc/self/exe", &room, room.count)
    let own = String(decoding: room.prefix(max(0, count)).map { UInt8(bitPattern: $0) }, as: UTF8.self)
    return "/" + own.split(separator: "/").dropLast().joined(separator: "/")
  }

  private static var environment: [String] {
    var entries: [String] = []
    var position = environ
    while let entry = position.pointee {
      entries.append(String(cString: entry))
      position += 1
    }
    return entries
  }
}
