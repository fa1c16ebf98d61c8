/// Which target may import which. The table is the block in docs/architecture.md. SwiftPM accepts undeclared
/// imports, so this reads the imports.
struct Arrows {
  /// The modules that every target may import.
  static let free: Set<String> = ["Platform", "Glibc", "Synchronization"]

  private let table: [String: Set<String>]

  /// Reads lines such as `JSON → CSimdjson` inside the block that is fenced with `arrows`.
  init(document: String) {
    var table: [String: Set<String>] = [:]
    var isInside = false
    for line in document.split(separator: "\n", omittingEmptySubsequences: false) {
      if line.hasPrefix("```") { isInside = line == "```arrows" }
      let sides = line.split(separator: "→")
      guard isInside, sides.count == 2, let name = sides[0].split(separator: " ").first else { continue }
      let names = sides[1].split { " ,".contains($0) }.map(String.init)
      table[String(name)] = names == ["nothing"] ? [] : Set(names)
    }
    self.table = table
  }

  /// The targets in the table.
  var targets: Set<String> { Set(table.keys) }

  /// Imports that follow no arrow.
  func check(_ file: SourceFile) -> [Finding] {
    guard let allowed = table[file.target] else {
      return [Finding(path: file.path, line: 1, fault: "\(file.target) is not in docs/architecture.md")]
    }
    return file.code.enumerated().compactMap { index, line in
      let words = line.split { " .".contains($0) }
      guard let importIndex = words.firstIndex(of: "import"), importIndex + 1 < words.count,
        words[..<importIndex].allSatisfy({
          $0.hasPrefix("@") || ["package", "public", "internal", "private"].contains($0)
        })
      else { return nil }
      let kinds: Set<Substring> = ["struct", "class", "enum", "func", "protocol", "typealias", "var", "let"]
      let hasKind = kinds.contains(words[importIndex + 1]) && importIndex + 2 < words.count
      let module = String(words[importIndex + (hasKind ? 2 : 1)])
      if allowed.contains(module) || allowed.contains("all") && module != "Foundation"
        || Arrows.free.contains(module)
      {
        return nil
      }
      return Finding(path: file.path, line: index + 1, fault: "\(file.target) may not import \(module)")
    }
  }
}
