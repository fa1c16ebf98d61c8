/// One setting of a command: a flag and an environment variable of the same meaning.
///
/// Only the tables of settings name settings: reading, help and errors all use the tables.
struct Setting: Sendable {
  /// The flag without its dashes.
  let name: String
  /// The kind of its values.
  let kind: SettingKind
  /// The value when none is given. Nil: one must be given. `""`: it may be left out.
  let fallback: String?
  /// What it is for, in a line.
  let help: String
  /// Whether SIGHUP reads it again.
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

  /// Whether its flag can do without a value.
  var isFlag: Bool { if case .flag = kind { true } else { false } }

  /// Whether its flag may be given several times, which means the same as commas.
  var isRepeatable: Bool { if case .hosts = kind { true } else { false } }

  /// Whether it is kept out of logs.
  var isSecret: Bool { if case .secret = kind { true } else { false } }

  /// Whether it can also be read from a file. Secrets can, so that no process list shows them, and so can
  /// settings that SIGHUP reads again.
  var hasFile: Bool { isSecret || isReread }
}

/// A setting was not understood.
struct SettingError: Error, CustomStringConvertible {
  /// The setting, the fault, and what is expected.
  let description: String
}
