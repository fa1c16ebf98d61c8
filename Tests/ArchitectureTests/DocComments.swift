/// Symbols that cross targets must have a doc comment.
enum DocComments {
  /// Requirements of the standard library's protocols are documented there.
  private static let known = ["func ==", "func <", "func hash(into", "var description", "func encode(to"]

  static func check(_ file: SourceFile) -> [Finding] {
    file.code.indices.compactMap { index in
      let words = file.code[index].split(separator: " ")
      let modifiers = words.prefix { $0.hasPrefix("@") || isModifier($0) }
      guard modifiers.contains("package") || modifiers.contains("public"),
        words.count > modifiers.count, !["import", "extension"].contains(words[modifiers.count]),
        !known.contains(where: { file.code[index].contains($0) })
      else { return nil }
      var above = index - 1
      while above >= 0, file.code[above].drop(while: { $0 == " " }).hasPrefix("@") { above -= 1 }
      if above >= 0, file.lines[above].drop(while: { $0 == " " }).hasPrefix("///") { return nil }
      return Finding(path: file.path, line: index + 1, fault: "a package symbol without a doc comment")
    }
  }

  private static func isModifier(_ word: Substring) -> Bool {
    [
      "package", "public", "static", "final", "mutating", "consuming", "borrowing", "indirect", "lazy",
      "override",
      "nonisolated", "private(set)", "internal(set)", "fileprivate(set)", "convenience", "required",
    ].contains(word)
  }
}
