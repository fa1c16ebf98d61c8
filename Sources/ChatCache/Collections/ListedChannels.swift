import ChatModel
import JSON
import Platform
import SQLite

/// A channel that a list shows, as its user sees it.
package struct ListedChannel: ~Copyable {
  /// Its name.
  package let url: String
  /// Its place in the order.
  package let place: ChannelListKey
  /// The channel as a JSON object.
  package let object: ByteBuffer
}

extension CacheReader {
  /// The channels of `query` after a place, in order, one by one, at most `limit`: the same filters
  /// and order as
  /// pages (B8).
  package func eachListed(
    _ query: ChannelQuery, of user: CachedUser, after: ChannelListKey? = nil, limit: Int,
    _ body: (borrowing ListedChannel) throws -> Void
  ) throws {
    let columns = CacheReader.channelColumns + (query.order == .metadataValue ? ", v.value_key" : "")
    let sql = ChannelListSQL(
      query, user: user.key, named: user.id, after: after, limit: limit, columns: columns)
    var parts: ChannelParts = []
    if query.includesMembers { parts.insert(.members) }
    if query.includesMetadata { parts.insert(.metadata) }
    var rows = try db.rows(composed: sql.text) { sql.bind(to: $0) }
    while let row = try rows.next() {
      var writer = JSONWriter(capacity: 1024)
      try write(row, parts, into: &writer)
      try body(
        ListedChannel(
          url: row.string(19), place: CacheReader.key(row, query.order), object: writer.finish()))
    }
  }
}
