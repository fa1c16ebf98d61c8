import ChatModel

// What is nil here was not in the answer, and erases nothing that is stored (B11).

/// A channel, with what only the asking user sees of it where somebody asked as a user.
package struct ChannelRecord: Sendable, Equatable {
  /// The channel's name.
  package var url: ChannelURL
  /// The name people see.
  package var name: String?
  /// The application's own kind.
  package var customType: String?
  /// Milliseconds.
  package var createdAt: Int64?
  /// Made once for its members.
  package var isDistinct: Bool?
  /// Anybody may join.
  package var isPublic: Bool?
  /// Made for thousands.
  package var isSuper: Bool?
  /// Only operators may send.
  package var isFrozen: Bool?
  /// Joined and invited.
  package var memberCount: Int64?
  /// Joined.
  package var joinedMemberCount: Int64?
  /// The fields that are the same for every member, without braces: all of them, or those that came.
  package var body: [UInt8]
  /// Whether `body` has all of them.
  package var isWhole = true
  /// The newest message, if anything was said of it.
  package var lastMessage: LastMessage
  /// Read positions by user (ms).
  package var readReceipts: [ExactText: Int64]?
  /// All of it.
  package var metadata: [ExactText: String]?
  /// All of them, or those the upstream shows.
  package var members: [MemberRecord]?
  /// What the asking user sees.
  package var membership: MembershipRecord?
  /// When this was asked for, where the asker noted it.
  package var asked: Asked?

  /// The moment of a question, for what may change while it is answered.
  package struct Asked: Sendable, Equatable {
    /// The log's sequence.
    package var sequence: Int64
    /// How often something had said that members came or went (`MemberList.news`); nil: not looked at.
    package var memberNews: Int64?

    /// A question at that sequence.
    package init(sequence: Int64, memberNews: Int64? = nil) {
      self.sequence = sequence
      self.memberNews = memberNews
    }
  }

  /// What the answer said of the newest message.
  package enum LastMessage: Sendable, Equatable {
    /// Nothing was said.
    case absent
    /// There is none.
    case none
    case message(MessageRecord)
  }

  /// A channel with these parts.
  package init(
    url: ChannelURL, name: String?, customType: String?, createdAt: Int64?, isDistinct: Bool?,
    isPublic: Bool?, isSuper: Bool?, isFrozen: Bool?, memberCount: Int64?, joinedMemberCount: Int64?,
    body: [UInt8],
    lastMessage: LastMessage, readReceipts: [ExactText: Int64]? = nil, metadata: [ExactText: String]? = nil,
    members: [MemberRecord]? = nil, membership: MembershipRecord? = nil
  ) {
    self.url = url
    self.name = name
    self.customType = customType
    self.createdAt = createdAt
    self.isDistinct = isDistinct
    self.isPublic = isPublic
    self.isSuper = isSuper
    self.isFrozen = isFrozen
    self.memberCount = memberCount
    self.joinedMemberCount = joinedMemberCount
    self.body = body
    self.lastMessage = lastMessage
    self.readReceipts = readReceipts
    self.metadata = metadata
    self.members = members
    self.membership = membership
  }
}

/// A channel as one user sees it.
package struct MembershipRecord: Sendable, Equatable {
  /// Whether the user is in the channel at all.
  package enum State: String, Sendable {
    case outside = "none"
    case invited, joined
  }
  /// Invited or joined.
  package var state: State?
  /// May moderate.
  package var isOperator: Bool?
  /// May not send.
  package var isMuted: Bool?
  /// The contract's word.
  package var hiddenState: String?
  /// Messages before this moment (ms) are not the user's to see (B23).
  package var floorAt: Int64?
  /// Milliseconds.
  package var lastReadAt: Int64?
  /// Unread messages, as the upstream counts.
  package var unread: Int64?
  /// Unread mentions, as the upstream counts.
  package var mentions: Int64?
  /// Milliseconds, 0 = never.
  package var joinedAt: Int64?
  /// When the user was invited, in milliseconds; 0 = never.
  package var invitedAt: Int64?
  /// The inviter as the API answers it.
  package var inviter: [UInt8]?

  /// A membership with these parts.
  package init(
    state: State?, isOperator: Bool?, isMuted: Bool?, hiddenState: String?, floorAt: Int64?,
    lastReadAt: Int64?, unread: Int64?, mentions: Int64?, joinedAt: Int64?, invitedAt: Int64?,
    inviter: [UInt8]? = nil
  ) {
    self.state = state
    self.isOperator = isOperator
    self.isMuted = isMuted
    self.hiddenState = hiddenState
    self.floorAt = floorAt
    self.lastReadAt = lastReadAt
    self.unread = unread
    self.mentions = mentions
    self.joinedAt = joinedAt
    self.invitedAt = invitedAt
    self.inviter = inviter
  }
}

/// Somebody in a channel.
package struct MemberRecord: Sendable, Equatable {
  /// The upstream's id.
  package var userID: String
  /// The name people see.
  package var nickname: String?
  /// Invited or joined.
  package var state: MembershipRecord.State?
  /// The member's fields without braces: all of them, or those that came.
  package var body: [UInt8]
  /// Whether `body` has all of them.
  package var isWhole = true

  /// A member with these parts.
  package init(
    userID: String, nickname: String?, state: MembershipRecord.State?, body: [UInt8]
  ) {
    self.userID = userID
    self.nickname = nickname
    self.state = state
    self.body = body
  }
}
