import JSON
import SQLite

/// Writes a channel as the stand-in's API answers it.
struct ChannelJSON {
  /// The user as whom the channel is shown; nil: as no user.
  var viewer: String?
  var areMembersShown = false
  var areReadPositionsShown = true
  var isMetadataShown = false
  var isMetaarrayShown = false
  /// The base url of files that this server serves.
  let base: String
  private let capabilities: Capabilities

  private static let memberLimit = 100

  /// Shows the parts that a request asks for.
  init(viewer: String?, _ asked: some Asked) throws {
    self.viewer = viewer
    base = asked.base
    capabilities = asked.capabilities
    areMembersShown = try asked.arguments.flag("show_member")
    areReadPositionsShown = try asked.arguments.flag("show_read_receipt", default: true)
    isMetadataShown = try asked.arguments.flag("show_metadata")
    isMetaarrayShown = try asked.arguments.flag("include_sorted_metaarray_in_last_message")
  }

  /// Shows all parts.
  init(viewer: String?, whole asked: some Asked) {
    self.viewer = viewer
    base = asked.base
    capabilities = asked.capabilities
    areMembersShown = true
    isMetadataShown = true
    isMetaarrayShown = true
  }

  func write(_ channel: ChannelRow, _ db: ReadAccess, to json: inout JSONWriter) throws {
    let own = try viewer.flatMap { try MemberRow.find(channel.id, $0, db) }
    json.beginObject()
    try writeOwnFields(channel, db, to: &json)
    try writeLastMessage(channel, above: own?.floor ?? 0, db, to: &json)
    if let own { try write(own, channel.id, db, to: &json) }
    if areMembersShown {
      json.name("members")
      json.beginArray()
      for member in try MemberRow.page(channel.id, after: "", limit: ChannelJSON.memberLimit, db) {
        member.write(to: &json)
      }
      json.endArray()
    }
    json.endObject()
  }

  private func writeOwnFields(_ channel: ChannelRow, _ db: ReadAccess, to json: inout JSONWriter) throws {
    let count = try ChannelJSON.members(of: channel.id, db)
    json.field("channel_url", channel.url)
    json.field("name", channel.name)
    json.field("cover_url", channel.coverURL)
    json.field("data", channel.data)
    json.field("custom_type", channel.customType)
    json.field("created_at", channel.createdAt)
    json.field("is_distinct", channel.isDistinct)
    json.field("is_public", channel.isPublic)
    json.field("is_super", channel.isSuper)
    json.field("is_ephemeral", false)
    json.field("is_broadcast", channel.isBroadcast)
    json.field("is_discoverable", channel.isPublic)
    json.field("freeze", channel.isFrozen)
    json.field("max_length_message", NewMessage.textLimit)
    json.field("message_survival_seconds", -1)
    json.field("member_count", count.all)
    json.field("joined_member_count", count.joined)
    json.field(
      "disappearing_message",
      stored: #"{"message_survival_seconds":-1,"is_triggered_by_message_read":false}"#)
    json.field("sms_fallback", stored: #"{"wait_seconds":-1,"exclude_user_ids":[]}"#)
    if isMetadataShown { json.field("metadata", stored: channel.metadata) }
    guard areReadPositionsShown else { return }
    json.name("read_receipt")
    json.beginObject()
    try writeReadPositions(channel.id, db, to: &json)
    json.endObject()
  }

  private static func members(of channel: Int64, _ db: ReadAccess) throws -> (all: Int64, joined: Int64) {
    try db.first(
      """
      SELECT members, joined
      FROM crowd
      WHERE channel = ?1
      UNION ALL
      SELECT count(*), count(*) FILTER (WHERE state = 'joined')
      FROM member
      WHERE channel = ?1
      LIMIT 1
      """,
      { $0.bind(1, channel) }
    ) { ($0.int64(0), $0.int64(1)) } ?? (0, 0)
  }

  private func writeReadPositions(_ channel: Int64, _ db: ReadAccess, to json: inout JSONWriter) throws {
    var rows = try db.rows(
      "SELECT user_id, read_at FROM member WHERE channel = ?1 AND state = 'joined' ORDER BY user_id"
    ) { $0.bind(1, channel) }
    while let row = try rows.next() {
      json.name(row.bytes(0))
      json.value(row.int64(1))
    }
  }

  private func write(_ own: MemberRow, _ channel: Int64, _ db: ReadAccess, to json: inout JSONWriter) throws {
    json.field("unread_message_count", try own.unread(channel, db))
    json.field("unread_mention_count", try own.unreadMentions(channel, db))
    json.field("member_state", own.state)
    json.field("my_role", own.isOperator ? "operator" : "none")
    json.field("hidden_state", own.hiddenState)
    json.field("is_hidden", own.hiddenState != "unhidden")
    json.field("is_muted", own.isMuted)
    json.field("user_last_read", own.readAt)
    json.field("joined_ts", own.joinedAt / 1000)
    json.field("ts_message_offset", own.floor)
    if let invitedAt = own.invitedAt { json.field("invited_at", invitedAt) }
    if let inviter = try own.inviter.flatMap({ try UserRow.find($0, db) }) {
      json.name("inviter")
      inviter.write(to: &json)
    }
  }

  private func writeLastMessage(
    _ channel: ChannelRow, above floor: Int64, _ db: ReadAccess, to json: inout JSONWriter
  ) throws {
    guard let newest = try ChannelJSON.newest(channel.id, above: floor, db) else { return }
    var parts = MessageJSON(channelURL: channel.url, base: base, capabilities)
    parts.isMetaarrayShown = isMetaarrayShown
    json.name("last_message")
    _ = try parts.write(id: newest.id, db, to: &json)
  }

  /// The newest message that is not only in a thread.
  static func newest(_ channel: Int64, above floor: Int64, _ db: ReadAccess) throws
    -> (id: Int64, createdAt: Int64)?
  {
    try db.first(
      newestSQL,
      {
        $0.bind(1, channel)
        $0.bind(2, floor)
      }
    ) { ($0.int64(0), $0.int64(1)) }
  }

  static let newestSQL: StaticString = """
    SELECT id, created_at
    FROM message
    WHERE channel = ?1
      AND created_at > ?2
      AND (parent IS NULL OR is_reply_to_channel = 1)
    ORDER BY created_at DESC, id DESC
    LIMIT 1
    """

  /// The answer of create, update, invite, accept, join and freeze: the channel, its operators and a short
  /// `channel` inside.
  static func writeDetail(_ url: String, _ call: Call, to json: inout JSONWriter) throws {
    guard let channel = try ChannelRow.find(url, call.reading) else { throw Refusal.unknown("Channel") }
    var whole = JSONWriter()
    try ChannelJSON(viewer: nil, whole: call).write(channel, call.reading, to: &whole)
    var fields = Value(stored: String(decoding: whole.buffer.bytes, as: UTF8.self)).fields
    fields["operators"] = .array(
      try MemberRow.all(channel.id, call.reading).filter(\.isOperator).map { member in
        var one = JSONWriter()
        member.write(to: &one)
        return Value(stored: String(decoding: one.buffer.bytes, as: UTF8.self))
      })
    let short = [
      "channel_url", "name", "cover_url", "data", "custom_type", "created_at", "max_length_message",
      "member_count",
    ]
    fields["channel"] = .object(fields.filter { short.contains($0.key) })
    Value.object(fields).write(to: &json)
  }
}
