/// The rules of docs/rules.md: their numbers, whether tests name them, and whether the files that they name
/// exist.
enum Rules {
  /// The page of the rules.
  static let page = "docs/rules.md"

  /// One rule of the page.
  struct Rule: Equatable {
    let number: Int
    /// The line at which the rule begins.
    let line: Int
    /// False where the page says "Not yet." of the whole rule.
    var isBuilt = true
  }

  /// The rules of the page, each below a heading such as `### B12 Pages of messages`.
  static func read(_ text: String) -> [Rule] {
    var rules: [Rule] = []
    for (index, line) in lines(text).enumerated() {
      if line.hasPrefix("### B"), let number = numbers(line).first {
        rules.append(Rule(number: number, line: index + 1))
      } else if line == "Not yet.", !rules.isEmpty {
        rules[rules.count - 1].isBuilt = false
      }
    }
    return rules
  }

  /// Where a text names a rule that the page does not have.
  static func unknown(_ text: String, path: String, _ rules: [Rule]) -> [Finding] {
    let known = Set(rules.map(\.number))
    var findings: [Finding] = []
    for (index, line) in lines(text).enumerated() {
      for number in numbers(line) where !known.contains(number) {
        findings.append(Finding(path: path, line: index + 1, fault: "B\(number) is not in \(page)"))
      }
    }
    return findings
  }

  /// The rules that are built and that no test names.
  static func untested(_ rules: [Rule], _ tests: [SourceFile]) -> [Finding] {
    var named: Set<Int> = []
    for file in tests { named.formUnion(names(file)) }
    var findings: [Finding] = []
    for rule in rules where rule.isBuilt && !named.contains(rule.number) {
      findings.append(Finding(path: page, line: rule.line, fault: "no test names B\(rule.number)"))
    }
    return findings
  }

  /// The files below Sources that a page names and that do not exist.
  static func missingFiles(
    _ text: String, of page: String = Rules.page, isThere: (String) -> Bool
  ) -> [Finding] {
    var findings: [Finding] = []
    for (index, line) in lines(text).enumerated() {
      for name in line.split(separator: "`") where name.hasSuffix(".swift") || name.hasSuffix(".sql") {
        let file = name.split(separator: " ").last ?? name
        let isWhole = file.hasPrefix("Tests/") || file.hasPrefix("Sources/")
        let path = isWhole ? String(file) : "Sources/\(file)"
        if isThere(path) { continue }
        findings.append(Finding(path: page, line: index + 1, fault: "\(path) is not there"))
      }
    }
    return findings
  }

  /// The rules in the names of a file's tests and suites, and in the comments above its suites.
  private static func names(_ file: SourceFile) -> Set<Int> {
    var found: Set<Int> = []
    var comment: [Int] = []
    var isNameNext = false
    for line in file.lines {
      let text = line.drop { $0 == " " }
      if text.hasPrefix("///") {
        comment += numbers(text)
        continue
      }
      if text.hasPrefix("@Suite") { found.formUnion(comment) }
      if isNameNext || text.hasPrefix("@Test(") || text.hasPrefix("@Suite(") {
        found.formUnion(numbers(text))
      }
      isNameNext = text == "@Test(" || text == "@Suite("
      comment = []
    }
    return found
  }

  /// The numbers of the rules that a line names: B and one or two digits, as a word of its own.
  private static func numbers(_ line: Substring) -> [Int] {
    let bytes = Array(line.utf8)
    var found: [Int] = []
    for (index, byte) in bytes.enumerated() where byte == UInt8(ascii: "B") {
      if index > 0, isPartOfWord(bytes[index - 1]) || bytes[index - 1] == UInt8(ascii: "%") { continue }
      let digits = bytes[(index + 1)...].prefix { isDigit($0) }
      let end = index + 1 + digits.count
      guard (1...2).contains(digits.count), end == bytes.count || !isPartOfWord(bytes[end]) else { continue }
      found.append(digits.reduce(0) { $0 * 10 + Int($1) - 48 })
    }
    return found
  }

  private static func isDigit(_ byte: UInt8) -> Bool { (48...57).contains(byte) }

  private static func isPartOfWord(_ byte: UInt8) -> Bool {
    isDigit(byte) || (65...90).contains(byte) || (97...122).contains(byte) || byte == UInt8(ascii: "_")
  }

  private static func lines(_ text: String) -> [Substring] {
    text.split(separator: "\n", omittingEmptySubsequences: false)
  }
}
