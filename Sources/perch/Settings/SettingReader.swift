import Glibc

/// Reads a command's settings from the command line and the environment.
///
/// The first of these counts: flag, file named by flag, variable, file named by variable. Only secrets and
/// settings that SIGHUP reads again may come from files. Unknown flags are errors, and so are variables that
/// begin with `PERCH_` but belong to no command. The error suggests a known name.
struct SettingReader {
  private let settings: [Setting]
  private let commandName: String

  init(command: Command) {
    settings = command.settings
    commandName = command.name
  }

  /// The values of all settings.
  func read(_ words: [String], environment: [String: String]) throws -> SettingValues {
    let given = try flags(words)
    try checkVariables(environment)
    var values: [String: SettingValue] = [:]
    for setting in settings {
      values[setting.name] = try value(of: setting, given, environment)
    }
    return SettingValues(values) { try read(words, environment: environment) }
  }

  private func flags(_ words: [String]) throws -> [String: String] {
    var given: [String: String] = [:]
    var rest = words[...]
    while let word = rest.popFirst() {
      guard word.hasPrefix("--") else {
        throw SettingError(description: "\(word) is not a flag; `perch \(commandName) --help` lists them")
      }
      let parts = word.dropFirst(2).split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
      let name = String(parts[0])
      guard settings.contains(where: { $0.name == name || ($0.hasFile && $0.name + "-file" == name) }) else {
        let hint = SettingReader.hint("--" + name, settings.map { "--" + $0.name })
        throw SettingError(
          description: "unknown flag --\(name). \(hint)`perch \(commandName) --help` lists them.")
      }
      let isFlag = settings.contains { $0.name == name && $0.isFlag }
      guard let value = parts.count == 2 ? String(parts[1]) : isFlag ? "on" : rest.popFirst() else {
        throw SettingError(description: "--\(name) needs a value")
      }
      let before = given.updateValue(value, forKey: name)
      guard let before else { continue }
      guard settings.contains(where: { $0.name == name && $0.isRepeatable }) else {
        throw SettingError(description: "--\(name) is given twice")
      }
      given[name] = before + "," + value
    }
    return given
  }

  private func checkVariables(_ environment: [String: String]) throws {
    let known = Set(
      Command.all.flatMap(\.settings).flatMap {
        $0.hasFile ? [$0.variable, $0.variable + "_FILE"] : [$0.variable]
      })
    let unknown = environment.keys.filter { $0.hasPrefix("PERCH_") && !known.contains($0) }.sorted()
    guard let first = unknown.first else { return }
    throw SettingError(
      description: "unknown variable \(first). \(SettingReader.hint(first, known.sorted()))"
        + "`perch COMMAND --help` lists a command's variables.")
  }

  /// Suggests the choice that differs least from `written`, if it differs by few letters.
  private static func hint(_ written: String, _ choices: [String]) -> String {
    let near = choices.map { (name: $0, distance: distance(written, $0)) }.min { $0.distance < $1.distance }
    guard let near, near.distance <= max(2, written.count / 3) else { return "" }
    return "Did you mean \(near.name)? "
  }

  /// How many letters have to be added, left out or replaced to turn one text into the other.
  private static func distance(_ one: String, _ other: String) -> Int {
    let other = Array(other)
    var row = Array(0...other.count)
    for (number, letter) in one.enumerated() {
      var before = row[0]
      row[0] = number + 1
      for column in other.indices {
        let replaced = before + (letter == other[column] ? 0 : 1)
        before = row[column + 1]
        row[column + 1] = min(replaced, before + 1, row[column] + 1)
      }
    }
    return row[other.count]
  }

  private func value(
    of setting: Setting, _ given: [String: String], _ environment: [String: String]
  ) throws -> SettingValue {
    var source = "--" + setting.name
    var text = given[setting.name]
    if text == nil, setting.hasFile, let path = given[setting.name + "-file"] {
      (text, source) = (try SettingReader.contents(path), path)
    }
    if text == nil, let value = environment[setting.variable] { (text, source) = (value, setting.variable) }
    if text == nil, setting.hasFile, let path = environment[setting.variable + "_FILE"] {
      (text, source) = (try SettingReader.contents(path), path)
    }
    if text == "", !setting.kind.mayBeEmpty {
      throw SettingError(description: "\(source) is empty: \(setting.help)")
    }
    guard let text = text ?? setting.fallback else {
      throw SettingError(description: "--\(setting.name) (or \(setting.variable)) is needed: \(setting.help)")
    }
    switch setting.kind.read(text) {
    case .success(let value): return value
    case .failure(let expected):
      let shown = setting.isSecret ? "this" : text
      throw SettingError(description: "\(source): \(shown) is not \(expected.description)")
    }
  }

  /// The text of a setting's file without the line end that editors add.
  private static func contents(_ path: String) throws -> String {
    guard let file = fopen(path, "re") else {
      throw SettingError(description: "cannot read \(path): \(String(cString: strerror(errno)))")
    }
    defer { fclose(file) }
    var room = [UInt8](repeating: 0, count: 65_536)
    let count = fread(&room, 1, room.count, file)
    var text = room[..<count]
    while let last = text.last, last == 10 || last == 13 { text.removeLast() }
    return String(decoding: text, as: UTF8.self)
  }
}
