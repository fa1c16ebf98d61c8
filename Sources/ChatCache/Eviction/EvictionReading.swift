import ChatModel
import JSON
import SQLite

// What an eviction reads: the channels in the order of eviction, and the positions of a channel that are
// spared.

extension CachedChannelOrder {
  /// The column of `channel` that the order compares.
  fileprivate var evictionColumn: String {
    switch self {
    case .accessedAt: "accessed_at"
    case .messages: "cached_messages"
    case .bytes: "cached_bytes"
    case .lastMessageAt: "last_message_at"
    case .createdAt: "created_at"
    case .customType: "custom_type"
    }
  }
}

extension CacheReader {
  /// The first `limit` channels with stored messages, in the order of eviction (B56).
  func evictionCandidates(by order: [CacheLimit.Term], limit: Int) throws -> [EvictionCandidate] {
    let terms = order.map { "\($0.field.evictionColumn) \($0.isDescending ? "DESC" : "ASC")" }
    var rows = try db.rows(
      composed: """
        SELECT
          id, channel_url, custom_type, cached_messages, cached_bytes, accessed_at, last_message_at,
          created_at
        FROM channel
        WHERE cached_messages > 0
        ORDER BY \((terms + ["last_message_at", "channel_url"]).joined(separator: ", "))
        LIMIT ?1
        """
    ) { $0.bind(1, limit) }
    var found: [EvictionCandidate] = []
    while let row = try rows.next() {
      found.append(
        EvictionCandidate(
          key: ChannelKey(row.int64(0)),
          channel: CachedChannel(
            url: ChannelURL(row.string(1)), customType: row.string(2), messages: row.int64(3),
            bytes: row.int64(4), accessedAt: row.int64(5), lastMessageAt: row.int64OrNil(6),
            createdAt: row.int64(7))))
    }
    return found
  }

  /// The positions of a channel that are spared.
  func sparedPositions(in channel: ChannelKey) throws -> SparedPositions {
    let windows = try db.all("SELECT query, loaded FROM collection WHERE channel = ?1") {
      $0.bind(1, channel.rawValue)
    } _: { row in
      do { return try CacheReader.window(query: row.bytes(0), loaded: row.bytes(1)) } catch is JSONError {
        // The client of an unreadable view will open it again. Until then nothing of the channel is evicted.
        return Window(stretch: .start ... .end)
      }
    }
    let withheld = try db.all("SELECT created_at, message_id FROM withheld WHERE channel = ?1") {
      $0.bind(1, channel.rawValue)
    } _: { row in
      let position = Position(createdAt: row.int64(0), messageID: row.int64(1))
      return position...position
    }
    return SparedPositions(try windows.flatMap { try shown($0, in: channel) } + withheld)
  }

  /// The messages that an open collection has loaded.
  private struct Window {
    /// From the oldest to the newest loaded message. Nil: the collection has loaded none.
    var stretch: ClosedRange<Position>?
    /// The parent message, where the collection is a thread. Only its replies are loaded then.
    var parent: Int64?
  }

  /// Reads the window of a stored collection. Where the collection has reached an end of the channel, the
  /// window has no bound on that side: messages that arrive there belong to the collection.
  private static func window(
    query: UnsafeRawBufferPointer, loaded: UnsafeRawBufferPointer
  ) throws -> Window {
    let parent = try JSONParser.parse(query) { $0["parent_message_id"]?.string.flatMap { Int64($0) } }
    return try JSONParser.parse(loaded) { json in
      let from = json["from"]?.string.flatMap { Position($0) }
      let to = json["to"]?.string.flatMap { Position($0) }
      let lower = json["has_previous"]?.bool ?? true ? from : .start
      let upper = json["has_next"]?.bool ?? true ? to : .end
      guard let lower, let upper else { return Window(parent: parent) }
      return Window(stretch: lower...max(lower, upper), parent: parent)
    }
  }

  /// The positions that eviction leaves alone because of the window: all of its stretch, or only the replies
  /// of a thread. The other messages between those replies may be evicted.
  private func shown(_ window: Window, in channel: ChannelKey) throws -> [ClosedRange<Position>] {
    guard let stretch = window.stretch else { return [] }
    guard let parent = window.parent else { return [stretch] }
    var rows = try replies(false, stretch, channel, parent)
    var found: [ClosedRange<Position>] = []
    while let row = try rows.next() {
      let position = Position(createdAt: row.int64(0), messageID: row.int64(1))
      found.append(position...position)
    }
    return found
  }

  /// The oldest stored messages of a stretch, at most `most`, and no more after `enoughBytes`; nil: none.
  func oldestMessages(
    of stretch: ClosedRange<Position>, in channel: ChannelKey, atMost most: Int
  ) throws -> EvictedMessages? {
    var rows = try db.rows(
      """
      SELECT
        created_at, message_id, parent_id,
        length(body) + coalesce(length(reactions), 0) + coalesce(length(metaarray), 0)
          + coalesce(length(thread_info), 0) + coalesce(length(parent), 0),
        version
      FROM message
      WHERE channel = ?1
        AND (created_at, message_id) >= (?2, ?3)
        AND (created_at, message_id) <= (?4, ?5)
      ORDER BY created_at, message_id
      LIMIT ?6
      """
    ) {
      CacheReader.bind($0, stretch, channel)
      $0.bind(6, most)
    }
    var found: EvictedMessages?
    while let row = try rows.next() {
      let position = Position(createdAt: row.int64(0), messageID: row.int64(1))
      var messages = found ?? EvictedMessages(stretch: stretch.lowerBound...position)
      messages.stretch = stretch.lowerBound...position
      messages.rows += 1
      messages.bytes += row.int64(3)
      messages.version = max(messages.version, row.int64(4))
      if let parent = row.int64OrNil(2) { messages.parents.insert(parent) }
      found = messages
      if messages.bytes >= EvictionSlice.enoughBytes { break }
    }
    return found
  }
}

/// Messages that one commit evicts.
struct EvictedMessages: Sendable, Equatable {
  /// From the beginning of the stretch that may be evicted to the last evicted message.
  var stretch: ClosedRange<Position>
  /// Their number.
  var rows: Int64 = 0
  /// Their bytes.
  var bytes: Int64 = 0
  /// The highest of their versions.
  var version: Int64 = 0
  /// The messages that they reply to.
  var parents: Set<Int64> = []
}
