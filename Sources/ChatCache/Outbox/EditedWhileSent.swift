import ChatModel
import JSON
import SQLite

// A message may be edited where it waits after a first copy of it left: that copy was looked for and not
// found. Where the network delivers the first copy later, or the upstream answers a repetition with it, the
// message has arrived without the edit. Then the edit is made upstream like that of any confirmed message.
extension CacheWriter {
  /// Sends the edit that the confirmed message lacks. `content`: what the message should be, from
  /// `contentToCompare` before the message was confirmed.
  func sendEdit(
    _ content: OutboxContent?, of request: RequestID, missingIn record: MessageRecord, in place: OutboxPlace
  ) throws {
    guard let content, try MessageContent(asked: content.params) != MessageContent(record),
      try reader.row(of: request, in: place) == nil,
      let name = RequestID("edit-\(record.messageID)-\(try nextUnsentID())")
    else { return }
    let changes = try content.editFields
    var edit = UnsentRequest(
      requestID: name, kind: .edit, content: OutboxContent(params: changes, body: []), contentHash: [])
    edit.target = record.messageID
    _ = try accept(edit, in: place)
    try noteLane(place)
  }
}

extension CacheReader {
  /// The content of an unsent message that was edited after it was sent off once; nil for all others.
  func contentToCompare(ofUnsent id: Int64) throws -> OutboxContent? {
    try db.first("SELECT params FROM outbox WHERE id = ?1 AND is_edited = 1 AND is_cancel_wanted = 0") {
      $0.bind(1, id)
    } _: {
      OutboxContent(params: Array($0.bytes(0)), body: [])
    }
  }
}

extension OutboxContent {
  /// Of what was asked of a message, what an edit may say.
  fileprivate var editFields: [UInt8] {
    get throws {
      try params.withUnsafeBytes { bytes in
        try JSONParser().parse(bytes) { asked in
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
