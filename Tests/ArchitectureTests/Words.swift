/// Words that are forbidden in code, and words that need a reason beside them.
enum Words {
  static func check(_ file: SourceFile) -> [Finding] {
    var findings = names(file)
    for index in file.lines.indices {
      for (word, fault) in forbidden where file.code(index, contains: word) {
        findings.append(Finding(path: file.path, line: index + 1, fault: fault))
      }
      for word in ["TODO", "FIXME"] where file.lines[index].contains(word) {
        findings.append(Finding(path: file.path, line: index + 1, fault: "\(word): do it, or write why not"))
      }
      if file.code(index, contains: "@unchecked Sendable"), !file.lines[index].contains("because") {
        let isBelow = index + 1 < file.lines.count && file.lines[index + 1].contains("because")
        if !isBelow {
          findings.append(
            Finding(path: file.path, line: index + 1, fault: "@unchecked Sendable without because"))
        }
      }
      for word in ["try?", "sleep("] where file.code(index, contains: word) && !file.isExplained(index) {
        findings.append(
          Finding(path: file.path, line: index + 1, fault: "\(word) without a comment saying why"))
      }
    }
    return findings
  }

  private static let forbidden = [
    ("nonisolated(unsafe)", "nonisolated(unsafe): use a lock"),
    ("fatalError(", "fatalError: throw, or state a precondition"),
    ("import Foundation", "Foundation is 60 MB and slow; Glibc has it"),
  ]

  /// Names that say nothing: of files, and of types.
  private static func names(_ file: SourceFile) -> [Finding] {
    let empty = ["Manager", "Helper", "Helpers", "Utils", "Utilities", "Util"]
    var findings: [Finding] = []
    let fileName = file.path.split(separator: "/").last?.split(separator: ".").first.map(String.init) ?? ""
    if empty.contains(where: { fileName.hasSuffix($0) }) {
      findings.append(Finding(path: file.path, line: 1, fault: "a file's name says what it holds"))
    }
    for (index, line) in file.code.enumerated() {
      let words = line.split { " :<{(".contains($0) }
      for (word, name) in zip(words, words.dropFirst())
      where ["struct", "class", "enum", "protocol", "actor"].contains(word)
        && empty.contains(where: { name.hasSuffix($0) })
      {
        findings.append(
          Finding(path: file.path, line: index + 1, fault: "\(name): a type's name says what it is"))
      }
    }
    return findings
  }
}
