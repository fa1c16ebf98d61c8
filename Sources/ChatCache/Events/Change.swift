import ChatModel
import Platform

/// One row of the event log: what changed, for whom, and why. The state itself is read when it is delivered.
package struct Change: Sendable, Equatable {
  /// What happened.
  package var kind: ChangeKind
  /// Where it came from.
  package var source: ChangeSource
  /// The channel it happened in, or nil.
  package var channel: ChannelKey?
  /// The only user it concerns, or nil for everybody who may see it.
  package var user: UserKey?
  /// The only collection it concerns, or nil.
  package var collection: String?
  /// The stretch of positions in which rows carry this change's sequence as their version.
  package var stretch: ClosedRange<Position>?
  /// The id of the request, gap, message or member that changed; of the link, its state.
  package var reference: String?
  /// Values that the tables do not have, as JSON fields without braces.
  package var detail: [UInt8]?

  /// The detail of a change of coverage by which an evicted stretch is cached again: a client may have kept
  /// messages that were deleted since (B58).
  package static let cachedAgain = Array("\"is_cached_again\":true".utf8)

  /// The detail of a change of messages that were stored before and become visible with its commit.
  package static let uncovers = Array("\"uncovers\":true".utf8)

  /// The detail of a user's change that moved the read position and the counts of unread messages alone.
  package static let readsOn = Array("\"reads_on\":true".utf8)

  /// The detail of a change of coverage whose messages other changes of the same commit tell of.
  package static let messagesAreTold = Array("\"messages_are_told\":true".utf8)

  /// The detail of the one change of coverage that tells of all that a pass evicted of a channel (B57).
  package static let evicts = Array("\"evicts\":true".utf8)

  /// A change of `kind`, with nothing else said yet.
  package init(_ kind: ChangeKind, _ source: ChangeSource, channel: ChannelKey? = nil, user: UserKey? = nil) {
    self.kind = kind
    self.source = source
    self.channel = channel
    self.user = user
  }

  /// Whether the messages of this change are old or new to a client that follows the channel.
  package var age: MessageAge { MessageAge.allCases.first { $0.detail == detail } ?? .unknown }

  /// The member who has read on, if nothing else of the channel changed.
  package var readingMember: ExactText? {
    kind == .channel && source == .read ? reference.map { ExactText($0) } : nil
  }
}

/// A change with its sequence in the log.
package struct LoggedChange: Sendable, Equatable {
  /// Its sequence.
  package let sequence: Int64
  /// When it was committed (wall clock, ms).
  package let at: Int64
  /// What changed.
  package let change: Change
}

/// Whether messages are old or new to a client that follows the channel. The writer decides it where a
/// client's request or the prefetch listed them.
package enum MessageAge: Sendable, CaseIterable {
  /// The cache stored them for the first time. They are older than the newest message that it knew.
  case old
  /// The cache stored them for the first time. They are newer than the newest message that it knew.
  case new
  /// The cache had some of them before, or something else than a listing told of them.
  case unknown

  /// How the event log keeps it, in the detail of a change; nil for `unknown`.
  var detail: [UInt8]? {
    switch self {
    case .old: MessageAge.oldDetail
    case .new: MessageAge.newDetail
    case .unknown: nil
    }
  }

  private static let oldDetail = Array("\"age\":\"old\"".utf8)
  private static let newDetail = Array("\"age\":\"new\"".utf8)
}
