import ChatModel
import JSON
import Platform
import SQLite

/// A page of a user's channels.
package struct ChannelPage: ~Copyable {
  /// The channels as JSON objects with commas between them.
  package let items: ByteBuffer
  /// The number of channels in `items`.
  package let count: Int
  /// The sort key after which the next page begins; nil: this page is the last.
  package let next: ChannelListKey?
  /// The sort key of the last channel shown.
  package let last: ChannelListKey?
  /// Whether the cache has all the data that the query needs (B8, B11).
  package let isComplete: Bool
  /// The highest version of the user and the shown channels and memberships: a sequence of the event log.
  package let version: Int64
}

extension CacheReader {
  /// The channels of `query` after a key, or from the beginning (B6, B7).
  package func page(
    _ query: ChannelQuery, of user: CachedUser, after: ChannelListKey? = nil
  ) throws -> ChannelPage {
    let sql = try listSQL(query, of: user, after: after, limit: query.limit + 1, CacheReader.channelColumns)
    let parts = ChannelParts(of: query)
    let rule = try lastMessageRule(for: user.key, heldAt: user.heldAt)
    var rows = try db.rows(composed: sql.text) { sql.bind(to: $0) }
    var writer = JSONWriter(capacity: 16_384)
    var count = 0
    var version = user.version
    var last: ChannelListKey?
    var (hasMore, isHeld) = (false, false)
    while let row = try rows.next() {
      if count == query.limit {
        hasMore = true
        break
      }
      try write(row, parts, rule, into: &writer)
      isHeld = isHeld || row.int64(1) > user.heldAt ?? .max
      version = max(version, row.int64(1), row.int64(9))
      count += 1
      last = CacheReader.key(row, query.order)
    }
    return ChannelPage(
      items: writer.finish(), count: count, next: hasMore ? last : nil, last: last,
      isComplete: try !isHeld && isComplete(query, of: user),
      version: user.heldAt.map { min(version, $0) } ?? version)
  }

  /// The statement of a list that ends with the columns that place a channel in it.
  func listSQL(
    _ query: ChannelQuery, of user: CachedUser, after: ChannelListKey?, limit: Int,
    _ columns: ChannelListSQL.Columns
  ) throws -> ChannelListSQL {
    try requireLog(since: user.heldAt)
    let key = try shown(user)
    return ChannelListSQL(
      query, user: key, named: user.id, after: after, limit: limit,
      columns: columns.and(valueFor: query.order),
      followed: query.order == .latestLastMessage ? try followedChannels(of: key) : .none)
  }

  /// The user whose channels are shown: nobody's while everything is being cleared.
  private func shown(_ user: CachedUser) throws -> UserKey { try isBeingCleared() ? .unknown : user.key }

  /// The sort key of a row's channel. Its url, times and texts are the columns from `first` on, as at the end
  /// of `channelColumns`.
  static func key(_ row: Row, _ order: ChannelQuery.Order, from first: Int32 = 19) -> ChannelListKey {
    let url = row.string(first)
    switch order {
    case .latestLastMessage:
      return ChannelListKey(time: row.int64(first + 1), text: "", channelURL: url)
    case .chronological: return ChannelListKey(time: row.int64(first + 2), text: "", channelURL: url)
    case .name: return ChannelListKey(time: 0, text: row.string(first + 3), channelURL: url)
    case .metadataValue: return ChannelListKey(time: 0, text: row.string(first + 4), channelURL: url)
    }
  }

  /// Whether the cache has all the data that the query needs (B8, B11).
  package func isComplete(_ query: ChannelQuery, of user: CachedUser) throws -> Bool {
    try user.isSynced && !isUndecided(query, user)
  }

  /// Channels whose members have to be fetched before the cache can answer the query, at most `limit`. None
  /// if the query does not ask about members.
  package func withUnknownMembers(_ query: ChannelQuery, _ user: CachedUser, limit: Int) throws
    -> [ChannelURL]
  {
    guard
      let sql = ChannelListSQL.withUnknownMembers(query, user: try shown(user), named: user.id, limit: limit)
    else { return [] }
    var rows = try db.rows(composed: sql.text) { sql.bind(to: $0) }
    var urls: [ChannelURL] = []
    while let row = try rows.next() { urls.append(ChannelURL(row.string(0))) }
    return urls
  }

  /// Whether the list depends on data that the cache lacks (B8).
  private func isUndecided(_ query: ChannelQuery, _ user: CachedUser) throws -> Bool {
    guard let sql = ChannelListSQL.undecided(query, user: try shown(user), named: user.id) else {
      return false
    }
    var rows = try db.rows(composed: sql.text) { sql.bind(to: $0) }
    return try rows.next() != nil
  }
}
