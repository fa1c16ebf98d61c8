import ChatModel
import SQLite
import Testing

@testable import ChatCache

/// A way in which a person or a disk makes a file contradict itself.
struct Damage: Sendable, CustomTestStringConvertible {
  let name: String
  /// The fault that must be found.
  let fault: Finding.Fault
  /// The SQL that does it, to channel 1 and user 1.
  let sql: String

  init(_ name: String, _ fault: Finding.Fault, _ sql: String) {
    self.name = name
    self.fault = fault
    self.sql = sql
  }

  var testDescription: String { name }

  /// Does it without the service.
  func strike(_ directory: String) throws {
    let connection = try Connection(path: directory + "/perch.db", mode: .readWrite)
    try connection.execute("PRAGMA foreign_keys = OFF; PRAGMA ignore_check_constraints = ON;")
    try connection.execute(sql)
  }

  /// Damages of one channel, each of which a reset heals.
  static let ofChannel: [Damage] = line + messages + channel + memberships

  private static let line = [
    Damage(
      "segments that overlap", .coverage,
      "UPDATE segment SET hi_at = hi_at + 5 WHERE channel = 1 AND kind = 0"),
    Damage(
      "a hole between segments", .coverage,
      "UPDATE segment SET hi_at = hi_at - 5 WHERE channel = 1 AND kind = 0"),
    Damage("a line without a tail", .coverage, "DELETE FROM segment WHERE channel = 1 AND kind = 2"),
    Damage("a line without a beginning", .coverage, "DELETE FROM segment WHERE channel = 1 AND kind = 0"),
    Damage(
      "a segment of no known kind", .coverage, "UPDATE segment SET kind = 9 WHERE channel = 1 AND kind = 0"),
    Damage(
      "two gaps of one name", .coverage,
      """
      UPDATE segment
      SET hi_at = 20, hi_id = 5, kind = 1, id = 1, reason = 0, state = 0
      WHERE channel = 1 AND kind = 0;
      INSERT INTO segment (channel, lo_at, lo_id, hi_at, hi_id, kind, id, reason, state)
      SELECT 1, 20, 6, lo_at, lo_id - 1, 1, 1, 1, 0 FROM segment WHERE channel = 1 AND kind = 2;
      """),
  ]

  private static let messages = [
    Damage("a count too high", .counts, "UPDATE channel SET cached_messages = 99 WHERE id = 1"),
    Damage("bytes miscounted", .counts, "UPDATE channel SET cached_bytes = 1 WHERE id = 1"),
    Damage("a lost row", .counts, "DELETE FROM message WHERE channel = 1 AND message_id = 3"),
    Damage(
      "a cut body", .message,
      "UPDATE message SET body = substr(body, 1, 9) WHERE channel = 1 AND message_id = 3"),
    Damage(
      "another message's body", .message,
      """
      UPDATE message SET body = (SELECT body FROM message WHERE channel = 1 AND message_id = 4)
      WHERE channel = 1 AND message_id = 3
      """),
    Damage(
      "a part that is no JSON", .message,
      "UPDATE message SET reactions = CAST('[{' AS BLOB) WHERE channel = 1 AND message_id = 3"),
    Damage(
      "a type nobody knows", .message, "UPDATE message SET type = 7 WHERE channel = 1 AND message_id = 3"),
    Damage(
      "a message before 1970", .message,
      "UPDATE message SET created_at = -5 WHERE channel = 1 AND message_id = 3"),
    Damage("a message both stored and deleted", .message, "INSERT INTO tombstone VALUES (1, 3, 5, 0)"),
    Damage(
      "mentions that are no list", .message,
      "UPDATE message SET mentions = '[\"bob' WHERE channel = 1 AND message_id = 3"),
    Damage(
      "a message at two times", .message,
      """
      INSERT INTO message
      SELECT
        channel, created_at + 1, message_id, parent_id, flags, body, version, updated_at, type, parent_at,
        sender, custom_type, mentions, reactions, metaarray, thread_info, parent, first_version
      FROM message
      WHERE channel = 1 AND message_id = 3
      """),
    Damage(
      "a message from the future of the log", .version,
      "UPDATE message SET version = 1 << 40 WHERE channel = 1 AND message_id = 3"),
  ]

