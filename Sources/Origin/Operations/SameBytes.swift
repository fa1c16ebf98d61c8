// Ids are compared by their bytes, as SQLite compares them. Swift's `==`, `Set` and `Dictionary` compare
// texts by Unicode equivalence, which takes `K` and U+212A for the same.

extension String {
  /// Whether both texts are the same bytes.
  func hasSameBytes(as other: String?) -> Bool { other.map { utf8.elementsEqual($0.utf8) } ?? false }
}

extension [String] {
  /// Each text once, in the order of their bytes.
  var onceByBytes: [String] {
    var once: [String] = []
    for text in sorted(by: { $0.utf8.lexicographicallyPrecedes($1.utf8) })
    where !text.hasSameBytes(as: once.last) {
      once.append(text)
    }
    return once
  }

  /// Whether one of the texts is these bytes.
  func contains(bytesOf text: String) -> Bool { contains { $0.hasSameBytes(as: text) } }
}
