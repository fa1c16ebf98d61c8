import ChatModel
import JSON
import SQLite

/// A user's unsent rows of one channel, as they change the messages shown to that user. Pending changes are
/// shown beside the messages they change, never in them (B46, B47). Messages that may be the answer to a send
/// under way are not shown (B38), nor those that were stored since the user's changes are not known (B1).
package struct PendingChanges: Sendable, Equatable {
  /// The fields `pending_edit`, `pending_delete` and `pending_reactions` of each message, without braces.
  var fragments: [Int64: [UInt8]] = [:]
  /// Messages that this user's views do not show yet.
  var withheld: Set<Int64> = []
  /// Whether the channel has too many pending changes to read them all for one page.
  var isPartial = false

  /// If a channel has more pending changes than this, a page reads only those of its own messages.
  static let mostReadForAPage = 200

  /// Whether these are all pending changes of the channel and take at most 4 KiB. Only then are they kept in
  /// memory.
  var isSmall: Bool {
    !isPartial && fragments.values.reduce(8 * withheld.count) { $0 + $1.count } <= 4_096
  }
}

extension CacheReader {
  /// The user's pending changes of one message. Nil: the user has no unsent row in the channel.
  func pendingChanges(in view: ChannelView, of message: Int64) throws -> PendingChanges? {
    guard view.isOfItsOwn else { return nil }
    var pending = PendingChanges()
    pending.fragments = try fragments(in: OutboxLaneKey(user: view.user, channel: view.url), of: message)
    pending.withheld = try withheld(from: view.user, in: view.channel, named: view.url, of: message)
    if try isHeld(message, in: view) { pending.withheld.insert(message) }
    return pending
  }

  /// The user's pending changes in the channel, or a part of them if there are many. Nil: the user has no
  /// unsent row there.
  func pendingChanges(in view: ChannelView) throws -> PendingChanges? {
    guard view.isOfItsOwn else { return nil }
    var pending = PendingChanges()
    let most = PendingChanges.mostReadForAPage
    let laneKey = OutboxLaneKey(user: view.user, channel: view.url)
    pending.isPartial = try pendingTargets(in: laneKey, limit: most + 1) > most
    if !pending.isPartial { pending.fragments = try fragments(in: laneKey) }
    pending.withheld = try withheld(from: view.user, in: view.channel, named: view.url)
      .union(heldMessages(in: view))
    return pending
  }

  /// The number of changes that wait in the channel, counted up to `limit`.
  private func pendingTargets(in laneKey: OutboxLaneKey, limit: Int) throws -> Int {
    try db.first(
      """
      SELECT count(*)
      FROM (
        SELECT 1
        FROM outbox INDEXED BY outbox_by_target
        WHERE user = ?1 AND channel_url = ?2 AND target_id IS NOT NULL
        LIMIT ?3
      )
      """
    ) {
      $0.bind(1, laneKey.user.rawValue)
      $0.bind(2, laneKey.channel.text)
      $0.bind(3, limit)
    } _: {
      $0.int(0)
    } ?? 0
  }

  /// The channel's messages that the user's views do not show: they may be the answer to a send under way
  /// (B38), or were taken back (B44). `message`: look for this one alone.
  func withheld(
    from user: UserKey, in channel: ChannelKey, named url: ChannelURL, of message: Int64? = nil
  ) throws -> Set<Int64> {
    let taken = try takenBack(by: user, in: url, of: message)
    return Set(
      try db.all(
        """
        SELECT message_id
        FROM withheld
        WHERE user = ?1 AND channel = ?2 AND (?3 IS NULL OR message_id = ?3)
        """
      ) {
        $0.bind(1, user.rawValue)
        $0.bind(2, channel.rawValue)
        $0.bind(3, message)
      } _: {
        $0.int64(0)
      }
    ).union(taken)
  }

  /// Messages that arrived although their sender canceled them, and that are to be deleted upstream. Views
  /// show only the canceled unsent row (B38, B44).
  private func takenBack(by user: UserKey, in url: ChannelURL, of message: Int64?) throws -> [Int64] {
    try db.all(
      """
      SELECT target_id
      FROM outbox INDEXED BY outbox_taken_back
      WHERE user = ?1
        AND channel_url = ?2
        AND target_id BETWEEN ?3 AND ?4
        AND is_cancel_wanted = 1
        AND kind IN ('message', 'file')
      """
    ) {
      $0.bind(1, user.rawValue)
      $0.bind(2, url.text)
      $0.bind(3, message ?? .min)
      $0.bind(4, message ?? .max)
    } _: {
      $0.int64(0)
    }
  }

