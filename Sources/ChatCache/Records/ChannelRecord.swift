import ChatModel

// A field that is nil was not in the answer, and leaves the stored value as it is (B11).

/// A channel in an answer of the upstream. If a user's request got it, it includes that user's membership.
package struct ChannelRecord: Sendable, Equatable {
  /// The channel's url.
  package var url: ChannelURL
  /// The displayed name.
  package var name: String?
  /// The application's own type.
  package var customType: String?
  /// When the channel was created, in milliseconds.
  package var createdAt: Int64?
  /// Whether the upstream reuses the channel for the same members.
  package var isDistinct: Bool?
  /// Whether anybody may join.
  package var isPublic: Bool?
  /// Whether it is a supergroup channel, made for thousands of members.
  package var isSuper: Bool?
  /// Whether only operators may send.
  package var isFrozen: Bool?
  /// The number of joined and invited members.
  package var memberCount: Int64?
  /// The number of joined members.
  package var joinedMemberCount: Int64?
  /// The fields that are the same for every member, without braces: all of them, or those that came.
  package var body: [UInt8]
  /// Whether `body` has all of these fields.
  package var isWhole = true
  /// The newest message, if the answer has it.
  package var lastMessage: LastMessage
  /// Read positions by user (ms).
  package var readReceipts: ReadReceipts?
  /// The number of members who may have a position; nil: the answer does not tell.
  var positionsExpected: Int64? { joinedMemberCount ?? memberCount }
  /// All of the metadata.
  package var metadata: [ExactText: String]?
  /// All members, or the first ones that the upstream shows.
  package var members: [MemberRecord]?
  /// The asking user's membership.
  package var membership: MembershipRecord?
  /// The state of the cache when the request went out, if it was noted.
  package var asked: Asked?

  /// The state of the cache when a request went out, to find what changed before its answer came.
  package struct Asked: Sendable, Equatable {
    /// The log's sequence.
    package var sequence: Int64
    /// The value of `MemberList.news`; nil: it was not read.
    package var memberNews: Int64?

    /// A request that went out at this sequence.
    package init(sequence: Int64, memberNews: Int64? = nil) {
      self.sequence = sequence
      self.memberNews = memberNews
    }
  }

  /// The newest message in an answer.
  package enum LastMessage: Sendable, Equatable {
    /// The answer does not have the field.
    case absent
    /// The channel has no message.
    case none
    case message(MessageRecord)
  }

  /// A channel with these parts.
  package init(
    url: ChannelURL, name: String?, customType: String?, createdAt: Int64?, isDistinct: Bool?,
    isPublic: Bool?, isSuper: Bool?, isFrozen: Bool?, memberCount: Int64?, joinedMemberCount: Int64?,
    body: [UInt8],
    lastMessage: LastMessage, readReceipts: ReadReceipts? = nil, metadata: [ExactText: String]? = nil,
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

/// One user's membership of a channel.
package struct MembershipRecord: Sendable, Equatable {
  /// Whether the user is in the channel.
  package enum State: String, Sendable {
    case outside = "none"
    case invited, joined
  }
  /// Whether the user joined or is invited.
  package var state: State?
  /// Whether the user is an operator of the channel.
  package var isOperator: Bool?
  /// Whether the user is muted and may not send.
  package var isMuted: Bool?
  /// Whether the user hid the channel, in the contract's words.
  package var hiddenState: String?
  /// The user may not see messages before this time (ms, B23).
  package var floorAt: Int64?
  /// Up to when the user has read, in milliseconds.
  package var lastReadAt: Int64?
  /// Unread messages, as the upstream counts.
  package var unread: Int64?
  /// Unread mentions, as the upstream counts.
  package var mentions: Int64?
  /// When the user joined, in milliseconds; 0 = never.
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

/// A member of a channel.
package struct MemberRecord: Sendable, Equatable {
  /// The upstream's id.
  package var userID: String
  /// The displayed name.
  package var nickname: String?
  /// Whether the member joined or is invited.
  package var state: MembershipRecord.State?
  /// The member's fields without braces: all of them, or those that came.
  package var body: [UInt8]
  /// Whether `body` has all of these fields.
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
