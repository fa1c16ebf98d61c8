import ChatModel
import JSON

/// The values that decide for which users a message counts as unread, and as a mention (B68).
struct CountedMessage: Equatable {
  let position: Position
  let sender: ExactText
  /// Whether it counts at all: it is not silent, and not only in a thread.
  let counts: Bool
  /// The users whom it mentions, as the column `mentions` keeps them.
  let mentions: ExactText?

  /// From the columns of a row.
  init(position: Position, sender: String, flags: MessageFlags, mentions: String?) {
    self.position = position
    self.sender = ExactText(sender)
    counts = !flags.contains(.silent) && (!flags.contains(.reply) || flags.contains(.replyToChannel))
    self.mentions = mentions.map { ExactText($0) }
  }

  /// From an answer of the upstream.
  init(_ record: MessageRecord) {
    self.init(
      position: record.position, sender: record.sender, flags: record.flags,
      mentions: record.mentions.stored)
  }
}

extension MessageRecord.Mentions {
  /// As the column `mentions` keeps it: `*`, or a JSON array of ids.
  var stored: String? {
    switch self {
    case .nobody: return nil
    case .everybody: return "*"
    case .users(let users):
      guard !users.isEmpty else { return nil }
      var writer = JSONWriter()
      writer.beginArray()
      for user in users { writer.value(user) }
      writer.endArray()
      return String(decoding: writer.finish().array, as: UTF8.self)
    }
  }
}
