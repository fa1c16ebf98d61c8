import JSON
import MicroHTTP
import SQLite

/// A message to be stored, by a send or by the seed.
struct NewMessage {
  var type = "MESG"
  var user: String?
  var text = ""
  var data = ""
  var customType = ""
  var mentionType = "users"
  var mentioned: [String] = []
  var metaarray = Value.array([])
  var file = Value.object([:])
  var reactions = Value.array([])
  var parent: Int64?
  var isReplyToChannel = false
  var isSilent = false
  var createdAt: Int64 = 0

  init() {}

  /// Reads what a client sent.
  init(_ call: Call) throws {
    let arguments = call.arguments
    type = try arguments.text("message_type") ?? "MESG"
    guard ["MESG", "FILE", "ADMM"].contains(type) else { throw Refusal.invalid("message_type") }
    if type != "ADMM" { user = try arguments.neededText("user_id") }
    text = type == "FILE" ? "" : try arguments.neededText("message")
    guard text.count <= 5000 else { throw Refusal.tooLong("message") }
    data = try arguments.text("data") ?? ""
    customType = try arguments.text("custom_type") ?? ""
    guard customType.count <= 128 else { throw Refusal.tooLong("custom_type") }
    mentionType = try arguments.text("mention_type") ?? "users"
    guard ["users", "channel"].contains(mentionType) else { throw Refusal.invalid("mention_type") }
    mentioned = try arguments.texts("mentioned_user_ids") ?? []
    metaarray = try Metaarray.read(arguments.value("sorted_metaarray"))
    isSilent = try arguments.flag("is_silent")
    isReplyToChannel = try arguments.flag("is_reply_to_channel")
    createdAt = try arguments.number("created_at", 0...Int64.max / 1000, default: call.milliseconds)
    parent = try arguments.number("parent_message_id").flatMap { $0 == 0 ? nil : $0 }
    if type == "FILE" { file = try NewMessage.file(call) }
  }

  private static func file(_ call: Call) throws -> Value {
    let arguments = call.arguments
    if let part = arguments.parts.first(where: { $0.path != nil }) {
      return try call.storeUpload(part)
    }
    return .object([
      "url": .string(try arguments.text("url") ?? arguments.neededText("file_url")),
      "name": .string(try arguments.text("file_name") ?? ""),
      "type": .string(try arguments.text("file_type") ?? ""),
      "size": .integer(try arguments.number("file_size") ?? 0),
      "data": .string(try arguments.text("custom_field") ?? ""),
    ])
  }

  /// Stores it, moves the channel in its members' lists and unhides where that is allowed.
  func insert(into channel: Int64, _ db: WriteAccess, stamp: Int64) throws -> Int64 {
    try db.run(
      """
      INSERT INTO message (
        channel, created_at, type, user_id, message, data, custom_type, mention_type, mentioned, metaarray,
        file, reactions, parent, is_reply_to_channel, is_silent)
      VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)
      """
    ) {
      $0.bind(1, channel)
      $0.bind(2, createdAt)
      $0.bind(3, type)
      $0.bind(4, user)
      $0.bind(5, text)
      $0.bind(6, data)
      $0.bind(7, customType)
      $0.bind(8, mentionType)
      $0.bind(9, Value.array(mentioned.map(Value.string)).text)
      $0.bind(10, metaarray.text)
      $0.bind(11, file.text)
      $0.bind(12, reactions.text)
      $0.bind(13, parent)
      $0.bind(14, isReplyToChannel)
      $0.bind(15, isSilent)
    }
    return db.lastInsertRowID
  }

  /// What a new message means for the members' lists.
  static func announce(in channel: Int64, at createdAt: Int64, _ db: WriteAccess, stamp: Int64) throws {
    try db.run(
      """
      UPDATE member
      SET
        sort_at = max(sort_at, ?2),
        stamp = ?3,
        hidden_state = CASE hidden_state
          WHEN 'hidden_allow_auto_unhide' THEN 'unhidden'
          ELSE hidden_state
        END
      WHERE channel = ?1
      """
    ) {
      $0.bind(1, channel)
      $0.bind(2, createdAt)
      $0.bind(3, stamp)
    }
  }
}

/// `sorted_metaarray`: pairs of a key and a list of strings.
enum Metaarray {
  static func read(_ value: Value?) throws -> Value {
    guard let value else { return .array([]) }
    guard case .array(let items) = value else {
      throw Refusal(400102, "\"sorted_metaarray\" must be a list.")
    }
    return .array(
      try items.map { item in
        guard let key = item["key"]?.string else { throw Refusal.missing("key") }
        if let values = item["value"], case .array = values {
          return .object(["key": .string(key), "value": .array(values.strings.map(Value.string))])
        }
        guard item["value"] == nil else { throw Refusal(400102, "\"value\" must be a list.") }
        return .object(["key": .string(key), "value": .array([])])
      })
  }
}
