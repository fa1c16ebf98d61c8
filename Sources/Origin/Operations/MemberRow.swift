import JSON
import SQLite

/// A membership as stored, with its user.
struct MemberRow {
  let state: String
  let isOperator: Bool
  let isMuted: Bool
  let hiddenState: String
  let readAt: Int64
  let floor: Int64
  let joinedAt: Int64
  let invitedAt: Int64?
  let inviter: String?
  let user: UserRow
  var userID: String { user.id }

  init(_ row: Row) {
    state = row.string(1)
    isOperator = row.bool(2)
    isMuted = row.bool(3)
    hiddenState = row.string(4)
    readAt = row.int64(5)
    floor = row.int64(6)
    joinedAt = row.int64(7)
    invitedAt = row.int64OrNil(8)
    inviter = row.stringOrNil(9)
    user = UserRow(
      id: row.string(0), nickname: row.string(10), profileURL: row.string(11), metadata: row.string(12),
      isActive: row.bool(13), createdAt: row.int64(14))
  }

  /// The members after the id `after`, in the order of their ids.
  static func page(_ channel: Int64, after: String, limit: Int, _ db: ReadAccess) throws -> [MemberRow] {
    try db.all(
      """
      SELECT *
      FROM shown_member
      WHERE channel = ?1
        AND user_id > ?2
      ORDER BY user_id
      LIMIT ?3
      """,
      {
        $0.bind(1, channel)
        $0.bind(2, after)
        $0.bind(3, limit)
      }, MemberRow.init)
  }

  static func all(_ channel: Int64, _ db: ReadAccess) throws -> [MemberRow] {
    try page(channel, after: "", limit: -1, db)
  }

  static func find(_ channel: Int64, _ user: String, _ db: ReadAccess) throws -> MemberRow? {
    try db.first(
      """
      SELECT *
      FROM shown_member
      WHERE channel = ?1
        AND user_id = ?2
      """,
      {
        $0.bind(1, channel)
        $0.bind(2, user)
      }, MemberRow.init)
  }

  /// The channel of the path and the member whom `user_id` names.
  static func acting(_ asked: some Asked) throws -> (channel: ChannelRow, member: MemberRow) {
    let channel = try ChannelRow.named(asked)
    let user = try Users.actor(asked.arguments.neededText("user_id"), asked.reading)
    guard let member = try find(channel.id, user.id, asked.reading) else { throw Refusal.notMember }
    return (channel, member)
  }

  /// Messages after this time are unread: it is the last of the read position, the floor and the joining.
  private var unreadAfter: Int64 { max(readAt, floor, joinedAt - 1) }

  /// How many messages of others are unread.
  func unread(_ channel: Int64, _ db: ReadAccess) throws -> Int64 {
    guard state == "joined" else { return 0 }
    return try db.first(
      MemberRow.unreadSQL,
      {
        $0.bind(1, channel)
        $0.bind(2, unreadAfter)
        $0.bind(3, userID)
      }
    ) { $0.int64(0) } ?? 0
  }

  static let unreadSQL: StaticString = """
    SELECT count(*)
    FROM message
    WHERE channel = ?1
      AND created_at > ?2
      AND user_id IS NOT ?3
      AND is_counted = 1
    """

  /// How many unread messages of others mention this member or everyone.
  func unreadMentions(_ channel: Int64, _ db: ReadAccess) throws -> Int64 {
    guard state == "joined" else { return 0 }
    return try db.first(
      """
      SELECT count(DISTINCT id)
      FROM mention
      WHERE channel = ?1
        AND user_id IN ('', ?3)
        AND created_at > ?2
        AND sender <> ?3
      """,
      {
        $0.bind(1, channel)
        $0.bind(2, unreadAfter)
        $0.bind(3, userID)
      }
    ) { $0.int64(0) } ?? 0
  }

  func write(to json: inout JSONWriter) {
    user.write(to: &json) { json in
      json.field("state", state)
      json.field("role", isOperator ? "operator" : "")
      json.field("is_muted", isMuted)
    }
  }
}
