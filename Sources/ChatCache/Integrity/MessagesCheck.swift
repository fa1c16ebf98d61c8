import ChatModel
import JSON
import SQLite

/// The check of one channel's messages, some at a time. Those of a small channel are checked in the snapshot
/// of its other rows. Those of a large one are checked in several snapshots, so that the write-ahead log does
/// not grow meanwhile.
struct MessagesCheck {
  /// The most messages that are checked in one snapshot.
  static let mostAtOnce = 10_000

  /// The values of the channel's row that its messages are compared with.
  struct Counted: Equatable {
    let messages: Int64
    let bytes: Int64
    let lastMessageID: Int64?
    let lastMessageAt: Int64?
    /// The sequence of the last event of the channel.
    let changedAt: Int64
  }

  private let channel: ChannelKey
  private let json = JSONParser()
  /// The row after which others were not read yet; nil: all were. A damaged row may be before 1970.
  private var row: (createdAt: Int64, messageID: Int64)? = (.min, .min)
  /// The same for the rows in the order of their ids.
  private var entry: (messageID: Int64, createdAt: Int64)? = (.min, .min)
  private var (count, bytes): (Int64, Int64) = (0, 0)
  /// A finding names one message per kind of fault, and the number of others: a broken channel has many.
  private var faults: [ExactText: (first: Int64, count: Int)] = [:]
  private var deleted: Int64?
  private var double: Int64?

  init(_ channel: ChannelKey) { self.channel = channel }

  private mutating func fault(_ text: String, _ id: Int64) {
    faults[ExactText(text), default: (id, 0)].count += 1
  }

  /// Checks the next messages. False: all were checked.
  mutating func lookAtSome(
    _ reader: CacheReader, atMost most: Int = MessagesCheck.mostAtOnce
  ) throws -> Bool {
    if let row {
      self.row = try lookAtRows(reader, after: row, most)
    } else if let entry {
      self.entry = try lookAtIDs(reader, after: entry, most)
    }
    return row != nil || entry != nil
  }

  private mutating func lookAtRows(
    _ reader: CacheReader, after row: (createdAt: Int64, messageID: Int64), _ most: Int
  ) throws -> (createdAt: Int64, messageID: Int64)? {
    let (end, last) = (try reader.lastNumber(), try reader.counted(messagesOf: channel))
    var rows = try reader.db.rows(
      """
      SELECT
        created_at, message_id, version, type, body, reactions, metaarray, thread_info, parent, mentions
      FROM message
      WHERE channel = ?1 AND (created_at, message_id) > (?2, ?3)
      ORDER BY created_at, message_id
      LIMIT ?4
      """
    ) {
      $0.bind(1, channel.rawValue)
      $0.bind(2, row.createdAt)
      $0.bind(3, row.messageID)
      $0.bind(4, most)
    }
    var (read, reached) = (0, row)
    while let next = try rows.next() {
      read += 1
      reached = (next.int64(0), next.int64(1))
      lookAt(next, end, last)
    }
    return read < most ? nil : reached
  }

  private mutating func lookAt(_ row: Row, _ end: Int64, _ last: Counted?) {
    let id = row.int64(1)
    count += 1
    for column in 4...8 { bytes += Int64(row.bytes(Int32(column)).count) }
    if row.int64(0) < 0 { fault("has a time before 1970", id) }
    if row.int64(2) > end { fault("has a version beyond the log's end", id) }
    if !(0...3).contains(row.int64(3)) { fault("has an unknown type", id) }
    if !json.speaks(row.bytes(4), of: id, at: row.int64(0)) {
      fault("has a body that is not JSON, or is that of another message", id)
    }
    for column in 5...8 where !row.isNull(Int32(column)) {
      if !json.reads(row.bytes(Int32(column))) { fault("has a part that is not JSON", id) }
    }
    if !row.isNull(9), !row.holds(Array("*".utf8), 9), !json.reads(row.bytes(9), .array) {
      fault("has mentions that cannot be read", id)
    }
    if id == last?.lastMessageID, row.int64(0) != last?.lastMessageAt {
      fault("is the channel's last message, but last_message_at differs from its time", id)
    }
  }

  private mutating func lookAtIDs(
    _ reader: CacheReader, after entry: (messageID: Int64, createdAt: Int64), _ most: Int
  ) throws -> (messageID: Int64, createdAt: Int64)? {
    var rows = try reader.db.rows(
      """
      SELECT
        m.message_id, m.created_at,
        EXISTS (SELECT 1 FROM tombstone AS t WHERE t.channel = ?1 AND t.message_id = m.message_id)
      FROM message AS m INDEXED BY message_by_id
      WHERE m.channel = ?1 AND (m.message_id, m.created_at) > (?2, ?3)
      ORDER BY m.message_id, m.created_at
      LIMIT ?4
      """
    ) {
      $0.bind(1, channel.rawValue)
      $0.bind(2, entry.messageID)
      $0.bind(3, entry.createdAt)
      $0.bind(4, most)
    }
    var (read, reached) = (0, entry)
    while let next = try rows.next() {
      read += 1
      // The walk begins after `.min`, which is no message's id.
      if next.int64(0) == reached.messageID, reached.messageID != .min { double = double ?? next.int64(0) }
      if next.bool(2) { deleted = deleted ?? next.int64(0) }
      reached = (next.int64(0), next.int64(1))
    }
    return read < most ? nil : reached
  }

  /// The findings about the messages that were checked. `counted`: the values of the channel's row; nil: they
  /// changed during the check, so the numbers are not compared.
  func found(in url: ChannelURL, counted: Counted?) -> [Finding] {
    var found: [Finding] = []
    func note(_ fault: Finding.Fault, _ detail: String) {
      found.append(Finding(fault, channel: url, detail))
    }
    for (text, (first, count)) in faults.sorted(by: { $0.key < $1.key }) {
      let others = count > 1 ? ", and \(count - 1) more like it" : ""
      note(text.text.contains("version") ? .version : .message, "message \(first) \(text.text)\(others)")
    }
    if let counted, count != counted.messages {
      note(.counts, "\(counted.messages) messages are counted, \(count) are stored")
    }
    if let counted, bytes != counted.bytes {
      note(.counts, "\(counted.bytes) bytes are counted, \(bytes) are stored")
    }
    if let deleted { note(.message, "message \(deleted) is stored although it is deleted") }
    if let double { note(.message, "message \(double) is stored twice, at different times") }
    return found
  }
}

extension CacheReader {
  /// Reads the values of the channel's row that its messages are compared with; nil: there is no such
  /// channel.
  func counted(messagesOf channel: ChannelKey) throws -> MessagesCheck.Counted? {
    try db.first(
      """
      SELECT
        cached_messages, cached_bytes, last_message_id, last_message_at,
        (SELECT max(seq) FROM event INDEXED BY event_by_channel WHERE channel = ?1 AND user IS NULL)
      FROM channel
      WHERE id = ?1
      """
    ) {
      $0.bind(1, channel.rawValue)
    } _: {
      MessagesCheck.Counted(
        messages: $0.int64(0), bytes: $0.int64(1), lastMessageID: $0.int64OrNil(2),
        lastMessageAt: $0.int64OrNil(3), changedAt: $0.int64OrNil(4) ?? 0)
    }
  }
}
