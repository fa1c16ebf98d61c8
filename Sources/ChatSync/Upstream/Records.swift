import ChatModel

// Answers of the upstream that no table keeps. ChatCache has the records of messages and channels.

/// What the upstream says of a user.
package struct UserRecord: Sendable, Equatable {
  /// The upstream's id.
  package var userID: String
  /// False: the user is deactivated.
  package var isActive: Bool
  /// The user as the API answers it, with braces.
  package var body: [UInt8]
  /// The name that people see; nil: the answer lacks it.
  package var nickname: String?
}

/// A page of a list, with the number and names of the items that could not be read.
package struct UpstreamPage<Item: Sendable>: Sendable {
  /// The items that could be read.
  package var items: [Item]
  /// Where the list goes on, nil at its end.
  package var next: String?
  /// The upstream's clock at the answer (ms), if the answer has it.
  package var at: Int64?
  /// Items that could not be read and were left out: the page proves nothing about them (B35).
  package var unreadable: Int
  /// The names of the unreadable items whose name could be read.
  package var unreadableNames: [String] = []
  /// Whether the last item of the list could be read.
  package var isEndRead = true
  /// The indexes in `items` before which unreadable items were left out; `items.count`: at the end.
  package var breaks: [Int] = []
}
