/// The form of the pages in docs/decisions.
enum Decisions {
  /// The faults of a page. It must have `# 0001. What was decided`, a line with the date, no second main
  /// heading, and a row in the index.
  static func check(_ path: String, _ text: String, index: String) -> [Finding] {
    let lines = text.split(separator: "\n", omittingEmptySubsequences: false).map(String.init)
    let name = path.split(separator: "/").last.map(String.init) ?? path
    let number = String(name.prefix(4))
    var faults: [String] = []
    if number.count != 4 || Int(number) == nil { faults.append("its name has no number") }
    let title = lines.first ?? ""
    if !title.hasPrefix("# \(number). ") { faults.append("it does not begin with # \(number). and a title") }
    let isDated = lines.count > 2 && lines[2].wholeMatch(of: #/\d{4}-\d{2}-\d{2}/#) != nil
    if !isDated { faults.append("its third line is no date") }
    if lines.dropFirst().contains(where: { $0.hasPrefix("# ") }) {
      faults.append("it has a second main heading")
    }
    let row = "| [\(number)](\(name)) | \(title.dropFirst(8)) |"
    if !index.contains(row) { faults.append("docs/decisions/README.md does not have \(row)") }
    return faults.map { Finding(path: path, line: 1, fault: $0) }
  }
}
