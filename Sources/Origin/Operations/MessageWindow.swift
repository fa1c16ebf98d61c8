import JSON
import SQLite

/// The list of messages around an anchor.
///
/// A position is (`created_at`, `message_id`). The anchor is a message when `message_id` is given and not
/// 0, else the time `message_ts`. Around a message, `include` adds it beside the two limits. At a time,
/// `include` makes the rows of that very millisecond part of the newer side (of the older one when
/// nothing newer is asked for), inside its limit, so that many messages of one millisecond can be cut.
///
/// Both sides begin at a position between two messages: no message has the id 0 or the largest there is.
struct MessageWindow {
  private let channel: Int64
  private let time: Int64
  /// The message that is the anchor.
  private let anchor: Int64?
  /// The ids at `time` below this are the older side's.
  private let olderBefore: Int64
  /// The ids at `time` above this are the newer side's.
  private let newerAfter: Int64
  private let older: Int64
  private let newer: Int64
  private let isIncluded: Bool
  private let isReversed: Bool
  private let filter: Filter
  private let tieDice: UInt64?

  init(_ channel: ChannelRow, _ asked: some Asked) throws {
    let arguments = asked.arguments
    self.channel = channel.id
    older = try arguments.number("prev_limit", 0...200, default: 15)
    newer = try arguments.number("next_limit", 0...200, default: 15)
    isIncluded = try arguments.flag("include", default: true)
    isReversed = try arguments.flag("reverse")
    if let id = try arguments.number("message_id"), id != 0 {
      let found = try asked.reading.first(
        "SELECT created_at FROM message WHERE id = ?1 AND channel = ?2",
        {
          $0.bind(1, id)
          $0.bind(2, channel.id)
        }
      ) { $0.int64(0) }
      guard let found else { throw Refusal.unknown("Message") }
      (anchor, time, olderBefore, newerAfter) = (id, found, id, id)
    } else {
      guard let time = try arguments.number("message_ts") else { throw Refusal.missing("message_ts") }
      guard time >= 0 else { throw Refusal.negative("message_ts") }
      self.time = time
      anchor = nil
      olderBefore = isIncluded && newer == 0 ? .max : 0
      newerAfter = isIncluded ? 0 : .max
    }
    filter = try Filter(channel.id, asked)
    tieDice = arguments.tieDice
  }

  /// Writes the window's messages from the oldest, or from the newest when reversed.
  func write(_ parts: MessageJSON, _ db: ReadAccess, to json: inout JSONWriter) throws {
    if let tieDice { return try writeShuffled(parts, tieDice, db, to: &json) }
    let older = try older > 0 ? ids(MessageWindow.olderSQL, olderBefore, older, db) : []
    let newer = try newer > 0 ? ids(MessageWindow.newerSQL, newerAfter, newer, db) : []
    var all = older.reversed() + (isIncluded ? anchor.map { [$0] } ?? [] : []) + newer
    if isReversed { all.reverse() }
    json.beginArray()
    for id in all { _ = try parts.write(id: id, db, to: &json) }
    json.endArray()
  }

  /// The same from a server that orders the messages of one millisecond anew in each answer.
  private func writeShuffled(
    _ parts: MessageJSON, _ dice: UInt64, _ db: ReadAccess, to json: inout JSONWriter
  ) throws {
    func rank(_ id: Int64) -> UInt64 { (UInt64(bitPattern: id) ^ dice) &* 0x9E37_79B9_7F4A_7C15 }
    let rows = try db.all(
      MessageWindow.allSQL,
      {
        $0.bind(1, channel)
        filter.bind(to: $0)
      }
    ) { (id: $0.int64(0), at: $0.int64(1)) }.sorted {
      $0.at != $1.at ? $0.at < $1.at : rank($0.id) < rank($1.id)
    }
    let first: Int
    let last: Int
    if let anchor {
      first = rows.firstIndex { $0.id == anchor } ?? rows.count
      last = min(rows.count, first + 1)
    } else {
      let isOlder = isIncluded && newer == 0
      first = rows.firstIndex { isOlder ? $0.at > time : $0.at >= time } ?? rows.count
      last = isIncluded ? first : rows.firstIndex { $0.at > time } ?? rows.count
    }
    var all = rows[..<first].suffix(Int(older)).map(\.id)
    if isIncluded, anchor != nil { all += rows[first..<last].map(\.id) }
    all += rows[last...].prefix(Int(newer)).map(\.id)
    if isReversed { all.reverse() }
    json.beginArray()
    for id in all { _ = try parts.write(id: id, db, to: &json) }
    json.endArray()
  }

