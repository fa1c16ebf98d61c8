/// Names are compared by their bytes (B1). So no possible id is the key of a dictionary or set as a plain
/// `String`, which Swift compares by Unicode equivalence. Use the id types, `ExactText` or `TextMap` instead.
enum Keys {
  private static let targets: Set<String> = [
    "ChatModel", "ChatCache", "ChatCollections", "ChatSync", "ChatAPI",
  ]

  /// Files whose keys are words of the program, of SQLite or of a request's form, and not ids.
  private static let words: Set<String> = [
    "Sources/ChatCache/Channels/StoringMemberships.swift",  // the words of hidden_state
    "Sources/ChatCache/Integrity/FileCheck.swift",  // names of indexes
    "Sources/ChatCache/Integrity/ChannelCheck.swift",  // kinds of fault
    "Sources/ChatCollections/Requests/BodyFields.swift",  // names of fields, looked up by the program's own
  ]

  /// Dictionaries and sets of plain texts that may be ids.
  static func check(_ file: SourceFile) -> [Finding] {
    guard targets.contains(file.target), !words.contains(file.path) else { return [] }
    return file.code.indices.compactMap { index in
      let isKeyed = ["[String:", "[String :", "Set<String>", "Dictionary<String,"].contains {
        file.code(index, contains: $0)
      }
      guard isKeyed else { return nil }
      return Finding(
        path: file.path, line: index + 1,
        fault: "a String as a key is compared by Unicode equivalence: use an id type, ExactText or TextMap")
    }
  }
}

/// Rights are checked again before a held request is answered (B1). So requests are parked in one file that
/// checks them, and in a few others that need not.
enum Parkings {
  private static let known: Set<String> = [
    "Sources/ChatAPI/Requests/Holding.swift",  // checks the rights for all others
    "Sources/ChatAPI/Collections/Poll.swift",  // checks the rights itself, more closely
    "Sources/ChatAPI/Connection/ConnectionRoutes.swift",  // disconnect: answers with its result
    "Sources/ChatAPI/Requests/DurableWrite.swift",  // writes: answer with their result
    "Sources/ChatAPI/Webhooks/SendbirdWebhookRoute.swift",  // has no caller
    "Sources/ChatAPI/Sending/SendProgress.swift",  // checks the rights itself at each turn
  ]

  /// Requests that are parked elsewhere.
  static func check(_ file: SourceFile) -> [Finding] {
    guard file.target == "ChatAPI", !known.contains(file.path) else { return [] }
    return file.code.indices.compactMap { index in
      guard file.code(index, contains: "Parking(") else { return nil }
      return Finding(
        path: file.path, line: index + 1,
        fault: "park with RouteContext.hold, which looks at the rights again"
      )
    }
  }
}
