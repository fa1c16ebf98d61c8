import ChatModel
import JSON
import SQLite

/// One unsent message of a user, as the user's views list it.
package struct UnsentMessage: Sendable {
  /// Its name.
  package let requestID: String
  /// Whether it waits, failed or was taken back.
  package let status: OutboxRow.Status
  /// The message as a JSON object.
  package let object: [UInt8]
}

extension CacheReader {
  /// The user's unsent messages in a channel, in the order they were accepted.
  package func unsentMessages(_ place: OutboxPlace) throws -> [UnsentMessage] {
    try lane(place).rows.filter(\.kind.isMessage).sorted { $0.id < $1.id }.compactMap { row in
      guard let content = try content(ofUnsent: row.id) else { return nil }
      var json = JSONWriter(capacity: content.body.count + 128)
      json.beginObject()
      content.body.withUnsafeBytes { json.splice(fields: $0) }
      json.field("sending_status", row.status.rawValue)
      if let code = row.errorCode, row.status == .failed {
        json.name("error")
        json.beginObject()
        json.field("code", code)
        json.endObject()
      }
      json.name("params")
      content.params.withUnsafeBytes { json.splice($0) }
      json.endObject()
      return UnsentMessage(requestID: row.requestID.text, status: row.status, object: json.finish().array)
    }
  }
}
