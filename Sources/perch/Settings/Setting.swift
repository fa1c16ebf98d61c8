/// One setting of a command: a flag and an environment variable of the same meaning.
///
/// The tables of settings alone name them: reading, help and errors all come from there.
struct Setting: Sendable {
  /// The flag without its dashes.
  let name: String
  /// What values it takes.
  let kind: SettingKind
  /// The value when none is given; nil where one must be, "" where it may be left out.
  let fallback: String?
  /// What it is for, in a line.
  let help: String
  /// Whether SIGHUP has it read again.
  let isReread: Bool

  /// A setting; `fallback` nil means that it must be given.
  init(
    _ name: String, _ kind: SettingKind, default fallback: String?, _ help: String, isReread: Bool = false
  ) {
    self.isReread = isReread
    self.name = name
    self.kind = kind
    self.fallback = fallback
    self.help = help
  }

  /// The environment variable: `--upstream-token` is `PERCH_UPSTREAM_TOKEN`.
  var variable: String { "PERCH_" + name.uppercased().split(separator: "-").joined(separator: "_") }

  /// Whether it stands alone on the command line.
  var isFlag: Bool { if case .flag = kind { true } else { false } }

  /// Whether its flag may be given several times, which is the same as commas.
  var isRepeatable: Bool { if case .hosts = kind { true } else { false } }

  /// Whether it is kept out of logs.
  var isSecret: Bool { if case .secret = kind { true } else { false } }

  /// Whether it can also be read from a file: a secret, so that it shows in no process list, and what may
  /// change while the service runs.
  var hasFile: Bool { isSecret || isReread }
}

/// A setting was not understood.
struct SettingError: Error, CustomStringConvertible {
  /// Which one, why, and what there is instead.
  let description: String
}
