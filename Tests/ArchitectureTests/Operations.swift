/// The operations of the contract and those of the routes.
enum Operations {
  /// `METHOD path` by operationId, read from the contract's text: paths are keys at two spaces, methods at
  /// four.
  static func contract(_ yaml: String) -> [String: String] {
    var found: [String: String] = [:]
    var path = ""
    var method = ""
    for line in yaml.split(separator: "\n") {
      let indent = line.prefix { $0 == " " }.count
      let text = line.dropFirst(indent)
      if indent == 2, text.hasPrefix("/"), text.hasSuffix(":") { path = String(text.dropLast()) }
      if indent == 4, text.hasSuffix(":") { method = text.dropLast().uppercased() }
      if indent == 6, text.hasPrefix("operationId: ") {
        found[String(text.dropFirst("operationId: ".count))] = "\(method) \(path)"
      }
    }
    return found
  }

  /// The same, read from `Route(.get, "/path", operation: "name")` in a file.
  static func routes(_ file: SourceFile) -> [String: String] {
    var found: [String: String] = [:]
    let text = file.lines.joined(separator: "\n")
    for piece in text.split(separator: "Route(", omittingEmptySubsequences: false).dropFirst() {
      let parts = piece.prefix(300).split(separator: "\"", maxSplits: 4, omittingEmptySubsequences: false)
      guard parts.count == 5, parts[1].hasPrefix("/"), parts[2].contains("operation:") else { continue }
      let method = parts[0].drop { $0 != "." }.dropFirst().prefix { $0.isLetter }.uppercased()
      found[String(parts[3])] = "\(method) \(parts[1])"
    }
    return found
  }
}
