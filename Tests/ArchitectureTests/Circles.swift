/// Circles of files: files of a target that refer to each other, directly or through others, so that a reader
/// needs all of them to understand one.
///
/// A file refers to another when it names a type, a function or a value that the other declares at its top.
/// Extensions declare nothing, so `X+Y.swift` is in no circle unless it declares something too.
enum Circles {
  /// The most files that a circle may have.
  static let most = 8

  /// The circles of one target's files that are larger than `most`.
  static func check(_ files: [SourceFile]) -> [Finding] {
    circles(files).filter { $0.count > most }.map { circle in
      let names = circle.map { $0.split(separator: "/").last.map(String.init) ?? $0 }
      return Finding(
        path: circle[0], line: 1,
        fault: "a circle of \(circle.count) files: \(names.joined(separator: ", "))")
    }
  }

  /// Every circle of two files or more, by their paths.
  static func circles(_ files: [SourceFile]) -> [[String]] {
    var home: [Substring: Int] = [:]
    for (index, file) in files.enumerated() {
      for line in file.code { if let name = declared(line) { home[name] = index } }
    }
    let next = files.enumerated().map { index, file in
      Set(file.code.flatMap { words($0) }.compactMap { home[$0] }).subtracting([index])
    }
    let reach = next.indices.map { reachable(from: $0, next) }
    var found: [[String]] = []
    var seen: Set<Int> = []
    for index in files.indices where !seen.contains(index) && reach[index].contains(index) {
      let circle = reach[index].filter { reach[$0].contains(index) }.sorted()
      seen.formUnion(circle)
      found.append(circle.map { files[$0].path })
    }
    return found
  }

  private static func reachable(from start: Int, _ next: [Set<Int>]) -> Set<Int> {
    var found: Set<Int> = []
    var waiting = [start]
    while let file = waiting.popLast() {
      for other in next[file] where found.insert(other).inserted { waiting.append(other) }
    }
    return found
  }

  /// The name that a line declares at the top of its file.
  private static func declared(_ line: String) -> Substring? {
    guard line.first != " " else { return nil }
    let kinds = ["class", "struct", "enum", "protocol", "actor", "typealias", "func", "let", "var"]
    let words = words(line)
    guard let kind = words.firstIndex(where: { kinds.contains(String($0)) }), kind + 1 < words.count,
      !words[..<kind].contains("extension"), !words[..<kind].contains("private"),
      !words[..<kind].contains("fileprivate")
    else { return nil }
    return words[kind + 1]
  }

  private static func words(_ line: String) -> [Substring] {
    line.split { !$0.isLetter && !$0.isNumber && $0 != "_" }
  }
}
