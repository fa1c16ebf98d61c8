import ChatModel
import JSON
import SQLite

// The parts of a channel that answers may lack: metadata and read positions (`Members/` has the members).

extension CacheWriter {
  /// Stores all of the channel's metadata. Returns whether it changed.
  func store(_ metadata: [ExactText: String], of channel: ChannelKey) throws -> Bool {
    var writer = JSONWriter()
    writer.beginObject()
    for (key, value) in metadata.sorted(by: { $0.key < $1.key }) {
      key.text.utf8.withContiguousStorageIfAvailable { writer.name(UnsafeRawBufferPointer($0)) }
      writer.value(value)
    }
    writer.endObject()
    let text = writer.finish().array
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
        $0.bind(4, ChannelFacts.key(value))
      }
    }
    return true
  }

  /// Stores how far members have read; no position goes back. Returns the members whose position advanced.
  func store(receipts: [ExactText: Int64], of channel: ChannelKey) throws -> [ExactText] {
    var all = try reader.readReceipts(of: channel)
    let before = all
    all.merge(receipts) { max($0, $1) }
    let readers = all.filter { before[$0.key] != $0.value }.keys.sorted()
    guard !readers.isEmpty else { return [] }
    for (user, moment) in receipts {
      try db.run("UPDATE member SET read_at = max(read_at, ?3) WHERE channel = ?1 AND user_id = ?2") {
        $0.bind(1, channel.rawValue)
        $0.bind(2, user.text)
        $0.bind(3, moment)
      }
    }
    var writer = JSONWriter()
    writer.beginObject()
    for (user, moment) in all.sorted(by: { $0.key < $1.key }) {
      user.text.utf8.withContiguousStorageIfAvailable { writer.name(UnsafeRawBufferPointer($0)) }
      writer.value(moment)
    }
    writer.endObject()
    let text = writer.finish().array
    try db.run("UPDATE channel SET read_receipts = ?2 WHERE id = ?1") {
      $0.bind(1, channel.rawValue)
      $0.bind(2, copyOf: text)
    }
    return readers
  }
}

extension CacheReader {
  /// How far each member has read, in ms.
  package func readReceipts(of channel: ChannelKey) throws -> [ExactText: Int64] {
    try db.first("SELECT read_receipts FROM channel WHERE id = ?1") {
      $0.bind(1, channel.rawValue)
    } _: { row in
      try JSONParser.parse(row.bytes(0)) { json in
        var receipts: [ExactText: Int64] = [:]
        for (user, moment) in json.fields {
          receipts[ExactText(String(decoding: user, as: UTF8.self))] = moment.int64 ?? 0
        }
        return receipts
      }
    } ?? [:]
  }
}
