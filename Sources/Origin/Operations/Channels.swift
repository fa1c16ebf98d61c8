import JSON
import SQLite

/// Operations on channels.
enum Channels {
  static func create(_ call: inout Call, _ json: inout JSONWriter) throws {
    let arguments = call.arguments
    let members = try Members.listed(arguments)
    for member in members { _ = try Users.named(member, call.reading) }
    let operators = try arguments.texts("operator_ids") ?? []
    let key = try arguments.flag("is_distinct") ? members.joined(separator: "\u{1}") : nil
    if let key, let url = try distinct(key, call.reading) {
      return try ChannelJSON.writeDetail(url, call, to: &json)
    }
    let url =
      arguments.value("channel_url") == nil
      ? "sendbird_group_channel_\(call.stamp)" : try arguments.newID("channel_url", limit: 100)
    guard try ChannelRow.find(url, call.reading) == nil else { throw Refusal.exists("channel_url") }
    try insert(url, key, call)
    let channel = call.db.lastInsertRowID
    let inviter = try arguments.text("inviter_id")
    for member in members {
      let state = try Members.invitation(member, arguments)
      try Members.add(
        member, to: channel, state: state, isOperator: operators.contains(bytesOf: member), inviter: inviter,
        call)
    }
    call.tell("group_channel:create", url, ["members": .array(members.map(Members.user))])
    try ChannelJSON.writeDetail(url, call, to: &json)
  }

  private static func insert(_ url: String, _ key: String?, _ call: Call) throws {
    let arguments = call.arguments
    let texts = try ["name", "cover_url", "data", "custom_type"].map { try arguments.text($0) ?? "" }
    guard texts[0].count <= 191 else { throw Refusal.tooLong("name") }
    let flags = try ["is_public", "is_super", "is_broadcast"].map { try arguments.flag($0) }
    try call.db.run(
      """
      INSERT INTO channel (
        url, name, cover_url, data, custom_type, created_at, distinct_key, is_public, is_super, is_broadcast)
      VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
      """
    ) {
      $0.bind(1, url)
      for (index, text) in texts.enumerated() { $0.bind(Int32(index + 2), text) }
      $0.bind(6, call.seconds)
      $0.bind(7, key)
      for (index, flag) in flags.enumerated() { $0.bind(Int32(index + 8), flag) }
    }
  }

  private static func distinct(_ key: String, _ db: ReadAccess) throws -> String? {
    try db.first("SELECT url FROM channel WHERE distinct_key = ?1", { $0.bind(1, key) }) { $0.string(0) }
  }

  static func view(_ question: Question, _ json: inout JSONWriter) throws {
    let channel = try ChannelRow.named(question)
    let viewer = try question.arguments.text("user_id")
    if let viewer { _ = try Users.named(viewer, question.reading) }
    try ChannelJSON(viewer: viewer, question).write(channel, question.reading, to: &json)
  }

  static func update(_ call: inout Call, _ json: inout JSONWriter) throws {
    let old = try ChannelRow.named(call)
    let fields = [
      ("name", old.name), ("cover_url", old.coverURL), ("data", old.data), ("custom_type", old.customType),
    ]
    let texts = try fields.map { try call.arguments.text($0.0) ?? $0.1 }
    let isPublic = try call.arguments.flag("is_public", default: old.isPublic)
    try call.db.run(
      """
      UPDATE channel
      SET name = ?2, cover_url = ?3, data = ?4, custom_type = ?5, is_public = ?6
      WHERE id = ?1
      """
    ) {
      $0.bind(1, old.id)
      for (index, text) in texts.enumerated() { $0.bind(Int32(index + 2), text) }
      $0.bind(6, isPublic)
    }
    try touch(old.id, call)
    let changes = zip(fields, texts).filter { $0.0.1 != $0.1 }.map { field, text in
      Value.object(["key": .string(field.0), "old": .string(field.1), "new": .string(text)])
    }
    call.tell("group_channel:changed", old.url, ["changes": .array(changes)])
    try ChannelJSON.writeDetail(old.url, call, to: &json)
  }

  static func delete(_ call: inout Call, _ json: inout JSONWriter) throws {
    let channel = try ChannelRow.named(call)
    for member in try MemberRow.all(channel.id, call.reading) {
      try Members.remove(member.userID, from: channel, call)
    }
    try call.db.run("DELETE FROM channel WHERE id = ?1") { $0.bind(1, channel.id) }
    call.tell("group_channel:remove", channel.url)
    json.emptyObject()
  }

  /// Marks the channel as changed for all its members.
  static func touch(_ channel: Int64, _ call: Call) throws {
    try ChangeForAll(channel: channel, stamp: call.stamp).apply(call.db)
  }
}
