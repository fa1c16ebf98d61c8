import ChatModel
import SQLite

// Decides which state of a message is newer: the stored one or the one in an answer.

/// The kind of the upstream's answer that a message came in.
enum MessageAnswer {
  /// A page of messages, which may be behind.
  case listed
  /// A page of the changelog: the next one has the changes that it lacks.
  case changes
  /// The answer to a request for this message by its id.
  case named
}

extension CacheWriter {
  /// How a message compares with its stored row.
  enum Comparison {
    case unknown
    case same
    case known(StoredVersion)
  }

  /// The columns of a stored message that decide whether it is overwritten.
  struct StoredVersion {
    let updatedAt: Int64
    let version: Int64
    let firstVersion: Int64
    let bytes: Int64
    let counted: CountedMessage
    let reactions: [UInt8]?
    let threadInfo: [UInt8]?
  }

  /// Stores a note to fetch the message by its id. False: the message has a note already, or the channel has
  /// too many. A note may stay unanswered for long.
  func noteToFetch(_ id: Int64, in channel: ChannelKey) throws -> Bool {
    guard let url = try reader.url(of: channel) else { return false }
    let question = WebhookNote(kind: .message, channel: url, messageID: id, source: .messageFill)
    guard try !isNoted(question), try namedMessages(.message, in: url) < Limits.namedMessages else {
      return false
    }
    try note([question])
    markNoted(in: url)
    return true
  }

  /// Compares the message with its stored row.
  func compare(_ record: MessageRecord, in channel: ChannelKey) throws -> Comparison {
    try db.reading.first(
      """
      SELECT
        m.created_at, m.updated_at, m.version, m.body, m.reactions, m.metaarray, m.thread_info, m.parent,
        m.sender, m.flags, m.mentions, m.first_version
      FROM message AS m INDEXED BY message_by_id
      WHERE m.channel = ?1 AND m.message_id = ?2
      """
    ) {
      $0.bind(1, channel.rawValue)
      $0.bind(2, record.messageID)
    } _: { row in
      let position = Position(createdAt: row.int64(0), messageID: record.messageID)
      let isSame =
        position == record.position && row.holds(record.body, 3) && row.holds(record.reactions, 4)
        && row.holds(record.metaarray, 5) && row.holds(record.threadInfo, 6) && row.holds(record.parent, 7)
      if isSame { return .same }
      let bytes = (3...7).reduce(0) { $0 + row.bytes(Int32($1)).count }
      return .known(
        StoredVersion(
          updatedAt: row.int64(1), version: row.int64(2), firstVersion: row.int64(11), bytes: Int64(bytes),
          counted: CountedMessage(
            position: position, sender: row.string(8), flags: MessageFlags(rawValue: row.int64(9)),
            mentions: row.stringOrNil(10)),
          reactions: row.isNull(4) ? nil : Array(row.bytes(4)),
          threadInfo: row.isNull(6) ? nil : Array(row.bytes(6))))
    } ?? .unknown
  }
}

extension CacheWriter.StoredVersion {
  /// How a message in an answer compares with this row. `askedAt`: see `CacheWriter.put`. `now`: the wall
  /// clock (ms).
  func order(
    of record: MessageRecord, askedAt: Int64, from answer: MessageAnswer, now: Int64
  ) -> MessageOrder {
    if updatedAt < record.updatedAt { return .newer }
    if updatedAt > record.updatedAt {
      // No message changes at a time that has not come. Such a row would outlive every later answer, so it
      // stays only until the upstream is asked for the message by its id.
      guard updatedAt > now + Limits.clockSlackMilliseconds, version <= askedAt, askedAt != .max else {
        return .older
      }
      return answer == .named ? .newer : .unclear
    }
    guard version <= askedAt else { return .older }
    guard answer == .listed else { return .newer }
    return MessageParts(reactions: record.reactions, threadInfo: record.threadInfo)
      .order(comparedTo: MessageParts(reactions: reactions, threadInfo: threadInfo))
  }
}

extension Row {
  /// Whether the column has exactly these bytes; nil means NULL.
  func holds(_ bytes: [UInt8]?, _ column: Int32) -> Bool {
    guard let bytes else { return isNull(column) }
    guard !isNull(column) else { return false }
    return self.bytes(column).elementsEqual(bytes)
  }
}
