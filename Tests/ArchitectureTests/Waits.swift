/// No thread that serves clients waits for a commit: such code parks a request and is called back.
enum Waits {
  /// The targets whose code runs on worker threads.
  private static let served: Set<String> = ["ChatAPI", "ChatCollections", "ChatSync", "MicroHTTP"]

  static func check(_ file: SourceFile) -> [Finding] {
    guard served.contains(file.target) else { return [] }
    return file.lines.indices.compactMap { index in
      guard file.code(index, contains: ".blocking") else { return nil }
      return Finding(
        path: file.path, line: index + 1,
        fault: "a commit is not waited for here: use accept or write with finish, and DurableWrite in ChatAPI"
      )
    }
  }
}
