import ChatModel
import JSON
import SQLite

// The invariants of one channel. Other code relies on each of them.
//
// The channel's row: its bodies are JSON; `name_key` is the key of `name`; `metadata` agrees with the table
// `channel_metadata`. Coverage: the segments tile the line. Messages: each body and part is JSON; a body has
// its row's id and time; no message is stored twice, before 1970, or together with its tombstone. The
// channel's counts are those of its rows. The last message's columns are all set or all NULL, and agree with
// one another. Memberships: the columns of list orders agree with the channel; no count is below zero. No
// version is beyond the log's end.

extension CacheReader {
  /// The faults of the channel; empty if it has none, or does not exist. `hasMessages`: with those of its
  /// messages.
  func faults(of channel: ChannelKey, hasMessages: Bool = true) throws -> [Finding] {
    // While everything is being cleared, channels lack rows.
    guard try !isBeingCleared(), var check = try ChannelCheck(self, channel) else { return [] }
    try check.lookAtLine()
    if hasMessages { try check.lookAtMessages() }
    try check.lookAtMetadata()
    try check.lookAtMembers()
    try check.lookAtMemberships()
    return check.found
  }

  /// The highest sequence that a row of this snapshot may have: the log's last, or the snapshot's if that is
  /// higher.
  func lastNumber() throws -> Int64 { try max(log.head, lastChange()) }
}

/// The check of one channel.
private struct ChannelCheck {
  /// Values of the channel's row that other rows are compared with.
  private struct Facts {
    let url: String
    let nameKey: String
    let createdAt: Int64
    let lastMessageAt: Int64?
    let metadata: [ExactText: String]?
    let isCrowded: Bool
  }

  private let reader: CacheReader
  private let channel: ChannelKey
  private let end: Int64
  private let facts: Facts
  private let json = JSONParser()
  private(set) var found: [Finding] = []

  init?(_ reader: CacheReader, _ channel: ChannelKey) throws {
    let end = try reader.lastNumber()
    let json = JSONParser()
    var notes: [(Finding.Fault, String)] = []
    let facts = try reader.db.first(
      """
      SELECT
        channel_url, name, name_key, created_at, last_message_at, last_message_id, last_message, body,
        read_receipts, metadata, version, is_crowded, coalesce(reader_count, 0),
        (SELECT count(*) FROM read_position AS p WHERE p.channel = channel.id)
      FROM channel
      WHERE id = ?1
      """
    ) {
      $0.bind(1, channel.rawValue)
    } _: { row in
      if row.string(2) != ChannelColumns.key(row.string(1)) {
        notes.append((.channel, "name_key is not the key of name"))
      }
      if !json.reads(fieldsOf: row.bytes(7)) { notes.append((.channel, "body is not JSON")) }
      if !json.reads(row.bytes(8), .object) { notes.append((.channel, "read_receipts is not a JSON object")) }
      if row.int64(12) != row.int64(13) {
        notes.append(
          (.channel, "reader_count is \(row.int64(12)), for \(row.int64(13)) stored read positions"))
      }
      if row.int64(10) > end {
        notes.append((.version, "the channel's version \(row.int64(10)) is beyond the log's end \(end)"))
      }
      if let wrong = json.wrongLastMessage(row) { notes.append((.lastMessage, wrong)) }
      let metadata = row.isNull(9) ? nil : json.texts(row.bytes(9))
      if !row.isNull(9), metadata == nil {
        notes.append((.channel, "metadata is not a JSON object of texts"))
      }
      return Facts(
        url: row.string(0), nameKey: row.string(2), createdAt: row.int64(3), lastMessageAt: row.int64OrNil(4),
        metadata: row.isNull(9) ? [:] : metadata, isCrowded: row.bool(11))
    }
    guard let facts else { return nil }
    (self.reader, self.channel, self.end, self.facts) = (reader, channel, end, facts)
    for (fault, detail) in notes { note(fault, detail) }
  }

  private mutating func note(_ fault: Finding.Fault, _ detail: String) {
    found.append(Finding(fault, channel: ChannelURL(facts.url), detail))
  }

  mutating func lookAtLine() throws {
    let rows = try reader.segmentRows(of: channel)
    let strange = try reader.db.first("SELECT 1 FROM segment WHERE channel = ?1 AND kind NOT IN (0, 1, 2)") {
      $0.bind(1, channel.rawValue)
    } _: { _ in
      true
    }
    if strange == true || !rows.isEmpty && Coverage(rows: rows) == nil {
      note(.coverage, "the \(rows.count) segments overlap, leave a hole, or are invalid")
    }
  }

  mutating func lookAtMessages() throws {
    var messages = MessagesCheck(channel)
    while try messages.lookAtSome(reader) {}
    found += messages.found(in: ChannelURL(facts.url), counted: try reader.counted(messagesOf: channel))
  }

  mutating func lookAtMetadata() throws {
    guard let metadata = facts.metadata else { return }
    var stored: [ExactText: String] = [:]
    var rows = try reader.db.rows("SELECT key, value, value_key FROM channel_metadata WHERE channel = ?1") {
      $0.bind(1, channel.rawValue)
    }
    var isKeyed = true
    while let row = try rows.next() {
      stored[ExactText(row.string(0))] = row.string(1)
      isKeyed = isKeyed && row.string(2).hasSameBytes(as: ChannelColumns.key(row.string(1)))
    }
    if stored != metadata || !isKeyed { note(.channel, "channel_metadata and metadata differ") }
  }

  mutating func lookAtMembers() throws {
    var rows = try reader.db.rows("SELECT user_id, body FROM member WHERE channel = ?1") {
      $0.bind(1, channel.rawValue)
    }
    while let row = try rows.next() {
      if !json.reads(fieldsOf: row.bytes(1)) { note(.channel, "the member \(row.string(0)) is not JSON") }
    }
  }

  mutating func lookAtMemberships() throws {
    var rows = try reader.db.rows(
      """
      SELECT
        user, channel_url, name_key, created_at, sort_at, floor_at, unread, mentions, version, inviter
      FROM membership INDEXED BY membership_by_channel
      WHERE channel = ?1
      """
    ) { $0.bind(1, channel.rawValue) }
    while let row = try rows.next() {
      let floor = row.int64(5)
      let shownAt = facts.lastMessageAt.flatMap { $0 >= floor ? $0 : nil }
      let sortAt =
        facts.isCrowded && shownAt != nil
        ? ChannelColumns.follows : ChannelColumns.sortAt(lastMessageAt: shownAt, createdAt: facts.createdAt)
      let owner = "of user \(row.int64(0))"
      if !row.string(1).hasSameBytes(as: facts.url) || !row.string(2).hasSameBytes(as: facts.nameKey)
        || row.int64(3) != facts.createdAt
      {
        note(.listPosition, "channel_url, name_key or created_at \(owner) differs from the channel's")
      }
      if row.int64(4) != sortAt { note(.listPosition, "sort_at \(owner) is \(row.int64(4)), not \(sortAt)") }
      if row.int64(6) < 0 || row.int64(7) < 0 { note(.listPosition, "a count \(owner) is below zero") }
      if row.int64(8) > end {
        note(.version, "the version \(owner) is \(row.int64(8)), beyond the log's end \(end)")
      }
      if !row.isNull(9), !json.reads(row.bytes(9)) { note(.channel, "the inviter \(owner) is not JSON") }
    }
  }
}
