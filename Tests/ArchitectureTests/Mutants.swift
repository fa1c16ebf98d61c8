/// The breaks of Tests/Mutants/mutants.txt, as far as they can be checked without building them.
enum Mutants {
  /// How many there are at least.
  static let fewest = 40

  /// What does not apply: the line that a mutant breaks is found in its file exactly once. `text` reads a
  /// file.
  static func check(_ list: String, text: (String) -> String) -> [Finding] {
    var findings: [Finding] = []
    var file = ""
    for (index, line) in list.split(separator: "\n", omittingEmptySubsequences: false).enumerated() {
      if line.hasPrefix("Sources/") { file = String(line) }
      guard line.hasPrefix("- ") else { continue }
      let old = line.dropFirst(2).filter { $0 != "‹" && $0 != "›" }
      let count = text(file).ranges(of: old).count
      if count != 1 {
        findings.append(
          Finding(
            path: "Tests/Mutants/mutants.txt", line: index + 1,
            fault: "\(file) holds this \(count) times: break what stands there now"))
      }
    }
    return findings
  }

  /// How many mutants a list holds.
  static func count(_ list: String) -> Int {
    list.split(separator: "\n").count { $0.hasPrefix("== ") }
  }
}
