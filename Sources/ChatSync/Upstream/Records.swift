import ChatCache
import ChatModel

// What the upstream said, in Perch's words: what orders or filters is a field, all else is JSON as the API
// answers it, ready to be stored and spliced. Nothing here owns a parsed document.

/// A confirmed message.
package struct MessageRecord: Sendable, Equatable {
  /// The upstream's id.
  package var messageID: Int64
  /// Milliseconds.
  package var createdAt: Int64
  /// Milliseconds, 0 = never.
  package var updatedAt: Int64
  /// User, file or admin.
  package var kind: MessageQuery.Kind
  /// Counts as unread for nobody (B68).
  package var isSilent: Bool
  /// A reply that is shown in the channel too.
  package var isReplyToChannel: Bool
  /// The message it replies to.
  package var parentID: Int64?
  /// The parent's time, where the upstream told it.
  package var parentAt: Int64?
  /// "" on admin messages.
  package var sender: String
  /// The application's own kind.
  package var customType: String
  /// Which request it answers, "" where the upstream does not say.
  package var requestID: String
  /// The users it mentions, for counts.
  package var mentions: Mentions
  /// The message's fields without braces and without the parts below.
  package var body: [UInt8]
  /// JSON values, nil where the upstream gave none.
  package var reactions: [UInt8]?
  /// JSON: the sorted meta array.
  package var metaarray: [UInt8]?
  /// JSON: how many replied, and who.
  package var threadInfo: [UInt8]?
  /// JSON: the message it replies to.
  package var parent: [UInt8]?

  /// Whom a message mentions.
  package enum Mentions: Sendable, Equatable {
    case nobody
    case everybody
    case users([String])
  }

  /// Its place on the channel's line.
  package var position: Position { Position(createdAt: createdAt, messageID: messageID) }
}

/// A channel, with what only the asking user sees of it where somebody asked as a user.
package struct ChannelRecord: Sendable, Equatable {
  /// The channel's name.
  package var url: ChannelURL
  /// The name people see.
  package var name: String
  /// The application's own kind.
  package var customType: String
  /// Milliseconds.
  package var createdAt: Int64
  /// Made once for its members.
  package var isDistinct: Bool
  /// Anybody may join.
  package var isPublic: Bool
  /// Made for thousands.
  package var isSuper: Bool
  /// Only operators may send.
  package var isFrozen: Bool
  /// Joined and invited.
  package var memberCount: Int64
  /// Joined.
  package var joinedMemberCount: Int64
  /// The fields that are the same for every member, without braces.
  package var body: [UInt8]
  /// Nil where the answer did not carry them: nothing is erased then (B11).
  package var lastMessage: LastMessage
  /// Read positions by user (ms).
  package var readReceipts: [String: Int64]?
  /// All of it.
  package var metadata: [String: String]?
  /// All of them, or those the upstream shows.
  package var members: [MemberRecord]?
  /// What the asking user sees.
  package var membership: MembershipRecord?

  /// What the answer said of the newest message.
  package enum LastMessage: Sendable, Equatable {
    /// Nothing was said.
    case absent
    /// There is none.
    case none
    case message(MessageRecord)
  }
}

/// A channel as one user sees it.
package struct MembershipRecord: Sendable, Equatable {
  /// Whether the user is in the channel at all.
  package enum State: String, Sendable { case none, invited, joined }
  /// Invited or joined.
  package var state: State
  /// May moderate.
  package var isOperator: Bool
  /// May not send.
  package var isMuted: Bool
  /// The contract's word.
  package var hiddenState: String
  /// Messages before this moment (ms) are not the user's to see (B23).
  package var floorAt: Int64
  /// Milliseconds.
  package var lastReadAt: Int64
  /// Unread messages, as the upstream counts.
  package var unread: Int64
  /// Unread mentions, as the upstream counts.
  package var mentions: Int64
  /// Milliseconds, 0 = never.
  package var joinedAt: Int64
  /// Milliseconds, 0 = never.
  package var invitedAt: Int64
  /// The inviter as the API answers it.
  package var inviter: [UInt8]?
}

/// Somebody in a channel.
package struct MemberRecord: Sendable, Equatable {
  /// The upstream's id.
  package var userID: String
  /// The name people see.
  package var nickname: String
  /// Invited or joined.
  package var state: MembershipRecord.State
  /// The member's fields without braces.
  package var body: [UInt8]
}

/// What the upstream says of a user.
package struct UserRecord: Sendable, Equatable {
  /// The upstream's id.
  package var userID: String
  /// False: deactivated.
  package var isActive: Bool
  /// The user as the API answers it, with braces.
  package var body: [UInt8]
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
}

/// A page of a changelog.
package struct UpstreamChanges<Item: Sendable, Deleted: Sendable>: Sendable {
  /// What is there, whole.
  package var updated: [Item]
  /// What is gone.
  package var deleted: [Deleted]
  /// Whether more waits behind `next`.
  package var hasMore: Bool
  /// The place to go on from, given also at the end; nil where the upstream gave none.
  package var next: SyncToken?
  /// Items left out because they could not be read.
  package var unreadable: Int
}

/// Where a changelog is read from.
package enum ChangesSince: Sendable, Equatable {
  case time(Int64)
  case token(SyncToken)
}

/// Which stretch of a channel's line is listed.
package struct MessageWindow: Sendable, Hashable {
  /// Where it is anchored.
  package typealias Anchor = Listing.Anchor
  /// Where.
  package var anchor: Anchor
  /// Rows wanted before the anchor.
  package var older: Int
  /// Rows wanted after it.
  package var newer: Int
  /// Whether rows at the anchor are wanted.
  package var includesAnchor: Bool

  /// `older` rows before and `newer` after the anchor, and the anchor itself where wanted.
  package init(_ anchor: Anchor, older: Int, newer: Int, includesAnchor: Bool = true) {
    self.anchor = anchor
    self.older = older
    self.newer = newer
    self.includesAnchor = includesAnchor
  }

  /// What an answer with these rows proves (B24).
  package func listing(_ rows: some Sequence<Position>) -> Listing {
    Listing(anchor: anchor, olderLimit: older, newerLimit: newer, includesAnchor: includesAnchor, rows: rows)
  }
}
