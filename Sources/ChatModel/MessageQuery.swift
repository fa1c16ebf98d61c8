/// Which messages of a channel a page or a view shows, and which of their parts (B12).
package struct MessageQuery: Hashable, Sendable {
  /// The kinds of message. Other: a kind that this program does not know, kept as it came.
  package enum Kind: Int64, Sendable, CaseIterable { case user = 0, file, admin, other }

  /// How replies are treated.
  package enum Replies: String, Sendable, CaseIterable {
    /// No replies.
    case none
    /// All replies, among the other messages.
    case all
    /// Only those replies that are shown in the channel too.
    case onlyReplyToChannel = "only_reply_to_channel"
  }

  /// The optional parts of a message.
  package struct Parts: OptionSet, Hashable, Sendable {
    /// One bit for each part.
    package let rawValue: UInt8
    /// The parts of these bits.
    package init(rawValue: UInt8) { self.rawValue = rawValue }
    /// The reactions, and the users who reacted.
    package static let reactions = Parts(rawValue: 1)
    /// The sorted meta array.
    package static let metaarray = Parts(rawValue: 2)
    /// The number of replies, and their senders.
    package static let threadInfo = Parts(rawValue: 4)
    /// The message this one replies to.
    package static let parentMessage = Parts(rawValue: 8)
  }

  /// Only this kind, or every kind.
  package var kind: Kind?
  /// Only these custom types ("" = without one), or every type where empty.
  package var customTypes: [ExactText] = []
  /// Only these senders, or everybody where empty.
  package var senders: [ExactText] = []
  /// How replies are treated outside a thread.
  package var replies = Replies.none
  /// Only the replies to this message.
  package var parent: Int64?
  /// The optional parts that the answer has.
  package var parts: Parts = []

  /// Everything but replies, without optional parts: the default.
  package init() {}

  /// Whether the query has no filter besides `replies`: the hot path.
  package var isPlain: Bool { kind == nil && customTypes.isEmpty && senders.isEmpty && parent == nil }
}
