/// Where rows of the table `message` are changed.
enum MessageRows {
  /// Changes bodies and versions alone, by which nothing is counted.
  private static let uncounted = "Sources/ChatCache/Outbox/AnsweredSends.swift"
  private static let changes = ["INTO message", "DELETE FROM message", "UPDATE message"]

  /// The changes in files that do not tell them to the counts that the writer keeps (decision 0062).
  static func check(_ file: SourceFile) -> [Finding] {
    guard file.target == "ChatCache", file.path != uncounted,
      !file.lines.contains(where: { $0.contains("noteMessage") })
    else { return [] }
    return file.lines.indices.compactMap { index in
      // The table's name ends the line, or a space follows it.
      let line = file.lines[index] + " "
      guard changes.contains(where: { line.contains($0 + " ") }) else { return nil }
      return Finding(
        path: file.path, line: index + 1, fault: "call noteMessage or noteMessagesDeleted beside the change")
    }
  }
}
