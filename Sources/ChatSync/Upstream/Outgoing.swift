import ChatModel

// Messages, files and edits to send to the upstream. `params` are JSON objects in the contract's words, as
// the outbox stores them. Each adapter translates them into its server's words and leaves out fields it does
// not know.

/// A message to be sent.
package struct OutgoingMessage: Sendable, Equatable {
  /// The request id. An upstream that deduplicates gets it as its idempotency key (B39).
  package var requestID: RequestID
  /// The sender. An admin message has none.
  package var user: UserID
  /// The channel.
  package var channel: ChannelURL
  /// The contract's sendMessage: `type` (`user`, `file` or `admin`), and where wanted `message`, `data`,
  /// `custom_type`, `mention_type`, `mentioned_user_ids`, `metaarray`, `parent_message_id` (a decimal text),
  /// `is_reply_to_channel`, `is_silent`; of a file `file_url`, `file_name`, `file_mime`, `file_size`.
  package var params: [UInt8]
  /// The file to send with the message, if the upstream does not take files by themselves.
  package var file: OutgoingFile?

  /// A message to be sent.
  package init(requestID: RequestID, user: UserID, channel: ChannelURL, params: [UInt8]) {
    self.requestID = requestID
    self.user = user
    self.channel = channel
    self.params = params
  }
}

/// A file that is read from the disk while it is sent.
package struct OutgoingFile: Sendable, Equatable {
  /// The file's path.
  package var path: String
  /// The name that the client gave the file.
  package var name: String
  /// The file's media type.
  package var mime: String
  /// The file's size in bytes.
  package var size: Int64

  /// A file at `path`.
  package init(path: String, name: String, mime: String, size: Int64) {
    self.path = path
    self.name = name
    self.mime = mime
    self.size = size
  }
}

/// A change of a confirmed message. Fields that are left out stay as they are.
package struct OutgoingEdit: Sendable, Equatable {
  /// The user who edits.
  package var user: UserID
  /// The kind of the message.
  package var kind: MessageQuery.Kind
  /// `message`, `data`, `custom_type`, `mention_type`, `mentioned_user_ids`, `metaarray`.
  package var params: [UInt8]

  /// A change of a message.
  package init(user: UserID, kind: MessageQuery.Kind, params: [UInt8]) {
    self.user = user
    self.kind = kind
    self.params = params
  }
}
