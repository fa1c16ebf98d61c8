import JSON
import MicroHTTP
import SQLite

/// A message to be stored, by a send or by the seed.
struct NewMessage {
  static let textLimit = 5000

  var type = "MESG"
  var user: String?
  var text = ""
  var data = ""
  var customType = ""
  var mentionType = "users"
  var mentioned: [String] = []
  var metaarray = Value.array([])
  var file = StoredFile()
  var reactions = Value.array([])
  var dedupID = ""
  var parent: Int64?
  var threadAt: Int64 = 0
  var isReplyToChannel = false
  var isSilent = false
  var createdAt: Int64 = 0

  /// Whether the channel shows it, and not only a thread.
  var isShown: Bool { parent == nil || isReplyToChannel }

  init() {}

  /// Reads what a client sent, without its file.
  init(_ call: Call) throws {
    let arguments = call.arguments
    type = try arguments.choice("message_type", ["MESG", "FILE", "ADMM"], default: "MESG")
    if type != "ADMM" { user = try arguments.neededText("user_id") }
    text = type == "FILE" ? "" : try arguments.neededText("message")
    guard text.count <= NewMessage.textLimit else { throw Refusal.tooLong("message") }
    data = try arguments.text("data") ?? ""
    customType = try arguments.text("custom_type") ?? ""
    guard customType.count <= 128 else { throw Refusal.tooLong("custom_type") }
    mentionType = try arguments.choice("mention_type", ["users", "channel"], default: "users")
    mentioned = try arguments.texts("mentioned_user_ids") ?? []
    metaarray = try Metaarrays.read(arguments.value("sorted_metaarray"))
    dedupID = try arguments.text("dedup_id") ?? ""
    isSilent = try arguments.flag("is_silent")
    isReplyToChannel = try arguments.flag("is_reply_to_channel")
    createdAt = try arguments.number("created_at", 0...Int64.max / 1000, default: call.milliseconds)
    parent = try arguments.number("parent_message_id").flatMap { $0 == 0 ? nil : $0 }
  }

  /// Stores the message, and returns its id.
  func insert(into channel: Int64, _ db: WriteAccess) throws -> Int64 {
    try db.run(
      """
      INSERT INTO message (
        channel, created_at, type, user_id, message, data, custom_type, mention_type, mentioned, metaarray,
        file, file_url, reactions, dedup_id, parent, thread_at, is_reply_to_channel, is_silent, is_counted)
      VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19)
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
      $0.bind(11, file.fields.text)
      $0.bind(12, file.url)
      $0.bind(13, reactions.text)
      $0.bind(14, dedupID)
      $0.bind(15, parent)
      $0.bind(16, threadAt)
      $0.bind(17, isReplyToChannel)
      $0.bind(18, isSilent)
      $0.bind(19, !isSilent && isShown)
    }
    let id = db.lastInsertRowID
    try Mentions.set(id, channel: channel, createdAt, sender: user, mentionType, mentioned, db)
    return id
  }

  /// Changes the members for a new message: the channel rises in their lists, and is unhidden if they allow
  /// that.
  func announce(in channel: Int64, _ db: WriteAccess, stamp: Int64) throws {
    try ChangeForAll(channel: channel, order: isShown ? .atLeast(createdAt) : .asBefore, stamp: stamp).apply(
      db)
    try db.run(
      """
      UPDATE member
      SET hidden_state = 'unhidden'
      WHERE channel = ?1
        AND hidden_state = 'hidden_allow_auto_unhide'
      """
    ) { $0.bind(1, channel) }
  }
}

/// Stores which users each message mentions, with its time, so that unread mentions can be counted.
enum Mentions {
  static func set(
    _ id: Int64, channel: Int64, _ createdAt: Int64, sender: String?, _ type: String, _ users: [String],
    _ db: WriteAccess
  ) throws {
    for user in type == "channel" ? [""] : users.onceByBytes {
      try db.run(
        """
        INSERT OR IGNORE INTO mention (channel, user_id, created_at, id, sender)
        VALUES (?1, ?2, ?3, ?4, ?5)
        """
      ) {
        $0.bind(1, channel)
        $0.bind(2, user)
        $0.bind(3, createdAt)
        $0.bind(4, id)
        $0.bind(5, sender ?? "")
      }
    }
  }

  static func clear(_ id: Int64, _ db: WriteAccess) throws {
    try db.run("DELETE FROM mention WHERE id = ?1") { $0.bind(1, id) }
  }
}
