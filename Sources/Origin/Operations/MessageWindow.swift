import JSON
import SQLite

/// The list of messages around an anchor.
///
/// A position is (`created_at`, `message_id`). The anchor is a message when `message_id` is given and not
/// 0, else the time `message_ts`. Around a message, `include` adds it beside the two limits. At a time,
/// `include` makes the rows of that very millisecond part of the newer side (of the older one when
/// nothing newer is asked for), inside its limit, so that many messages of one millisecond can be cut.
struct MessageWindow {
  private let channel: Int64
  private let time: Int64
  private let id: Int64?
  private let older: Int64
  private let newer: Int64
  private let isIncluded: Bool
  private let isReversed: Bool
  private let conditions: String
  private let texts: [String]

  init(_ channel: ChannelRow, _ arguments: Arguments, _ db: ReadAccess, _ capabilities: Capabilities) throws {
    self.channel = channel.id
    older = try arguments.number("prev_limit", 0...200, default: 15)
    newer = try arguments.number("next_limit", 0...200, default: 15)
    isIncluded = try arguments.flag("include", default: true)
    isReversed = try arguments.flag("reverse")
    if let id = try arguments.number("message_id"), id != 0 {
      let found = try db.first(
        "SELECT created_at FROM message WHERE id = ?1 AND channel = ?2",
        {
          $0.bind(1, id)
          $0.bind(2, channel.id)
        }
      ) { $0.int64(0) }
      guard let found else { throw Refusal.unknown("Message") }
      (self.id, time) = (id, found)
    } else {
      guard let time = try arguments.number("message_ts") else { throw Refusal.missing("message_ts") }
      guard time >= 0 else { throw Refusal.range("message_ts") }
      (id, self.time) = (nil, time)
    }
    (conditions, texts) = try MessageWindow.filter(channel.id, arguments, db, capabilities)
  }

  private static func filter(
    _ channel: Int64, _ arguments: Arguments, _ db: ReadAccess, _ capabilities: Capabilities
  ) throws -> (String, [String]) {
    var sql = ""
    var texts: [String] = []
    func among(_ column: String, _ values: [String]?) {
      guard let values, !values.isEmpty else { return }
      let places = values.indices.map { "?\(10 + texts.count + $0)" }.joined(separator: ", ")
      sql += " AND \(column) IN (\(places))"
      texts += values
    }
    among("m.user_id", try arguments.texts("sender_ids"))
    among("m.custom_type", try arguments.texts("custom_types")?.filter { $0 != "*" })
    if let type = try arguments.text("message_type"), !type.isEmpty {
      guard ["MESG", "FILE", "ADMM"].contains(type) else { throw Refusal.invalid("message_type") }
      among("m.type", [type])
    }
    switch try arguments.text("include_reply_type") ?? "none" {
    case "all": if !capabilities.areReplyListingsOn { sql += " AND m.parent IS NULL" }
    case "none": sql += " AND m.parent IS NULL"
    case "only_reply_to_channel": sql += " AND (m.parent IS NULL OR m.is_reply_to_channel = 1)"
    default: throw Refusal.invalid("include_reply_type")
    }
    if let user = try arguments.text("user_id"), let member = try MemberRow.find(channel, user, db) {
      sql += " AND m.created_at > \(member.floor)"
    }
    return (sql, texts)
  }

  /// The window's rows from the oldest, or the newest when reversed.
  func write(_ parts: MessageJSON.Parts, _ db: ReadAccess, to json: inout JSONWriter) throws {
    var ids: [Int64] = []
    if let id {
      ids += try side("(m.created_at, m.id) < (?2, \(id))", "DESC", older, db).reversed()
      if isIncluded { ids.append(id) }
      ids += try side("(m.created_at, m.id) > (?2, \(id))", "ASC", newer, db)
    } else {
      let isOlderIncluded = isIncluded && newer == 0
      ids += try side("m.created_at \(isOlderIncluded ? "<=" : "<") ?2", "DESC", older, db).reversed()
      ids += try side("m.created_at \(isIncluded ? ">=" : ">") ?2", "ASC", newer, db)
    }
    if isReversed { ids.reverse() }
    json.beginArray()
    for id in ids { _ = try MessageJSON.write(id: id, parts, db, to: &json) }
    json.endArray()
  }

  private func side(_ place: String, _ direction: String, _ limit: Int64, _ db: ReadAccess) throws -> [Int64]
  {
    guard limit > 0 else { return [] }
    var rows = try db.rows(
      composed: """
        SELECT m.id
        FROM message m
        WHERE m.channel = ?1
          AND \(place) \(conditions)
        ORDER BY m.created_at \(direction), m.id \(direction)
        LIMIT ?3
        """
    ) {
      $0.bind(1, channel)
      $0.bind(2, time)
      $0.bind(3, limit)
      for (index, text) in texts.enumerated() { $0.bind(Int32(10 + index), text) }
    }
    var ids: [Int64] = []
    while let row = try rows.next() { ids.append(row.int64(0)) }
    return ids
  }
}
