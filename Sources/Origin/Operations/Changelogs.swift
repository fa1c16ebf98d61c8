import JSON
import SQLite

/// The stamp after which a changelog goes on, from the request's `token` or `change_ts`.
struct ChangelogToken {
  let stamp: Int64

  init(_ arguments: Arguments) throws {
    if let token = try arguments.text("token"), !token.isEmpty {
      guard let stamp = Int64(token), stamp >= 0 else { throw Refusal(400109, "The token is not valid.") }
      self.stamp = stamp
    } else if let milliseconds = try arguments.number("change_ts") {
      guard milliseconds >= 0 else { throw Refusal.negative("change_ts") }
      guard milliseconds < Int64.max / 1000 else { throw Refusal.range("change_ts") }
      stamp = milliseconds * 1000 - 1
    } else {
      throw Refusal.missing("change_ts")
    }
  }
}

/// What changed since a position, up to a limit by stamps: the channels of a user, the messages of a channel.
///
/// One operation gives all its changes the same stamp. A page ends between two stamps, so its token skips no
/// change.
enum Changelogs {
  private struct Page<Change> {
    let changes: [Change]
    let next: Int64
    let hasMore: Bool

    /// A page of at most `limit` + 1 changes; `stamp` gives the stamp of each.
    init(_ all: [Change], limit: Int, since: Int64, stamp: (Change) -> Int64) {
      hasMore = all.count > limit
      var page = all
      if hasMore, let cut = all.last.map(stamp) { page.removeAll { stamp($0) == cut } }
      // No operation makes more than two changes of one list: both are here.
      if page.isEmpty { page = all }
      changes = page
      next = page.last.map(stamp) ?? since
    }
  }

  private static func check(_ question: Question) throws -> (since: Int64, limit: Int) {
    guard question.capabilities.areChangelogsOn else { throw Refusal(400108, "Not allowed.", status: 403) }
    let limit = try question.arguments.number("limit", 1...100, default: 100)
    return (try ChangelogToken(question.arguments).stamp, Int(limit))
  }

  /// Channels as they are now, and the urls of those that left the user's list.
  static func channels(_ question: Question, _ json: inout JSONWriter) throws {
    let db = question.reading
    let user = try Users.named(question.arguments.path("user_id"), db)
    let (since, limit) = try check(question)
    let changes = try db.all(
      channelsSQL,
      {
        $0.bind(1, user.id)
        $0.bind(2, since)
        $0.bind(3, limit + 1)
      }
    ) { (stamp: $0.int64(0), url: $0.string(1)) }
    let page = Page(changes, limit: limit, since: since, stamp: \.stamp)
    var shape = try ChannelJSON(viewer: user.id, question)
    shape.areMembersShown = try question.arguments.flag("show_member", default: true)
    var deleted: [Value] = []
    json.beginObject()
    json.name("updated")
    json.beginArray()
    for change in page.changes {
      if let channel = try ChannelRow.find(change.url, db), try MemberRow.find(channel.id, user.id, db) != nil
      {
        try shape.write(channel, db, to: &json)
      } else {
        deleted.append(.string(change.url))
      }
    }
    json.endArray()
    json.name("deleted")
    Value.array(deleted).write(to: &json)
    json.field("has_more", page.hasMore)
    json.field("next", "\(page.next)")
    json.endObject()
  }

  static let channelsSQL: StaticString = """
    SELECT stamp, url FROM (
      SELECT m.stamp AS stamp, c.url AS url
      FROM member m
      JOIN channel c ON c.id = m.channel
      WHERE m.user_id = ?1
        AND m.stamp > ?2
        AND NOT EXISTS (SELECT 1 FROM crowd w WHERE w.channel = m.channel AND w.stamp > m.stamp)
      UNION ALL
      SELECT w.stamp, c.url
      FROM crowd w
      CROSS JOIN member m ON m.channel = w.channel AND m.user_id = ?1 AND m.stamp < w.stamp
      JOIN channel c ON c.id = w.channel
      WHERE w.stamp > ?2
      UNION ALL
      SELECT stamp, url
      FROM departure
      WHERE user_id = ?1
        AND stamp > ?2
    )
    ORDER BY stamp
    LIMIT ?3
    """

  /// Messages as they are now, and the ids of those that were deleted. New messages are not in it.
  static func messages(_ question: Question, _ json: inout JSONWriter) throws {
    let db = question.reading
    let channel = try ChannelRow.named(question)
    let (since, limit) = try check(question)
    let shape = try MessageJSON(channelURL: channel.url, question)
    let changes = try db.all(
      messagesSQL,
      {
        $0.bind(1, channel.id)
        $0.bind(2, since)
        $0.bind(3, limit + 1)
      }
    ) { (id: $0.int64(0), stamp: $0.int64(1), isDeleted: $0.bool(2)) }
    let page = Page(changes, limit: limit, since: since, stamp: \.stamp)
    json.beginObject()
    json.name("updated")
    json.beginArray()
    for change in page.changes where !change.isDeleted {
      _ = try shape.write(id: change.id, db, to: &json)
    }
    json.endArray()
    json.name("deleted")
    json.beginArray()
    for change in page.changes where change.isDeleted {
      json.beginObject()
      json.field("message_id", change.id)
      json.field("deleted_at", change.stamp / 1000)
      json.endObject()
    }
    json.endArray()
    json.field("has_more", page.hasMore)
    json.field("next", "\(page.next)")
    json.endObject()
  }

  static let messagesSQL: StaticString = """
    SELECT id, stamp, is_deleted
    FROM message_change
    WHERE channel = ?1
      AND stamp > ?2
    ORDER BY stamp
    LIMIT ?3
    """
}
