/// Joins JavaScript modules into one script for browsers.
enum PageScript {
  /// The modules one after another, without their imports of each other and without the word `export`. Each
  /// module comes after those that it imports, and no two have a name in common.
  static func joined(_ modules: [[UInt8]]) -> [UInt8] {
    var joined: [UInt8] = []
    for module in modules {
      for line in module.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false) {
        let isImport = line.starts(with: "import ".utf8)
        if isImport, String(decoding: line, as: UTF8.self).contains("from \"./") { continue }
        joined += line.starts(with: "export ".utf8) ? line.dropFirst(7) : line
        joined.append(UInt8(ascii: "\n"))
      }
    }
    return joined
  }
}
