import Glibc

/// docs/words.md: the files that it names, and the words that were given up.
enum Glossary {
  /// The page of the words.
  static let page = "docs/words.md"

  /// What keeps the words of its time: the page itself, old schemas and the test that makes them.
  private static let kept = [
    page, "Sources/ChatCache/Schema/", "Tests/ChatCacheTests/Schema/MigrationTests.swift",
  ]

  /// The words in the first column below the page's heading "Given up".
  static func givenUp(_ text: String) -> [String] {
    var isBelow = false
    var words: [String] = []
    for line in text.split(separator: "\n") {
      if line.hasPrefix("## ") { isBelow = line == "## Given up" }
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
          Finding(path: file.path, line: index + 1, what: "\(word) was given up: see \(page)"))
      }
    }
    return findings
  }

  private static func uses(_ line: String, _ word: String) -> Bool {
    let isPart = !word.contains { $0.isUppercase }
    return line.split { !$0.isLetter && !$0.isNumber }.contains { name in
      guard isPart else { return name == word }
      return parts(name).contains {
        $0 == word || $0 == word + "s" || ($0 == word + "es" && word.hasSuffix("h"))
      }
    }
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