  static let allSQL: StaticString = """
    SELECT id, created_at
    FROM message
    WHERE channel = ?1
      AND created_at > ?5
      AND (?6 IS NULL OR user_id IN (SELECT value FROM json_each(?6)))
      AND (?7 IS NULL OR custom_type IN (SELECT value FROM json_each(?7)))
      AND (?8 IS NULL OR type = ?8)
      AND (parent IS NULL OR ?9 = 'ALL' OR (?9 = 'ONLY_REPLY_TO_CHANNEL' AND is_reply_to_channel = 1)
        OR ?11 IS NOT NULL)
      AND (?11 IS NULL OR parent = ?11)
      AND (?10 IS NULL OR created_at < ?10)
    """

  private func ids(_ sql: StaticString, _ id: Int64, _ limit: Int64, _ db: ReadAccess) throws -> [Int64] {
    try db.all(
      sql,
      {
        $0.bind(1, channel)
        $0.bind(2, time)
        $0.bind(3, id)
        $0.bind(4, limit)
        filter.bind(to: $0)
      }
    ) { $0.int64(0) }
  }

  static let olderSQL: StaticString = """
    SELECT id
    FROM message
    WHERE channel = ?1
      AND (created_at, id) < (?2, ?3)
      AND created_at > ?5
      AND (?10 IS NULL OR created_at < ?10)
      AND (?6 IS NULL OR user_id IN (SELECT value FROM json_each(?6)))
      AND (?7 IS NULL OR custom_type IN (SELECT value FROM json_each(?7)))
      AND (?8 IS NULL OR type = ?8)
      AND (parent IS NULL OR ?9 = 'ALL' OR (?9 = 'ONLY_REPLY_TO_CHANNEL' AND is_reply_to_channel = 1)
        OR ?11 IS NOT NULL)
      AND (?11 IS NULL OR parent = ?11)
    ORDER BY created_at DESC, id DESC
    LIMIT ?4
    """

  static let newerSQL: StaticString = """
    SELECT id
    FROM message
    WHERE channel = ?1
      AND (created_at, id) > (?2, ?3)
      AND created_at > ?5
      AND (?10 IS NULL OR created_at < ?10)
      AND (?6 IS NULL OR user_id IN (SELECT value FROM json_each(?6)))
      AND (?7 IS NULL OR custom_type IN (SELECT value FROM json_each(?7)))
      AND (?8 IS NULL OR type = ?8)
      AND (parent IS NULL OR ?9 = 'ALL' OR (?9 = 'ONLY_REPLY_TO_CHANNEL' AND is_reply_to_channel = 1)
        OR ?11 IS NOT NULL)
      AND (?11 IS NULL OR parent = ?11)
    ORDER BY created_at, id
    LIMIT ?4
    """

  /// Which messages of the channel are listed at all.
  private struct Filter {
    private let floor: Int64
    private let senders: String?
    private let customTypes: String?
    private let type: String?
    private let replies: String
    private let hiddenSince: Int64?
    /// The message whose replies alone are listed.
    private let parent: Int64?

    init(_ channel: Int64, _ asked: some Asked) throws {
      let arguments = asked.arguments
      senders = try Filter.list(arguments.texts("sender_ids"))
      customTypes = try Filter.list(arguments.texts("custom_types")?.filter { $0 != "*" })
      let type = try arguments.choice("message_type", ["MESG", "FILE", "ADMM"], default: "")
      self.type = type.isEmpty ? nil : type
      let wanted = try arguments.choice(
        "include_reply_type", ["ALL", "NONE", "ONLY_REPLY_TO_CHANNEL"], default: "NONE")
      replies = wanted == "ALL" && !asked.capabilities.areReplyListingsOn ? "NONE" : wanted
      hiddenSince = arguments.hiddenSince
      let wantedParent = try arguments.number("parent_message_id")
      parent = asked.capabilities.areThreadListingsOn && wantedParent != 0 ? wantedParent : nil
      let user = try arguments.text("user_id") ?? ""
      floor = try MemberRow.find(channel, user, asked.reading)?.floor ?? -1
    }

    private static func list(_ texts: [String]?) -> String? {
      guard let texts, !texts.isEmpty else { return nil }
      return Value.array(texts.map(Value.string)).text
    }

    func bind(to statement: Statement) {
      statement.bind(5, floor)
      statement.bind(6, senders)
      statement.bind(7, customTypes)
      statement.bind(8, type)
      statement.bind(9, replies)
      statement.bind(10, hiddenSince)
      statement.bind(11, parent)
    }
  }
}
