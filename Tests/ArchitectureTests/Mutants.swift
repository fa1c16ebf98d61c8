/// Checks of Tests/Mutants/mutants.txt that need no build.
enum Mutants {
  /// The least number of mutants.
  static let fewest = 250

  /// The mutants that cannot be applied: the line that a mutant breaks must be in its file exactly once, and
  /// each mutant has a name of its own. `text` reads a file.
  static func check(_ list: String, text: (String) -> String) -> [Finding] {
    var findings: [Finding] = []
    var file = ""
    var names: Set<Substring> = []
    for (index, line) in list.split(separator: "\n", omittingEmptySubsequences: false).enumerated() {
      if line.hasPrefix("Sources/") { file = String(line) }
      if line.hasPrefix("== "), let name = line.split(separator: ":").first, !names.insert(name).inserted {
        findings.append(
          Finding(
            path: "Tests/Mutants/mutants.txt", line: index + 1, fault: "another mutant has this name"))
      }
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
