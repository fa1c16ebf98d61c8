import ChatModel
import JSON
import SQLite

// Checks stored JSON, because answers copy its bytes unread.

extension JSONParser {
  /// Whether the bytes are JSON, of that kind.
  func reads(_ bytes: UnsafeRawBufferPointer, _ kind: JSONValue.Kind? = nil) -> Bool {
    read(bytes) { kind == nil || $0.kind == kind } ?? false
  }

  /// Whether the bytes are the fields of a JSON object, without braces.
  func reads(fieldsOf bytes: UnsafeRawBufferPointer) -> Bool {
    withBraces(bytes) { reads($0, .object) } && bytes.count > 0
  }

  /// Whether the bytes are the fields of the message with this id and time.
  func speaks(_ body: UnsafeRawBufferPointer, of id: Int64, at time: Int64) -> Bool {
    withBraces(body) { bytes in isMessage(bytes, id, time) } && body.count > 0
  }

  private func isMessage(_ object: UnsafeRawBufferPointer, _ id: Int64, _ time: Int64) -> Bool {
    read(object) { message in
      (message["message_id"]?.string ?? "\(id)") == "\(id)"
        && (message["created_at"]?.int64 ?? time) == time
    } ?? false
  }

  /// The object's fields; nil: the bytes are no object whose values are texts.
  func texts(_ bytes: UnsafeRawBufferPointer) -> [ExactText: String]? {
    read(bytes) { json -> [ExactText: String]? in
      guard json.kind == .object else { return nil }
      var texts: [ExactText: String] = [:]
      for (name, value) in json.fields {
        guard let text = value.string else { return nil }
        texts[ExactText(String(decoding: name, as: UTF8.self))] = text
      }
      return texts
    } ?? nil
  }

  /// The fault of the channel's last message, from a row of `ChannelCheck`; nil: none.
  func wrongLastMessage(_ row: Row) -> String? {
    let parts = (4...6).filter { !row.isNull(Int32($0)) }.count
    if parts == 0 { return nil }
    guard parts == 3 else { return "only some of last_message, last_message_at and last_message_id are set" }
    return isMessage(row.bytes(6), row.int64(5), row.int64(4))
      ? nil : "last_message is not the JSON of message \(row.int64(5))"
  }

  private func withBraces<Result>(
    _ fields: UnsafeRawBufferPointer, _ body: (UnsafeRawBufferPointer) -> Result
  ) -> Result {
    withUnsafeTemporaryAllocation(byteCount: fields.count + 2, alignment: 1) { room in
      room[0] = UInt8(ascii: "{")
      UnsafeMutableRawBufferPointer(rebasing: room[1...]).copyMemory(from: fields)
      room[fields.count + 1] = UInt8(ascii: "}")
      return body(UnsafeRawBufferPointer(room))
    }
  }
}
