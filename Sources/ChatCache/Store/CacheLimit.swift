/// The maximum size of the cache, and the order in which the messages of channels are evicted (B55, B56).
///
/// The text of an order is `accessOrder`, or fields with commas between them, each `field`, `field:asc` or
/// `field:desc`.
package struct CacheLimit: Sendable, Equatable {
  /// One field of the order.
  package struct Term: Sendable, Equatable {
    /// The compared field.
    package let field: CachedChannelOrder
    /// Whether the channel with the largest value is evicted first.
    package let isDescending: Bool

    /// A field and its direction.
    package init(_ field: CachedChannelOrder, isDescending: Bool = false) {
      self.field = field
      self.isDescending = isDescending
    }
  }

  /// The smallest limit that can be set, in bytes.
  package static let leastBytes: Int64 = 64 << 20
  /// The name of the default order: the channel used longest ago first, then the older last message.
  package static let accessOrder = "message_collection_accessed_at"
  private static let accessTerms = [Term(.accessedAt), Term(.lastMessageAt)]

  /// The limit, in bytes.
  package private(set) var bytes: Int64 = 256 << 20
  /// The fields that order the channels, the most important field first.
  package private(set) var order = CacheLimit.accessTerms
  /// Warnings for the log about values that were replaced.
  package private(set) var warnings: [String] = []

  /// 256 MB and the default order.
  package init() {}

  /// Takes settings. Too small a limit is raised, and an unreadable order is replaced by the default.
  package init(bytes: Int64, order: String) {
    self.bytes = max(bytes, CacheLimit.leastBytes)
    if bytes < CacheLimit.leastBytes {
      warnings.append("the cache's limit is raised to 64MB, the smallest limit")
    }
    guard order != CacheLimit.accessOrder else { return }
    if let terms = CacheLimit.terms(order) {
      self.order = terms
    } else {
      let fields = CachedChannelOrder.allCases.map(\.rawValue).joined(separator: ", ")
      warnings.append("the clear order cannot be read: give some of \(fields), each with :asc or :desc")
    }
  }

  /// A limit of any size, for tests with small files.
  package init(exactly bytes: Int64, order: [Term]? = nil) {
    self.bytes = bytes
    if let order { self.order = order }
  }

  private static func terms(_ text: String) -> [Term]? {
    var terms: [Term] = []
    for part in text.split(separator: ",", omittingEmptySubsequences: false) {
      let words = part.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
      guard let name = words.first, let field = CachedChannelOrder(rawValue: String(name)),
        !terms.contains(where: { $0.field == field }),
        words.count == 1 || words[1] == "asc" || words[1] == "desc"
      else { return nil }
      terms.append(Term(field, isDescending: words.count == 2 && words[1] == "desc"))
    }
    return terms.isEmpty ? nil : terms
  }
}
