import JSON
import SQLite

/// A user's channels: the list and its changelog.
enum ChannelLists {
  /// `my_group_channels`, newest message first unless ordered by name or creation. The token is the place
  /// in the whole sorted list, which suffices for a stand-in.
  static func mine(_ call: inout Call, _ json: inout JSONWriter) throws {
    let arguments = call.arguments
    let db = call.db.reading
    let user = try Users.named(arguments.path("user_id"), db)
    let limit = Int(try arguments.number("limit", 1...100, default: 10))
    let skip = try place(arguments)
    let order =
      switch try arguments.text("order") ?? "chronological" {
      case "latest_last_message": "member.sort_at DESC, c.id DESC"
      case "channel_name_alphabetical": "c.name, c.id"
      case "chronological": "c.created_at DESC, c.id DESC"
      default: throw Refusal.invalid("order")
      }
    let filter = try conditions(arguments)
    var rows = try db.rows(
      composed: """
        SELECT \(ChannelRow.columns)
        FROM member
        JOIN channel c ON c.id = member.channel
        WHERE member.user_id = ?1 \(filter)
        ORDER BY \(order)
        LIMIT ?2 OFFSET ?3
        """
    ) {
      $0.bind(1, user.id)
      $0.bind(2, limit + 1)
      $0.bind(3, skip)
    }
    var channels: [ChannelRow] = []
    while let row = try rows.next() { channels.append(ChannelRow(row)) }
    try write(channels, skip, limit, viewer: user.id, call, to: &json)
  }

  static func all(_ call: inout Call, _ json: inout JSONWriter) throws {
    let limit = Int(try call.arguments.number("limit", 1...100, default: 10))
    let skip = try place(call.arguments)
    var rows = try call.db.reading.rows(
      composed: """
        SELECT \(ChannelRow.columns)
        FROM channel c
        ORDER BY c.id DESC
        LIMIT ?1 OFFSET ?2
        """
    ) {
      $0.bind(1, limit + 1)
      $0.bind(2, skip)
    }
    var channels: [ChannelRow] = []
    while let row = try rows.next() { channels.append(ChannelRow(row)) }
    try write(channels, skip, limit, viewer: nil, call, to: &json)
  }

  private static func place(_ arguments: Arguments) throws -> Int {
    let token = try arguments.text("token") ?? ""
    guard !token.isEmpty else { return 0 }
    guard let place = Int(token), place >= 0 else { throw Refusal(400109, "The page token is not valid.") }
    return place
  }

  private static func conditions(_ arguments: Arguments) throws -> String {
    var sql = ""
    switch try arguments.text("hidden_mode") ?? "unhidden_only" {
    case "unhidden_only": sql += " AND member.hidden_state = 'unhidden'"
    case "hidden_only": sql += " AND member.hidden_state <> 'unhidden'"
    case "hidden_allow_auto_unhide", "hidden_prevent_auto_unhide":
      sql += " AND member.hidden_state = '\(try arguments.text("hidden_mode") ?? "")'"
    case "all": break
    default: throw Refusal.invalid("hidden_mode")
    }
    switch try arguments.text("member_state_filter") ?? "all" {
    case "all": break
    case "joined_only": sql += " AND member.state = 'joined'"
    case "invited_only", "invited_by_friend", "invited_by_non_friend": sql += " AND member.state = 'invited'"
    default: throw Refusal.invalid("member_state_filter")
    }
    if try !arguments.flag("show_empty") {
      sql += " AND EXISTS (SELECT 1 FROM message WHERE message.channel = c.id)"
    }
    if try !arguments.flag("show_frozen", default: true) { sql += " AND c.is_frozen = 0" }
    return sql
  }

  private static func write(
    _ channels: [ChannelRow], _ skip: Int, _ limit: Int, viewer: String?, _ call: Call,
    to json: inout JSONWriter
  ) throws {
    let showMembers = try call.arguments.flag("show_member")
    json.beginObject()
    json.name("channels")
    json.beginArray()
    for channel in channels.prefix(limit) {
      try ChannelJSON.write(
        channel, viewer: viewer, showMembers: showMembers, call.db.reading, to: &json)
    }
    json.endArray()
    json.field("next", channels.count > limit ? "\(skip + limit)" : "")
    json.field("ts", call.milliseconds)
    json.endObject()
  }

  /// What changed in a user's list since `change_ts` or the token: channels as they are now, and the urls of
  /// those that left, up to 100 by their stamps.
  static func changelog(_ call: inout Call, _ json: inout JSONWriter) throws {
    guard call.capabilities.areChangelogsOn else { throw Refusal(400108, "Not allowed.", status: 403) }
    let user = try Users.named(call.arguments.path("user_id"), call.db.reading)
    let since = try ChangelogPlace(call.arguments).stamp
    let changes = try call.db.reading.all(
      """
      SELECT stamp, url FROM (
        SELECT member.stamp AS stamp, channel.url AS url, 0 AS is_gone
        FROM member
        JOIN channel ON channel.id = member.channel
        WHERE member.user_id = ?1
          AND member.stamp > ?2
        UNION ALL
        SELECT stamp, url, 1
        FROM departure
        WHERE user_id = ?1
          AND stamp > ?2
      )
      ORDER BY stamp
      LIMIT 101
      """,
      {
        $0.bind(1, user.id)
        $0.bind(2, since)
      }
    ) { (stamp: $0.int64(0), url: $0.string(1)) }
    try writeChanges(changes, since, user.id, call, to: &json)
  }

  private static func writeChanges(
    _ changes: [(stamp: Int64, url: String)], _ since: Int64, _ user: String, _ call: Call,
    to json: inout JSONWriter
  ) throws {
    let db = call.db.reading
    // A page ends between two stamps, so that its token cuts nothing off.
    var page = Array(changes.prefix(100))
    if changes.count > 100, let next = changes.last?.stamp, page.first?.stamp != next {
      page.removeAll { $0.stamp == next }
    }
    var deleted: [Value] = []
    json.beginObject()
    json.name("updated")
    json.beginArray()
    for change in page {
      if let channel = try ChannelRow.find(change.url, db), try MemberRow.find(channel.id, user, db) != nil {
        try ChannelJSON.write(channel, viewer: user, showMembers: true, db, to: &json)
      } else {
        deleted.append(.string(change.url))
      }
    }
    json.endArray()
    json.name("deleted")
    Value.array(deleted).write(to: &json)
    json.field("has_more", changes.count > page.count)
    json.field("next", "\(page.last?.stamp ?? since)")
    json.endObject()
  }
}

/// Where a changelog goes on: after a stamp.
struct ChangelogPlace {
  let stamp: Int64

  init(_ arguments: Arguments) throws {
    if let token = try arguments.text("token"), !token.isEmpty {
      guard let stamp = Int64(token), stamp >= 0 else { throw Refusal(400109, "The token is not valid.") }
      self.stamp = stamp
    } else if let milliseconds = try arguments.number("change_ts") {
      guard milliseconds >= 0, milliseconds < Int64.max / 1000 else { throw Refusal.range("change_ts") }
      stamp = milliseconds * 1000 - 1
    } else {
      throw Refusal.missing("change_ts")
    }
  }
}
