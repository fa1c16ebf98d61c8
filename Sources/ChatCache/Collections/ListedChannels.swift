import ChatModel
import JSON
import Platform
import SQLite

/// A channel that a list shows, as its user sees it.
package struct ListedChannel: ~Copyable {
  /// The channel's url.
  package let url: ExactText
  /// The channel's sort key in the list.
  package let key: ChannelListKey
  /// The channel as a JSON object.
  package let object: ByteBuffer
}

extension CacheReader {
  /// Passes the channels of `query` after a key to `body`, in order, until it returns false. Filters and
  /// order are those of pages (B8).
  package func eachListed(
    _ query: ChannelQuery, of user: CachedUser, after: ChannelListKey? = nil, limit: Int = .max,
    _ body: (borrowing ListedChannel) throws -> Bool
  ) throws {
    let sql = try listSQL(query, of: user, after: after, limit: limit, CacheReader.channelColumns)
    var parts: ChannelParts = []
    if query.includesMembers { parts.insert(.members) }
    if query.includesMetadata { parts.insert(.metadata) }
    var rows = try db.rows(composed: sql.text) { sql.bind(to: $0) }
    while let row = try rows.next() {
      var writer = JSONWriter(capacity: 1024)
      try write(row, parts, into: &writer)
      let goesOn = try body(
        ListedChannel(
          url: ExactText(row.string(20)), key: CacheReader.key(row, query.order), object: writer.finish()))
      guard goesOn else { return }
    }
  }

  /// Passes the keys of the channels of `query` to `body`, in order, until it returns false.
  package func eachKey(
    _ query: ChannelQuery, of user: CachedUser, _ body: (ChannelListKey) throws -> Bool
  ) throws {
    let sql = try listSQL(query, of: user, after: nil, limit: .max, CacheReader.listColumns)
    var rows = try db.rows(composed: sql.text) { sql.bind(to: $0) }
    while let row = try rows.next() {
      guard try body(CacheReader.key(row, query.order, from: 0)) else { return }
    }
  }
}
