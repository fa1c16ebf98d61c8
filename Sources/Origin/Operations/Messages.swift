import JSON
import SQLite

/// Operations on messages.
enum Messages {
  static func list(_ question: Question, _ json: inout JSONWriter) throws {
    let channel = try ChannelRow.named(question)
    let window = try MessageWindow(channel, question)
    json.beginObject()
    json.name("messages")
    try window.write(MessageJSON(channelURL: channel.url, question), question.reading, to: &json)
    json.endObject()
  }

  static func send(_ call: inout Call, _ json: inout JSONWriter) throws {
    let channel = try ChannelRow.named(call)
    var new = try NewMessage(call)
    let parts = MessageJSON(channelURL: channel.url, base: call.base, call.capabilities)
    if let user = new.user { try allow(user, in: channel, call.reading) }
    try checkParent(new, channel, call)
    for user in new.mentioned { _ = try Users.named(user, call.reading) }
    if let first = try repeated(new, channel, call) {
      guard try parts.write(id: first, call.reading, to: &json) else { throw Refusal.unknown("Message") }
      return
    }
    if new.type == "FILE" { new.file = try Uploads.file(of: call) }
    let id = try new.insert(into: channel.id, call.db)
    try new.announce(in: channel.id, call.db, stamp: call.stamp)
    if let parent = new.parent { try noteThread(parent, channel.id, call) }
    try remember(new, id, channel, call)
    if let user = new.user, try call.arguments.flag("mark_as_read", default: true) {
      try ReadMarks.mark(user, in: channel.id, at: new.createdAt, call)
    }
    try Messages.tellSent(&call, channel, id, new)
    _ = try parts.write(id: id, call.reading, to: &json)
  }

  private static func checkParent(_ new: NewMessage, _ channel: ChannelRow, _ call: Call) throws {
    guard let parent = new.parent else { return }
    let isTop = try call.reading.first(
      "SELECT parent IS NULL FROM message WHERE id = ?1 AND channel = ?2",
      {
        $0.bind(1, parent)
        $0.bind(2, channel.id)
      }
    ) { $0.bool(0) }
    guard let isTop else { throw Refusal.unknown("parent_message_id") }
    guard isTop else { throw Refusal.invalid("parent_message_id") }
  }

  private static func remember(_ new: NewMessage, _ id: Int64, _ channel: ChannelRow, _ call: Call) throws {
    guard !new.dedupID.isEmpty, call.capabilities.duplicates != .off else { return }
    try call.db.run("INSERT OR REPLACE INTO sent (channel, user_id, dedup_id, id) VALUES (?1, ?2, ?3, ?4)") {
      $0.bind(1, channel.id)
      $0.bind(2, new.user ?? "")
      $0.bind(3, new.dedupID)
      $0.bind(4, id)
    }
  }

  /// The message that the user sent before with this `dedup_id`. All admin messages count as one user's.
  private static func repeated(_ new: NewMessage, _ channel: ChannelRow, _ call: Call) throws -> Int64? {
    guard call.capabilities.duplicates != .off, !new.dedupID.isEmpty else { return nil }
    let id = try call.reading.first(
      """
      SELECT id
      FROM sent
      WHERE channel = ?1
        AND user_id = ?2
        AND dedup_id = ?3
      """,
      {
        $0.bind(1, channel.id)
        $0.bind(2, new.user ?? "")
        $0.bind(3, new.dedupID)
      }
    ) { $0.int64(0) }
    if id != nil, call.capabilities.duplicates == .error { throw Refusal.exists("dedup_id") }
    return id
  }

  private static func allow(_ user: String, in channel: ChannelRow, _ db: ReadAccess) throws {
    _ = try Users.actor(user, db)
    guard let member = try MemberRow.find(channel.id, user, db), member.state == "joined" else {
      throw Refusal.notMember
    }
    if member.isMuted { throw Refusal(900041, "The user is muted.") }
    if channel.isFrozen, !member.isOperator { throw Refusal(900050, "The channel is frozen.") }
  }

  /// The channel of the path and the id of a message in it.
  static func named(_ asked: some Asked) throws -> (channel: ChannelRow, id: Int64) {
    let channel = try ChannelRow.named(asked)
    guard let id = Int64(asked.arguments.path("message_id")) else {
      throw Refusal(400101, "\"message_id\" must be a number.")
    }
    let found = try asked.reading.first(
      "SELECT 1 FROM message WHERE id = ?1 AND channel = ?2",
      {
        $0.bind(1, id)
        $0.bind(2, channel.id)
      }
    ) { _ in true }
    guard found != nil else { throw Refusal.unknown("Message") }
    return (channel, id)
  }

  static func view(_ question: Question, _ json: inout JSONWriter) throws {
    let (channel, id) = try named(question)
    let parts = MessageJSON(channelURL: channel.url, base: question.base, question.capabilities)
    _ = try parts.write(id: id, question.reading, to: &json)
  }

  static func delete(_ call: inout Call, _ json: inout JSONWriter) throws {
    let (channel, id) = try named(call)
    let parent = try call.reading.first("SELECT parent FROM message WHERE id = ?1", { $0.bind(1, id) }) {
      $0.int64OrNil(0)
    }
    try call.db.run("DELETE FROM message WHERE id = ?1") { $0.bind(1, id) }
    try note(id, isDeleted: true, channel.id, call)
    if case .some(.some(let parent)) = parent { try noteThread(parent, channel.id, call) }
    let newest = try ChannelJSON.newest(channel.id, above: 0, call.reading)?.createdAt
    try ChangeForAll(
      channel: channel.id, order: .at(newest ?? channel.createdAt * 1000), stamp: call.stamp
    ).apply(call.db)
    call.tellMessage("message_delete", channel.url, id)
    json.emptyObject()
  }

  /// Puts a message into its channel's changelog.
  static func note(_ id: Int64, isDeleted: Bool, _ channel: Int64, _ call: Call) throws {
    try call.db.run(
      "INSERT OR REPLACE INTO message_change (channel, id, stamp, is_deleted) VALUES (?1, ?2, ?3, ?4)"
    ) {
      $0.bind(1, channel)
      $0.bind(2, id)
      $0.bind(3, call.stamp)
      $0.bind(4, isDeleted)
    }
  }

  /// Notes that a reply came or went: the parent's thread changed, unless the parent is gone itself.
  private static func noteThread(_ parent: Int64, _ channel: Int64, _ call: Call) throws {
    let milliseconds = call.milliseconds
    let count = try call.db.run("UPDATE message SET thread_at = max(thread_at + 1, ?2) WHERE id = ?1") {
      $0.bind(1, parent)
      $0.bind(2, milliseconds)
    }
    if count > 0 { try note(parent, isDeleted: false, channel, call) }
  }

  static func count(_ question: Question, _ json: inout JSONWriter) throws {
    let channel = try ChannelRow.named(question)
    let total = try question.reading.first(
      "SELECT count(*) FROM message WHERE channel = ?1", { $0.bind(1, channel.id) }
    ) { $0.int64(0) }
    json.beginObject()
    json.field("total", total ?? 0)
    json.endObject()
  }
}
