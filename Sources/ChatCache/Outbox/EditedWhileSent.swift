import ChatModel
import JSON
import SQLite

// A user may edit an unsent message after a first copy of it was sent and not found. If the network delivers
// that copy later, or the upstream answers a repetition with it, the message arrives without the edit. The
// cache then sends the edit as it sends that of any confirmed message.
extension CacheWriter {
  /// Sends the edit that the confirmed message lacks. It takes the unsent message's rank, before later edits.
  /// `edited`: from `editedWhileSent`, read before the message was confirmed.
  func sendEdit(
    _ edited: EditedWhileSent?, of request: RequestID, missingIn record: MessageRecord,
    in laneKey: OutboxLaneKey
  ) throws {
    guard let edited, try edited.isMissing(in: record), try reader.row(of: request, in: laneKey) == nil,
      let name = RequestID("edit-\(record.messageID)-\(try nextUnsentID())")
    else { return }
    let content = OutboxContent(params: try edited.content.editFields, body: [])
    var edit = UnsentRequest(requestID: name, kind: .edit, content: content, contentHash: [])
    edit.target = record.messageID
    edit.rank = edited.rank
    edit.isAdmin = edited.isAdmin
    edit.lifetime = max(1, edited.expiresAt - (try outboxMoment()))
    _ = try accept(edit, in: laneKey)
    try noteLane(laneKey)
  }

  /// Called when the row is sent: from now on the upstream may have its edit.
  func noteEditSent(_ id: Int64) throws {
    try db.run("UPDATE outbox SET is_edited = 2 WHERE id = ?1 AND is_edited = 1") { $0.bind(1, id) }
  }
}

/// An unsent message that was edited after its first send.
struct EditedWhileSent {
  /// The edited content.
  let content: OutboxContent
  /// Its rank in the lane.
  let rank: Int64
  let isAdmin: Bool
  let expiresAt: Int64
  /// Whether the message was sent again since the edit.
  let isSentSince: Bool

  /// Whether the upstream's message lacks the edit.
  func isMissing(in record: MessageRecord) throws -> Bool {
    // The upstream may have the edit, and a newer change of the message, which stays.
    if isSentSince, record.updatedAt > record.createdAt { return false }
    let asked = try MessageContent(asked: content.params)
    return try asked != MessageContent(record, like: asked) || content.hasUncomparedFields
  }
}

extension CacheReader {
  /// The row, if it is a message that was edited after its first send; nil otherwise.
  func editedWhileSent(_ id: Int64) throws -> EditedWhileSent? {
    try db.first(
      """
      SELECT params, place, is_admin, expires_at, is_edited
      FROM outbox
      WHERE id = ?1 AND is_edited > 0 AND is_cancel_wanted = 0
      """
    ) {
      $0.bind(1, id)
    } _: {
      EditedWhileSent(
        content: OutboxContent(params: Array($0.bytes(0)), body: []), rank: $0.int64(1),
        isAdmin: $0.bool(2), expiresAt: $0.int64(3), isSentSince: $0.int64(4) == 2)
    }
  }
}

extension OutboxContent {
  /// Whether the client set a field that `MessageContent` does not compare.
  fileprivate var hasUncomparedFields: Bool {
    get throws {
      try params.withUnsafeBytes { bytes in
        try JSONParser.parse(bytes) { asked in
          ["mention_type", "mentioned_user_ids", "metaarray"].contains { asked.field(named: $0) != nil }
        }
      }
    }
  }

  /// The fields of `params` that an edit may have.
  fileprivate var editFields: [UInt8] {
    get throws {
      try params.withUnsafeBytes { bytes in
        try JSONParser.parse(bytes) { asked in
          var json = JSONWriter(capacity: params.count)
          json.beginObject()
          for name in [
            "message", "data", "custom_type", "mention_type", "mentioned_user_ids", "metaarray",
          ] as [StaticString] {
            guard let value = asked.field(named: "\(name)") else { continue }
            json.name(name)
            json.value(value)
          }
          json.endObject()
          return json.finish().array
        }
      }
    }
  }
}
