import ChatModel

// What the upstream said that no table keeps; its messages and channels are the cache's records.

/// What the upstream says of a user.
package struct UserRecord: Sendable, Equatable {
  /// The upstream's id.
  package var userID: String
  /// False: deactivated.
  package var isActive: Bool
  /// The user as the API answers it, with braces.
  package var body: [UInt8]
  /// The name people see, where it was told.
  package var nickname: String?
}

/// A page of a list, with what could not be read of it.
package struct UpstreamPage<Item: Sendable>: Sendable {
  /// What could be read.
  package var items: [Item]
  /// Where the list goes on, nil at its end.
  package var next: String?
  /// The upstream's clock at the answer (ms), where it says it.
  package var at: Int64?
  /// Items that could not be read and were left out: the page proves nothing about them (B35).
  package var unreadable: Int
  /// The names of those items, where their names could be read.
  package var unreadableNames: [String] = []
  /// Whether the last item of the list could be read.
  package var isEndRead = true
  /// The indexes in `items` before which an unreadable item was left out; the count of `items`: at the end.
  package var breaks: [Int] = []
}
