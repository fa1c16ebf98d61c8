import Platform

/// One command of `perch`.
struct Command: Sendable {
  /// The word after `perch`.
  let name: String
  /// What it does, in a line.
  let summary: String
  /// Every flag it takes.
  let settings: [Setting]
  /// A paragraph that `--help` prints after the list of settings.
  var note = ""
  /// Runs the command; the result is the exit code.
  let run: @Sendable (SettingValues) throws -> Int32

  /// All commands, in the order of the help.
  static let all: [Command] = [.serve, .sync, .origin, .demo, .token, .check, .cache, .clear, .health, .load]

  /// What `perch NAME --help` prints.
  var help: String {
    var text = "perch \(name): \(summary)\n\n"
    let heads = settings.map { setting in
      setting.isFlag ? "--\(setting.name)" : "--\(setting.name) \(setting.kind.placeholder)"
    }
    let width = (heads.map(\.count).max() ?? 0) + 2
    for (setting, head) in zip(settings, heads) {
      let gap = String(repeating: " ", count: width - head.count)
      let fallback = setting.fallback.map { $0.isEmpty ? "" : " [\($0)]" } ?? " (needed)"
      text += "  \(head)\(gap)\(setting.help)\(fallback)\n"
      text += "  \(String(repeating: " ", count: width))\(setting.variable)"
      text += setting.hasFile ? ", --\(setting.name)-file, \(setting.variable)_FILE\n" : "\n"
    }
    if !note.isEmpty { text += "\n\(note)\n" }
    return text + "\nA flag wins over its variable. Durations: 500ms, 2s, 5m, 24h. Sizes: 64KB, 256MB, 1GB.\n"
  }

  /// What `perch --help` prints.
  static var overview: String {
    let lines = all.map { command in
      "  perch \(command.name)\(String(repeating: " ", count: 10 - command.name.count))\(command.summary)\n"
    }
    return "Perch keeps a chat server's channels and messages at hand and serves them over HTTP.\n\n"
      + lines.joined() + "  perch --version\n\n`perch COMMAND --help` lists a command's settings.\n"
  }
}