  /// The pending changes of the messages in a stretch.
  func fragments(in view: ChannelView, of stretch: ClosedRange<Position>) throws -> [Int64: [UInt8]] {
    try fragments(
      """
      SELECT o.target_id, o.kind, o.request_id, o.params, o.aspect
      FROM message AS m
      CROSS JOIN outbox AS o INDEXED BY outbox_by_target
      WHERE m.channel = ?1
        AND (m.created_at, m.message_id) >= (?2, ?3)
        AND (m.created_at, m.message_id) <= (?4, ?5)
        AND o.user = ?6
        AND o.channel_url = ?7
        AND o.target_id = m.message_id
        AND o.kind IN ('edit', 'delete', 'reaction')
        AND o.state NOT IN ('failed', 'canceled')
      ORDER BY o.target_id, o.kind = 'reaction', o.kind, o.aspect, o.place DESC
      """
    ) {
      CacheReader.bind($0, stretch, view.channel)
      $0.bind(6, view.user.rawValue)
      $0.bind(7, view.url.text)
    }
  }

  /// The pending changes of all confirmed messages.
  package func fragments(in laneKey: OutboxLaneKey) throws -> [Int64: [UInt8]] {
    try fragments(
      """
      SELECT target_id, kind, request_id, params, aspect
      FROM outbox INDEXED BY outbox_by_target
      WHERE user = ?1
        AND channel_url = ?2
        AND target_id IS NOT NULL
        AND kind IN ('edit', 'delete', 'reaction')
        AND state NOT IN ('failed', 'canceled')
      ORDER BY target_id, kind = 'reaction', kind, aspect, place DESC
      """
    ) {
      $0.bind(1, laneKey.user.rawValue)
      $0.bind(2, laneKey.channel.text)
    }
  }

  /// The pending changes of one confirmed message.
  package func fragments(in laneKey: OutboxLaneKey, of message: Int64) throws -> [Int64: [UInt8]] {
    try fragments(
      """
      SELECT target_id, kind, request_id, params, aspect
      FROM outbox INDEXED BY outbox_by_target
      WHERE user = ?1
        AND channel_url = ?2
        AND target_id = ?3
        AND kind IN ('edit', 'delete', 'reaction')
        AND state NOT IN ('failed', 'canceled')
      ORDER BY target_id, kind = 'reaction', kind, aspect, place DESC
      """
    ) {
      $0.bind(1, laneKey.user.rawValue)
      $0.bind(2, laneKey.channel.text)
      $0.bind(3, message)
    }
  }

  private func fragments(
    _ sql: StaticString, _ bind: (Statement) -> Void
  ) throws -> [Int64: [UInt8]] {
    var rows = try db.rows(sql, bind)
    var found: [Int64: [UInt8]] = [:]
    var fragment = Fragment(message: nil)
    while let row = try rows.next() {
      if row.int64(0) != fragment.message {
        fragment.finish(into: &found)
        fragment = Fragment(message: row.int64(0))
      }
      fragment.add(row)
    }
    fragment.finish(into: &found)
    return found
  }

  /// The pending changes of one message under construction.
  private struct Fragment: ~Copyable {
    let message: Int64?
    private var json = JSONWriter()
    private var last: (kind: String, aspect: String)?
    private var isInReactions = false

    init(message: Int64?) { self.message = message }

    /// Adds the next row. Rows come newest first, and only the newest of each kind and key is shown, because
    /// the upstream gets it last.
    mutating func add(_ row: Row) {
      let (kind, aspect) = (row.string(1), row.string(4))
      // Keys are compared by their bytes (B1).
      if let last, last.kind == kind, last.aspect.utf8.elementsEqual(aspect.utf8) { return }
      last = (kind, aspect)
      switch kind {
      case OutboxRow.Kind.edit.rawValue: json.name("pending_edit")
      case OutboxRow.Kind.delete.rawValue: json.name("pending_delete")
      default:
        if !isInReactions {
          json.name("pending_reactions")
          json.beginArray()
        }
        isInReactions = true
      }
      json.beginObject()
      json.field("request_id", row.string(2))
      if isInReactions { json.field("key", aspect) }
      if kind != OutboxRow.Kind.delete.rawValue {
        json.name("changes")
        json.splice(row.bytes(3))
      }
      json.endObject()
    }

    mutating func finish(into found: inout [Int64: [UInt8]]) {
      guard let message else { return }
      if isInReactions { json.endArray() }
      found[message] = json.buffer.array
    }
  }
}
