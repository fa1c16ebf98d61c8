/// The limits on sizes. A line's width counts characters.
enum Sizes {
  static let fileLines = 500
  static let functionLines = 60
  static let lineColumns = 110
  /// The goal for the median of the source files' lines; reported, not enforced.
  static let medianLines = 130

  static func check(_ file: SourceFile) -> [Finding] {
    var findings = functions(file)
    if file.lines.count > fileLines {
      findings.append(Finding(path: file.path, line: fileLines, fault: "\(file.lines.count) lines in a file"))
    }
    // A line with a text in a test, such as raw bytes of a protocol, may be longer.
    for (index, line) in file.lines.enumerated()
    where line.count > lineColumns && !(file.path.hasPrefix("Tests/") && line.contains("\"")) {
      findings.append(Finding(path: file.path, line: index + 1, fault: "\(line.count) columns"))
    }
    return findings
  }

  private static func functions(_ file: SourceFile) -> [Finding] {
    var findings: [Finding] = []
    for (index, line) in file.code.enumerated() where begins(line) {
      guard let length = length(file, from: index), length > functionLines else { continue }
      findings.append(Finding(path: file.path, line: index + 1, fault: "\(length) lines in a function"))
    }
    return findings
  }

  private static func begins(_ line: String) -> Bool {
    let words = line.split { " (<?!".contains($0) }
    return words.contains("func") || words.first.map { ["init", "deinit", "subscript"].contains($0) } == true
      || (words.contains("init") && (line.contains("package init") || line.contains("private init")))
  }

  /// Lines from the declaration to the brace that closes its body; nil for a requirement, which has none.
  private static func length(_ file: SourceFile, from start: Int) -> Int? {
    var depth = 0
    for index in start..<file.code.count {
      for character in file.code[index] {
        if character == "{" { depth += 1 }
        if character == "}" { depth -= 1 }
        if depth < 0 { return nil }
        if depth == 0, character == "}" { return index - start + 1 }
      }
      let isBlank = file.code[index].allSatisfy { $0 == " " }
      if depth == 0, index > start, isBlank { return nil }
    }
    return nil
  }
}
