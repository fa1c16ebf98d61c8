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
  /// Tells the object's contents apart.
  package let hash: Int64

  /// The hash of an object, or of a part of it. It tells contents apart while this process runs: two that
  /// differ have the same hash once in 2^64.
  static func hash(_ bytes: UnsafeRawBufferPointer) -> Int {
    var hasher = Hasher()
    hasher.combine(bytes: bytes)
    return hasher.finalize()
  }

  /// The hash of an object of which all members see a part. `common`: the hash of that part. `own`: the rest.
  static func hash(common: Int, own: UnsafeRawBufferPointer) -> Int64 {
    var hasher = Hasher()
    hasher.combine(common)
    hasher.combine(bytes: own)
    return Int64(hasher.finalize())
  }
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
      columns: CacheReader.lookupColumns(query.order))
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

/// The values of a channel's row on which its members' objects and their places in lists depend.
struct CommonValues {
  let url: ChannelURL
  let isCrowded: Bool
  let version: Int64
  /// When the last message was created; 0: there is none.
  let lastMessageAt: Int64
  let updatedAt: Int64

  /// The position of a membership in a list in the order of messages. `sortAt`: as the row of the membership
  /// has it.
  func position(of sortAt: Int64) -> Int64 { sortAt == ChannelColumns.follows ? lastMessageAt : sortAt }
}

extension CacheReader {
  /// The values of the channel's row. Polls of one snapshot share them.
  private func commonValues(of channel: ChannelKey) throws -> CommonValues {
    if let known = notes?.channel(channel)?.values { return known }
    let found = try db.first(
      "SELECT channel_url, is_crowded, version, last_message_at, updated_at FROM channel WHERE id = ?1"
    ) {
      $0.bind(1, channel.rawValue)
    } _: {
      CommonValues(
        url: ChannelURL($0.string(0)), isCrowded: $0.bool(1), version: $0.int64(2),
        lastMessageAt: $0.int64(3), updatedAt: $0.int64(4))
    }
    guard let found else { throw CacheError.unreadable("a membership has no channel") }
    notes?.channel(channel)?.values = found
    return found
  }

  /// The user's own columns, the counts of the row alone, how a crowded channel's messages are counted from
  /// there, and the columns that place the channel in the list.
  fileprivate static func lookupColumns(_ order: ChannelQuery.Order) -> ChannelListSQL.Columns {
    let position =
      switch order {
      case .latestLastMessage: "m.sort_at"
      case .chronological: "m.sort_at, m.created_at"
      case .name: "m.sort_at, m.name_key"
      case .metadataValue: "m.sort_at, v.value_key"
      }
    return ChannelListSQL.Columns(
      "\(ownColumns), m.unread, m.mentions, m.counted_at, m.counted_id, \(position)")
  }

  /// Writes the channel as the list shows it into an empty text. Returns its sort key there and the object's
  /// hash. Nil: the list does not show it, wherever its window ends.
  package func writeListed(
    _ channel: ChannelKey, _ lookup: ChannelLookup, into writer: inout JSONWriter
  ) throws -> (key: ChannelListKey, hash: Int64)? {
    guard try !isBeingCleared() else { return nil }
    var rows = try db.rows(lookup.sql) { lookup.bind(to: $0, channel) }
    guard let row = try rows.next() else { return nil }
    let values = try commonValues(of: channel)
    let position = values.position(of: row.int64(12))
    guard lookup.query.includesEmpty || position >= 0 else { return nil }
    let own = OwnFields(row, from: 0)
    let rule = try lastMessageRule(for: lookup.user, heldAt: rightsLimit(of: lookup.user))
    let last = try lastMessage(of: channel, at: values.lastMessageAt, version: values.version, to: own, rule)
    let counts = try lookupCounts(row, own, channel, lookup, values)
    writer.beginObject()
    let common = try writeCommon(
      of: channel, ChannelParts(of: lookup.query), showsLastMessage: last.isCommon, into: &writer)
    let commonEnd = writer.buffer.count
    last.writeEarlier(into: &writer)
    own.write(counts.unread, counts.mentions, into: &writer)
    writer.field("updated_at", values.updatedAt)
    writer.endObject()
    let url = values.url.text
    let key =
      switch lookup.query.order {
      case .latestLastMessage: ChannelListKey(time: position, text: "", channelURL: url)
      case .chronological: ChannelListKey(time: row.int64(13), text: "", channelURL: url)
      case .name, .metadataValue: ChannelListKey(time: 0, text: row.string(13), channelURL: url)
      }
    let rest = UnsafeRawBufferPointer(rebasing: writer.buffer.bytes[commonEnd...])
    return (key, ListedChannel.hash(common: common, own: rest))
  }

  /// The unread counts of a row of `lookupColumns`.
  private func lookupCounts(
    _ row: Row, _ own: borrowing OwnFields, _ channel: ChannelKey, _ lookup: ChannelLookup,
    _ values: CommonValues
  ) throws -> FollowedCounts.Count {
    let counts = FollowedCounts.Count(unread: row.int64(8), mentions: row.int64(9))
    guard values.isCrowded else { return counts }
    let counted = Position(createdAt: row.int64(10), messageID: row.int64(11))
    return try crowdedCount(
      of: lookup.user, named: lookup.name, in: channel,
      from: max(counted.next, Position.last(at: own.lastReadAt).next, .first(at: own.floor)), row: counts)
  }

  /// Passes the channels of `query` after a key to `body`, in order, until it returns false. Filters and
  /// order are those of pages (B8).
  package func eachListed(
    _ query: ChannelQuery, of user: CachedUser, after: ChannelListKey? = nil, limit: Int = .max,
    _ body: (borrowing ListedChannel) throws -> Bool
  ) throws {
    let sql = try listSQL(query, of: user, after: after, limit: limit, CacheReader.channelColumns)
    let rule = try lastMessageRule(for: user.key, heldAt: user.heldAt)
    var rows = try db.rows(composed: sql.text) { sql.bind(to: $0) }
    while let row = try rows.next() {
      guard try body(listed(row, query, rule)) else { return }
    }
  }

  private func listed(_ row: Row, _ query: ChannelQuery, _ rule: LastMessageRule) throws -> ListedChannel {
    var writer = JSONWriter(capacity: 1024)
    let commonEnd = try write(row, ChannelParts(of: query), rule, into: &writer)
    let key = CacheReader.key(row, query.order)
    let bytes = writer.buffer.bytes
    let common = ListedChannel.hash(UnsafeRawBufferPointer(rebasing: bytes[1..<commonEnd]))
    let hash = ListedChannel.hash(
      common: common, own: UnsafeRawBufferPointer(rebasing: bytes[commonEnd...]))
    return ListedChannel(url: ExactText(key.channelURL), key: key, object: writer.finish(), hash: hash)
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
