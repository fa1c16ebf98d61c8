import Glibc

/// docs/words.md: the words that were given up, and their uses.
enum Glossary {
  /// The page of the words.
  static let page = "docs/words.md"

  /// Files that may use words that were given up: the page itself, old schemas and the test that makes them.
  private static let kept = [
    page, "Sources/ChatCache/Schema/", "Tests/ChatCacheTests/Schema/MigrationTests.swift",
  ]

  /// The words in the first column below one of the page's headings.
  static func givenUp(_ text: String, below heading: String = "Given up") -> [String] {
    var isBelow = false
    var words: [String] = []
    for line in text.split(separator: "\n") {
      if line.hasPrefix("## ") { isBelow = line == "## \(heading)" }
      guard isBelow, line.hasPrefix("| `"), let cell = line.split(separator: "|").first else { continue }
      let pieces = cell.split(separator: "`", omittingEmptySubsequences: false)
      words += pieces.indices.filter { $0 % 2 == 1 }.map { String(pieces[$0]) }
    }
    return words
  }

  /// Where a file uses one of the words: one that begins with a capital as a name in Swift code, others
  /// anywhere, also as a part of a name.
  static func check(_ words: [String], _ file: SourceFile) -> [Finding] {
    if kept.contains(where: { file.path.hasPrefix($0) }) { return [] }
    let text = file.lines.joined(separator: "\n").lowercased()
    var findings: [Finding] = []
    for word in words where strstr(text, word.lowercased()) != nil {
      let isName = word.first?.isUppercase ?? false
      if isName, !file.path.hasSuffix(".swift") { continue }
      for (index, line) in (isName ? file.code : file.lines).enumerated() where uses(line, word) {
        findings.append(
          Finding(path: file.path, line: index + 1, fault: "\(word) was given up: see \(page)"))
      }
    }
    return findings
  }

  /// Where Swift code uses one of the words as a part of a name. Texts and comments may use them, and so may
  /// names with underscores, which are C's.
  static func checkNames(_ words: [String], _ file: SourceFile) -> [Finding] {
    guard file.path.hasSuffix(".swift") else { return [] }
    return words.flatMap { word in
      file.code.indices.filter { names(file.code[$0], word) }.map {
        Finding(path: file.path, line: $0 + 1, fault: "\(word) was given up in names: see \(page)")
      }
    }
  }

  private static func names(_ line: String, _ word: String) -> Bool {
    line.split { !$0.isLetter && !$0.isNumber && $0 != "_" }.contains {
      !$0.contains("_") && holds($0, word)
    }
  }

  private static func uses(_ line: String, _ word: String) -> Bool {
    let isPart = !word.contains { $0.isUppercase }
    return line.split { !$0.isLetter && !$0.isNumber }.contains { isPart ? holds($0, word) : $0 == word }
  }

  /// Whether a part of the name is the word, or more than one of it.
  private static func holds(_ name: Substring, _ word: String) -> Bool {
    parts(name).contains { $0 == word || $0 == word + "s" || ($0 == word + "es" && word.hasSuffix("h")) }
  }

  /// The words of a name such as `lookIntoNotes`, in small letters.
  private static func parts(_ name: Substring) -> [String] {
    var parts = [""]
    var wasSmall = false
    for letter in name {
      if letter.isUppercase, wasSmall { parts.append("") }
      wasSmall = letter.isLowercase
      parts[parts.count - 1] += letter.lowercased()
    }
    return parts
  }
}
