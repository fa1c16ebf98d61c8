import ChatModel

// The upstream's answers in Perch's words. A value that is ordered or filtered by is a field. All else is
// JSON as the API answers it, ready to be stored and copied into answers. No record refers to a parsed
// document.

/// A confirmed message.
package struct MessageRecord: Sendable, Equatable {
  /// The upstream's id.
  package var messageID: Int64
  /// When the message was sent, in milliseconds.
  package var createdAt: Int64
  /// When the message was last edited, in milliseconds; 0 = never.
  package var updatedAt: Int64
  /// The kind: user, file or admin.
  package var kind: MessageQuery.Kind
  /// Whether the message counts as unread for no user (B68).
  package var isSilent: Bool
  /// Whether the message is a reply that the channel shows too.
  package var isReplyToChannel: Bool
  /// The id of the message that this one replies to; nil: it is no reply.
  package var parentID: Int64?
  /// The parent's time, where the upstream told it.
  package var parentAt: Int64?
  /// The sender's id; "" for admin messages.
  package var sender: String
  /// The application's own type.
  package var customType: String
  /// The id of the request that sent the message; "" if the upstream does not name it.
  package var requestID: String
  /// The users whom the message mentions, for counts.
  package var mentions: Mentions
  /// The message's fields without braces and without the parts below.
  package var body: [UInt8]
  /// JSON: the reactions; nil if the upstream gave none.
  package var reactions: [UInt8]?
  /// JSON: the sorted meta array.
  package var metaarray: [UInt8]?
  /// JSON: the number of replies, and the users who replied.
  package var threadInfo: [UInt8]?
  /// JSON: the parent message.
  package var parent: [UInt8]?

  /// Whom a message mentions.
  package enum Mentions: Sendable, Equatable {
    case nobody
    case everybody
    case users([String])
  }

  /// Its position on the channel's line.
  package var position: Position { Position(createdAt: createdAt, messageID: messageID) }

  /// A message with these parts.
  package init(
    messageID: Int64, createdAt: Int64, updatedAt: Int64, kind: MessageQuery.Kind, isSilent: Bool,
    isReplyToChannel: Bool, parentID: Int64? = nil, parentAt: Int64? = nil, sender: String,
    customType: String, requestID: String, mentions: Mentions, body: [UInt8], reactions: [UInt8]? = nil,
    metaarray: [UInt8]? = nil, threadInfo: [UInt8]? = nil, parent: [UInt8]? = nil
  ) {
    self.messageID = messageID
    self.createdAt = createdAt
    self.updatedAt = updatedAt
    self.kind = kind
    self.isSilent = isSilent
    self.isReplyToChannel = isReplyToChannel
    self.parentID = parentID
    self.parentAt = parentAt
    self.sender = sender
    self.customType = customType
    self.requestID = requestID
    self.mentions = mentions
    self.body = body
    self.reactions = reactions
    self.metaarray = metaarray
    self.threadInfo = threadInfo
    self.parent = parent
  }
}
