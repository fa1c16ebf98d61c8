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

/// The statement that looks up one channel of a list, to see whether and how the list shows it. Its cost does
/// not depend on the number of the user's channels.
package struct ChannelLookup: Sendable {
  fileprivate let query: ChannelQuery
  fileprivate let user: UserKey
  fileprivate let name: ExactText
  fileprivate let sql: SharedSQL
  private let values: [ChannelListSQL.Value]

  /// The texts of all lookups. Lists with the same filters have the same one.
  private static let texts = Guarded<[ExactText: SharedSQL]>([:])
  private static let mostTexts = 64

  /// Looks up channels in that user's list.
  package init(_ query: ChannelQuery, of user: UserKey, named userID: UserID) {
    self.query = query
    self.user = user
    name = ExactText(userID.text)
    let made = ChannelListSQL(
      lookingUpIn: query, user: user, named: userID,
      columns: CacheReader.lookupColumns.and(valueFor: query.order))
    values = made.values
    let text = ExactText(made.text)
    sql = ChannelLookup.texts.withLock { texts in
      if let known = texts[text] { return known }
      if texts.count >= ChannelLookup.mostTexts { texts = [:] }
      let sql = SharedSQL(text.text)
      texts[text] = sql
      return sql
    }
  }

  fileprivate func bind(to statement: Statement, _ channel: ChannelKey) {
    ChannelListSQL.bind(values, to: statement, channel: channel)
  }
}

extension CacheReader {
  /// Writes the channel as the list shows it, and returns its sort key there. Nil: the list does not show it,
  /// wherever its window ends.
  package func writeListed(
    _ channel: ChannelKey, _ lookup: ChannelLookup, into writer: inout JSONWriter
  ) throws -> ChannelListKey? {
    guard try !isBeingCleared() else { return nil }
    var rows = try db.rows(lookup.sql) { lookup.bind(to: $0, channel) }
    guard let row = try rows.next() else { return nil }
    try write(
      found: row, of: channel, ChannelParts(of: lookup.query), heldAt: rightsLimit(of: lookup.user),
      counts: crowdedCount(row, channel, lookup), into: &writer)
    return CacheReader.key(row, lookup.query.order, from: 17)
  }

  /// The counts of a row of `lookupColumns`; nil: its channel is not crowded.
  private func crowdedCount(
    _ row: Row, _ channel: ChannelKey, _ lookup: ChannelLookup
  ) throws -> FollowedCounts.Count? {
    guard row.bool(14) else { return nil }
    let counted = Position(createdAt: row.int64(15), messageID: row.int64(16))
    return try crowdedCount(
      of: lookup.user, named: lookup.name, in: channel,
      from: max(counted.next, Position.last(at: row.int64(4)).next, .first(at: row.int64(8))),
      row: FollowedCounts.Count(unread: row.int64(9), mentions: row.int64(10)))
  }

  /// Passes the channels of `query` after a key to `body`, in order, until it returns false. Filters and
  /// order are those of pages (B8).
  package func eachListed(
    _ query: ChannelQuery, of user: CachedUser, after: ChannelListKey? = nil, limit: Int = .max,
    _ body: (borrowing ListedChannel) throws -> Bool
  ) throws {
    let sql = try listSQL(query, of: user, after: after, limit: limit, CacheReader.channelColumns)
    var rows = try db.rows(composed: sql.text) { sql.bind(to: $0) }
    while let row = try rows.next() {
      guard try body(listed(row, query, heldAt: user.heldAt)) else { return }
    }
  }

  private func listed(_ row: Row, _ query: ChannelQuery, heldAt: Int64?) throws -> ListedChannel {
    var writer = JSONWriter(capacity: 1024)
    try write(row, ChannelParts(of: query), heldAt: heldAt, into: &writer)
    let key = CacheReader.key(row, query.order, from: 20)
    return ListedChannel(url: ExactText(key.channelURL), key: key, object: writer.finish())
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

extension ChannelParts {
  /// The optional parts that a list's channels have.
  fileprivate init(of query: ChannelQuery) {
    self = []
    if query.includesMembers { insert(.members) }
    if query.includesMetadata { insert(.metadata) }
  }
}
