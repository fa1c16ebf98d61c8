import ChatModel
import JSON
import SQLite

// What a user asked to change about a confirmed message and the upstream has not answered: it stands beside
// the message, never in it (B46, B47).

extension CacheReader {
  /// Writes `pending_edit`, `pending_delete` and `pending_reactions` of a confirmed message as fields of the
  /// object that is open, where there are any. Answers whether there were.
  @discardableResult
  package func writePending(
    of message: Int64, in place: OutboxPlace, into writer: inout JSONWriter
  ) throws -> Bool {
    var rows = try db.rows(
      """
      SELECT kind, request_id, params, aspect
      FROM outbox INDEXED BY outbox_by_target
      WHERE user = ?1
        AND channel_url = ?2
        AND target_id = ?3
        AND target_id IS NOT NULL
        AND kind IN ('edit', 'delete', 'reaction')
        AND state NOT IN ('failed', 'canceled')
      ORDER BY kind = 'reaction', kind, aspect, place DESC
      """
    ) {
      $0.bind(1, place.user.rawValue)
      $0.bind(2, place.channel.text)
      $0.bind(3, message)
    }
    var last: (kind: String, aspect: String)?
    var isInReactions = false
    while let row = try rows.next() {
      let kind = row.string(0)
      let aspect = row.string(3)
      // The latest of each counts: an earlier one is on its way, and this one comes after it.
      if let last, last == (kind, aspect) { continue }
      last = (kind, aspect)
      switch kind {
      case OutboxRow.Kind.edit.rawValue: writer.name("pending_edit")
      case OutboxRow.Kind.delete.rawValue: writer.name("pending_delete")
      default:
        if !isInReactions {
          writer.name("pending_reactions")
          writer.beginArray()
        }
        isInReactions = true
      }
      writer.beginObject()
      writer.field("request_id", row.string(1))
      if isInReactions { writer.field("key", aspect) }
      if kind != OutboxRow.Kind.delete.rawValue {
        writer.name("changes")
        writer.splice(row.bytes(2))
      }
      writer.endObject()
    }
    if isInReactions { writer.endArray() }
    return last != nil
  }
}
