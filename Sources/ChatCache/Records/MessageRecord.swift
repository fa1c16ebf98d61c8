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
