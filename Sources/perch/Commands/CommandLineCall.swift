import Glibc
import Platform

/// One call of `perch`: the command and its arguments.
///
/// Exit codes: 0 done and well, 1 failed or not well, 2 the call itself was wrong.
struct CommandLineCall {
  /// The version of the program.
  static let version = "0.1.0"

  private let words: [String]

  /// A call with the words after the program's name.
  init(_ words: [String]) { self.words = words }

  /// Runs the command and returns the exit code.
  func run(environment: [String: String] = CommandLineCall.environment()) -> Int32 {
    guard let first = words.first else { return refuse("no command given\n\n" + Command.overview) }
    switch first {
    case "--version", "version": return say("perch \(CommandLineCall.version)\n")
    case "--help", "-h", "help": return say(Command.overview)
    default: break
    }
    guard let command = Command.all.first(where: { $0.name == first }) else {
      let choices = Command.all.map(\.name).joined(separator: ", ")
      return refuse("no command is called \(first); there are: \(choices)\n")
    }
    let rest = words.dropFirst()
    if rest.contains("--help") || rest.contains("-h") { return say(command.help) }
    do {
      let reader = SettingReader(command: command)
      return try command.run(reader.read(Array(rest), environment: environment))
    } catch let error as SettingError {
      return refuse(error.description + "\n")
    } catch let error as CommandFailure {
      fail("perch \(first): \(error.description)\n")
      return 1
    } catch {
      fail("perch \(first): \(error)\n")
      return 1
    }
  }

  private func say(_ text: String) -> Int32 {
    CommandLineCall.write(text, to: STDOUT_FILENO)
    return 0
  }

  private func fail(_ text: String) {
    Log.queue.flush()
    CommandLineCall.write(text, to: STDERR_FILENO, waitingAtMost: CommandLineCall.readerMilliseconds)
  }

  private func refuse(_ text: String) -> Int32 {
    fail("perch: \(text)")
    return 2
  }

  /// How long a service's line, or an error, waits for a stalled reader (ms).
  static let readerMilliseconds: Int32 = 1000

  /// Writes text without a buffer. `milliseconds`: how long it waits for a stalled reader; the text that is
  /// left then is lost. Nil: it waits for ever.
  static func write(_ text: String, to file: Int32, waitingAtMost milliseconds: Int32? = nil) {
    var text = text
    text.withUTF8 { utf8 in
      var done = 0
      while done < utf8.count {
        var waiting = pollfd(fd: file, events: Int16(POLLOUT), revents: 0)
        if let milliseconds, poll(&waiting, 1, milliseconds) == 0 { return }
        let wrote = Glibc.write(file, utf8.baseAddress! + done, utf8.count - done)
        if wrote < 0, errno == EINTR { continue }
        guard wrote > 0 else { return }
        done += wrote
      }
    }
  }

  /// The process's environment.
  static func environment() -> [String: String] {
    var found: [String: String] = [:]
    var pointer = environ
    while let entry = pointer.pointee {
      let pair = String(cString: entry).split(
        separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
      if pair.count == 2 { found[String(pair[0])] = String(pair[1]) }
      pointer += 1
    }
    return found
  }
}

/// A command could not do its work.
struct CommandFailure: Error, CustomStringConvertible {
  /// Why, and what to change.
  let description: String
}
