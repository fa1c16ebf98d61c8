import JSON
import SQLite

/// Operations on channels.
enum Channels {
  static func create(_ call: inout Call, _ json: inout JSONWriter) throws {
    let arguments = call.arguments
    let db = call.db.reading
    let listed = try arguments.texts("user_ids") ?? []
    let given = arguments.value("users")?.items.compactMap { $0.string ?? $0["user_id"]?.string } ?? []
    let members = Set(listed + given).sorted()
    for member in members { _ = try Users.named(member, db) }
    let operators = Set(try arguments.texts("operator_ids") ?? [])
    let key = try arguments.flag("is_distinct") ? members.joined(separator: "\u{1}") : nil
    if let key, let url = try distinct(key, db) {
      return try ChannelJSON.writeDetail(url, viewer: nil, db, to: &json)
    }
    let url = try arguments.text("channel_url") ?? "sendbird_group_channel_\(call.stamp)"
    guard url.utf8.count <= 100 else { throw Refusal.tooLong("channel_url") }
    guard try ChannelRow.find(url, db) == nil else { throw Refusal.exists("channel_url") }
    let texts = try ["name", "cover_url", "data", "custom_type"].map { try arguments.text($0) ?? "" }
    let isPublic = try arguments.flag("is_public")
    let isSuper = try arguments.flag("is_super")
    let seconds = call.seconds
    try call.db.run(
      """
      INSERT INTO channel (
        url, name, cover_url, data, custom_type, created_at, distinct_key, is_public, is_super)
      VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
      """
    ) {
      $0.bind(1, url)
      for (index, text) in texts.enumerated() { $0.bind(Int32(index + 2), text) }
      $0.bind(6, seconds)
      $0.bind(7, key)
      $0.bind(8, isPublic)
      $0.bind(9, isSuper)
    }
    let channel = call.db.lastInsertRowID
    for member in members {
      try Members.add(member, to: channel, state: "joined", isOperator: operators.contains(member), call)
    }
    call.tell("group_channel:create", url)
    try ChannelJSON.writeDetail(url, viewer: nil, db, to: &json)
  }

  private static func distinct(_ key: String, _ db: ReadAccess) throws -> String? {
    try db.first("SELECT url FROM channel WHERE distinct_key = ?1", { $0.bind(1, key) }) { $0.string(0) }
  }

  static func view(_ call: inout Call, _ json: inout JSONWriter) throws {
    let channel = try ChannelRow.named(call.arguments.path("channel_url"), call.db.reading)
    let viewer = try call.arguments.text("user_id")
    let showMembers = try call.arguments.flag("show_member")
    try ChannelJSON.write(channel, viewer: viewer, showMembers: showMembers, call.db.reading, to: &json)
  }

  static func update(_ call: inout Call, _ json: inout JSONWriter) throws {
    let old = try ChannelRow.named(call.arguments.path("channel_url"), call.db.reading)
    let name = try call.arguments.text("name") ?? old.name
    let cover = try call.arguments.text("cover_url") ?? old.coverURL
    let data = try call.arguments.text("data") ?? old.data
    let type = try call.arguments.text("custom_type") ?? old.customType
    let isPublic = try call.arguments.flag("is_public", default: old.isPublic)
    try call.db.run(
      """
      UPDATE channel
      SET name = ?2, cover_url = ?3, data = ?4, custom_type = ?5, is_public = ?6
      WHERE id = ?1
      """
    ) {
      $0.bind(1, old.id)
      $0.bind(2, name)
      $0.bind(3, cover)
      $0.bind(4, data)
      $0.bind(5, type)
      $0.bind(6, isPublic)
    }
    try touch(old.id, call)
    call.tell("group_channel:changed", old.url)
    try ChannelJSON.writeDetail(old.url, viewer: nil, call.db.reading, to: &json)
  }

  static func delete(_ call: inout Call, _ json: inout JSONWriter) throws {
    let channel = try ChannelRow.named(call.arguments.path("channel_url"), call.db.reading)
    for member in try MemberRow.all(channel.id, call.db.reading) {
      try Members.remove(member.userID, from: channel, call)
    }
    try call.db.run("DELETE FROM channel WHERE id = ?1") { $0.bind(1, channel.id) }
    call.tell("group_channel:remove", channel.url)
    json.beginObject()
    json.endObject()
  }

  static func freeze(_ call: inout Call, _ json: inout JSONWriter) throws {
    let channel = try ChannelRow.named(call.arguments.path("channel_url"), call.db.reading)
    guard call.arguments.value("freeze") != nil else { throw Refusal.missing("freeze") }
    let isFrozen = try call.arguments.flag("freeze")
    try call.db.run("UPDATE channel SET is_frozen = ?2 WHERE id = ?1") {
      $0.bind(1, channel.id)
      $0.bind(2, isFrozen)
    }
    try touch(channel.id, call)
    call.tell("group_channel:freeze_unfreeze", channel.url, ["freeze": .bool(isFrozen)])
    try ChannelJSON.writeDetail(channel.url, viewer: nil, call.db.reading, to: &json)
  }

  /// Marks the channel as changed for all its members.
  static func touch(_ channel: Int64, _ call: Call) throws {
    try call.db.run("UPDATE member SET stamp = ?2 WHERE channel = ?1") {
      $0.bind(1, channel)
      $0.bind(2, call.stamp)
    }
  }

  static func metadata(_ call: inout Call, _ json: inout JSONWriter) throws {
    let channel = try ChannelRow.named(call.arguments.path("channel_url"), call.db.reading)
    Value(stored: channel.metadata).write(to: &json)
  }

  static func putMetadata(_ call: inout Call, _ json: inout JSONWriter) throws {
    let channel = try ChannelRow.named(call.arguments.path("channel_url"), call.db.reading)
    guard let fields = try call.arguments.object("metadata") else { throw Refusal.missing("metadata") }
    let given = Users.strings(fields)
    try setMetadata(channel, Value(stored: channel.metadata).fields.merging(given) { $1 }, &call)
    Value.object(given).write(to: &json)
  }

  static func deleteMetadata(_ call: inout Call, _ json: inout JSONWriter) throws {
    let channel = try ChannelRow.named(call.arguments.path("channel_url"), call.db.reading)
    try setMetadata(channel, [:], &call)
    json.beginObject()
    json.endObject()
  }

  private static func setMetadata(_ channel: ChannelRow, _ all: [String: Value], _ call: inout Call) throws {
    try call.db.run("UPDATE channel SET metadata = ?2 WHERE id = ?1") {
      $0.bind(1, channel.id)
      $0.bind(2, Value.object(all).text)
    }
    try touch(channel.id, call)
    call.tell("group_channel:changed", channel.url)
  }
}

extension Call {
  /// Leaves a webhook to be sent after the commit.
  mutating func tell(_ category: String, _ url: String, _ more: [String: Value] = [:]) {
    var fields = more
    fields["category"] = .string(category)
    fields["app_id"] = .string("origin")
    fields["channel"] = .object(["channel_url": .string(url)])
    news.append(.object(fields))
  }
}
