import Glibc
import Platform

/// One call of `perch`: which command, with what.
///
/// Exit codes: 0 done and well, 1 failed or not well, 2 the call itself was wrong.
struct CommandLineCall {
  /// The version of the program.
  static let version = "0.1.0"

  private let words: [String]

  /// A call with the words after the program's name.
  init(_ words: [String]) { self.words = words }

  /// Does what was asked for and answers the exit code.
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
      CommandLineCall.write("perch \(first): \(error.description)\n", to: STDERR_FILENO)
      return 1
    } catch {
      CommandLineCall.write("perch \(first): \(error)\n", to: STDERR_FILENO)
      return 1
    }
  }

  private func say(_ text: String) -> Int32 {
    CommandLineCall.write(text, to: STDOUT_FILENO)
    return 0
  }

  private func refuse(_ text: String) -> Int32 {
    CommandLineCall.write("perch: \(text)", to: STDERR_FILENO)
    return 2
  }

  /// Writes text at once, past any buffer.
  static func write(_ text: String, to file: Int32) {
    var text = text
    text.withUTF8 { utf8 in
      var done = 0
      while done < utf8.count {
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
    var place = environ
    while let entry = place.pointee {
      let pair = String(cString: entry).split(
        separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
      if pair.count == 2 { found[String(pair[0])] = String(pair[1]) }
      place += 1
    }
    return found
  }
}

/// A command could not do its work.
struct CommandFailure: Error, CustomStringConvertible {
  /// Why, and what to change.
  let description: String
}