  private static let channel = [
    Damage("a channel's cut body", .channel, "UPDATE channel SET body = substr(body, 1, 9) WHERE id = 1"),
    Damage(
      "read receipts that are no JSON", .channel,
      "UPDATE channel SET read_receipts = CAST('[' AS BLOB) WHERE id = 1"),
    Damage(
      "a count of read positions that are not there", .channel,
      "UPDATE channel SET reader_count = 101 WHERE id = 1"),
    Damage("a name's key that is another's", .channel, "UPDATE channel SET name_key = 'other' WHERE id = 1"),
    Damage(
      "metadata that is no JSON", .channel,
      "UPDATE channel SET metadata = CAST('{\"a\":1}' AS BLOB) WHERE id = 1"),
    Damage(
      "a metadata row that says something else", .channel,
      "UPDATE channel_metadata SET value = 'red' WHERE channel = 1"),
    Damage(
      "a member that is no JSON", .channel,
      "UPDATE member SET body = CAST('}' AS BLOB) WHERE channel = 1 AND user_id = 'bob'"),
    Damage("half of a last message", .lastMessage, "UPDATE channel SET last_message_id = NULL WHERE id = 1"),
    Damage(
      "a last message that is no JSON", .lastMessage,
      "UPDATE channel SET last_message = CAST('{' AS BLOB) WHERE id = 1"),
    Damage(
      "a last message under another id", .lastMessage, "UPDATE channel SET last_message_id = 4 WHERE id = 1"),
    Damage(
      "a channel from the future of the log", .version, "UPDATE channel SET version = 1 << 40 WHERE id = 1"),
  ]

  private static let memberships = [
    Damage(
      "a wrong position in a list", .listPosition,
      "UPDATE membership SET sort_at = 5 WHERE channel = 1 AND user = 1"),
    Damage(
      "a copy of another name", .listPosition, "UPDATE membership SET name_key = 'other' WHERE channel = 1"),
    Damage(
      "a copy of another creation", .listPosition, "UPDATE membership SET created_at = 77 WHERE channel = 1"),
    Damage(
      "less than nothing unread", .listPosition,
      "UPDATE membership SET unread = -1 WHERE channel = 1 AND user = 1"),
    Damage(
      "an inviter that is no JSON", .channel,
      "UPDATE membership SET inviter = CAST('{' AS BLOB) WHERE channel = 1"),
    Damage(
      "a membership from the future of the log", .version,
      "UPDATE membership SET version = 1 << 40 WHERE channel = 1"),
  ]

  /// Damages of no channel.
  static let ofNobody = [
    Damage(
      "segments of no channel", .orphans,
      "INSERT INTO segment (channel, lo_at, lo_id, hi_at, hi_id, kind) VALUES (99, 0, 0, 1, 1, 0)"),
    Damage(
      "messages of no channel", .orphans,
      """
      INSERT INTO message (
        channel, created_at, message_id, version, updated_at, type, flags, sender, custom_type, body)
      VALUES (99, 1, 1, 1, 0, 0, 0, 'bob', '', x'00')
      """
    ),
    Damage(
      "memberships of no user", .orphans, "UPDATE membership SET user = 99 WHERE channel = 2 AND user = 2"),
    Damage(
      "channels and messages of a user miscounted", .counts,
      "UPDATE cached_count SET messages = messages + 1 WHERE user = 1"),
    Damage(
      "a wrong number of newest ends", .counts, "UPDATE segment_count SET segments = 9 WHERE kind = 2"),
    Damage(
      "an event of no known kind", .event,
      "UPDATE event SET kind = 99 WHERE seq = (SELECT min(seq) FROM event)"),
  ]

  /// Damages that a check in parts must find, too.
  static let ofParts = ofNobody + [messages[0], messages[3], channel[0], memberships[0]]

  /// Changes each row while an index is removed from the schema, and then puts the index back.
  static func breakIndex(_ index: String, _ directory: String) throws {
    let change =
      switch index {
      case "message_by_id": "UPDATE message SET message_id = message_id + 1000 WHERE message_id = 3"
      case "message_by_parent": "UPDATE message SET parent_id = 4 WHERE message_id = 3"
      case "membership_by_name":

        "UPDATE membership SET name_key = 'other'; UPDATE channel SET name_key = 'other', name = 'other'"
      default: "UPDATE outbox SET expires_at = expires_at + 1 WHERE id = 1"
      }
    try loseEntries(of: index, change, directory)
  }

  /// Runs the SQL while the index is removed from the schema, and then puts the index back.
  static func loseEntries(of index: String, _ change: String, _ directory: String) throws {
    let path = directory + "/perch.db"
    let (page, table, sql) = try Connection(path: path, mode: .readWrite).write { db in
      var rows = try db.reading.rows(
        composed: "SELECT rootpage, tbl_name, sql FROM sqlite_master WHERE name = '\(index)'")
      let row = try #require(try rows.next())
      let found = (row.int64(0), row.string(1), row.string(2))
      try db.execute("PRAGMA writable_schema = ON")
      try db.execute("DELETE FROM sqlite_master WHERE name = '\(index)'")
      return found
    }
    let quoted = sql.split(separator: "'", omittingEmptySubsequences: false).joined(separator: "''")
    try Connection(path: path, mode: .readWrite).execute(
      """
      PRAGMA foreign_keys = OFF;
      \(change);
      PRAGMA writable_schema = ON;
      INSERT INTO sqlite_master VALUES ('index', '\(index)', '\(table)', \(page), '\(quoted)');
      """)
  }
}
