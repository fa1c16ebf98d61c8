import ChatModel
import JSON
import SQLite

// A channel's metadata, which answers may lack.

extension CacheWriter {
  /// Stores all of the channel's metadata. Returns whether it changed.
  func store(_ metadata: [ExactText: String], of channel: ChannelKey) throws -> Bool {
    let text = JSONWriter.object(metadata) { $0.value($1) }
    let changed = try db.run("UPDATE channel SET metadata = ?2 WHERE id = ?1 AND metadata IS NOT ?2") {
      $0.bind(1, channel.rawValue)
      $0.bind(2, copyOf: text)
    }
    guard changed > 0 else { return false }
    try db.run("DELETE FROM channel_metadata WHERE channel = ?1") { $0.bind(1, channel.rawValue) }
    for (key, value) in metadata {
      try db.run("INSERT INTO channel_metadata (channel, key, value, value_key) VALUES (?1, ?2, ?3, ?4)") {
        $0.bind(1, channel.rawValue)
        $0.bind(2, key.text)
        $0.bind(3, value)
        $0.bind(4, ChannelColumns.key(value))
      }
    }
    return true
  }
}

extension JSONWriter {
  /// The text of an object with these fields, in the order of their names.
  static func object<Value>(
    _ fields: [ExactText: Value], _ write: (inout JSONWriter, Value) -> Void
  ) -> [UInt8] {
    var writer = JSONWriter()
    writer.beginObject()
    for (name, value) in fields.sorted(by: { $0.key < $1.key }) {
      name.text.utf8.withContiguousStorageIfAvailable { writer.name(UnsafeRawBufferPointer($0)) }
      write(&writer, value)
    }
    writer.endObject()
    return writer.finish().array
  }
}
