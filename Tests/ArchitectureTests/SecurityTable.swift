/// Checks that the sources have the bounds of docs/security.md with the same values.
enum SecurityTable {
  /// One row of the table of bounds.
  struct Row: Equatable {
    let name: String
    let value: String
    /// Below Sources.
    let path: String
  }

  /// The rows whose last three columns are a name in code, a value and a Swift file.
  static func rows(_ document: String) -> [Row] {
    document.split(separator: "\n").compactMap { line in
      let cells = line.split(separator: "|").map { $0.split(separator: " ").joined(separator: " ") }
      guard cells.count == 4, cells[3].hasSuffix(".swift"), cells[1].hasPrefix("`") else { return nil }
      return Row(name: String(cells[1].dropFirst().dropLast()), value: cells[2], path: cells[3])
    }
  }

  /// A finding unless a line of the source declares the row's name with its value.
  static func check(_ row: Row, in source: SourceFile) -> [Finding] {
    let isThere = source.code.contains { line in
      let words = line.split { !($0.isLetter || $0.isNumber) }
      let isDeclared = zip(words, words.dropFirst()).contains {
        ["let", "var"].contains($0) && $1 == row.name
      }
      return isDeclared && holds(line, row.value)
    }
    let fault = "\(row.name) is not declared here as \(row.value), as docs/security.md says"
    return isThere ? [] : [Finding(path: source.path, line: 1, fault: fault)]
  }

  /// Whether a value stands in a line as a number of its own: 200 is not found in 2000.
  private static func holds(_ line: String, _ value: String) -> Bool {
    let isPart = { (character: Character?) in character.map { $0.isNumber || $0 == "_" } ?? false }
    return line.ranges(of: value).contains { range in
      let before = range.lowerBound == line.startIndex ? nil : line[line.index(before: range.lowerBound)]
      let after = range.upperBound == line.endIndex ? nil : line[range.upperBound]
      return !isPart(before) && !isPart(after)
    }
  }
}
