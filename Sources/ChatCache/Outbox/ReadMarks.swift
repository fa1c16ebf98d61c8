import ChatModel
import SQLite

/// How far a user has read a channel. Marking it as read changes this at once, also offline; an outbox row
/// tells the upstream. The upstream's call takes no time and would mark newer messages too, so it is sent
/// only while nothing newer is unread.
package struct ReadMark: Sendable {
  /// Messages up to that time are read (ms).
  package let readAt: Int64
  /// How many messages are unread.
  package let unread: Int64
  /// How many unread messages mention the user.
  package let mentions: Int64

  /// A mark that must not be sent yet is looked at again after this long, ms.
  static let waitMilliseconds: Int64 = 30_000
  /// The most new read marks of a channel that have events of their own; more of them share one event.
  static let mostTold = 50
}

extension CacheWriter {
  /// Marks everything as read that the user's counts include: what is stored of the channel, its last
  /// message, and what the chat server counted.
  func markRead(_ view: ChannelView) throws {
    let readAt = try reader.newestKnownAt(in: view)
    let changed = try db.run(
      """
      UPDATE membership
      SET last_read_at = max(last_read_at, ?3), unread = 0, mentions = 0
      WHERE user = ?1
        AND channel = ?2
        AND (last_read_at < ?3 OR unread > 0 OR mentions > 0)
      """
    ) {
      $0.bind(1, view.user.rawValue)
      $0.bind(2, view.channel.rawValue)
      $0.bind(3, readAt)
    }
    guard changed > 0 else { return }
    var change = Change(.membership, .read, channel: view.channel, user: view.user)
    change.detail = Change.readsOn
    try append(change)
  }
}

extension CacheReader {
  /// Whether a read mark of the user waits to be sent.
  func hasPendingRead(of user: UserKey, in channel: ChannelKey) throws -> Bool {
    try db.first(
      """
      SELECT 1
      FROM outbox INDEXED BY outbox_reads
      WHERE user = ?1
        AND channel_url = (SELECT channel_url FROM channel WHERE id = ?2)
        AND kind = 'read'
      LIMIT 1
      """
    ) {
      $0.bind(1, user.rawValue)
      $0.bind(2, channel.rawValue)
    } _: { _ in
      true
    } ?? false
  }

  /// How many messages of the channel the user has not read.
  func unreadCount(_ view: ChannelView) throws -> Int64 { try readMark(of: view)?.unread ?? 0 }

  /// Whether the channel's last message is newer than what the user has read, and not stored: then no count
  /// includes it, nor what came before it.
  func isLastMessageUncounted(_ view: ChannelView) throws -> Bool {
    try db.first(
      """
      SELECT 1
      FROM membership AS m
      JOIN channel AS c ON c.id = m.channel
      WHERE m.user = ?1
        AND m.channel = ?2
        AND c.last_message_at > m.last_read_at
        AND c.last_message_at >= m.floor_at
        AND NOT EXISTS (
          SELECT 1
          FROM message AS x INDEXED BY message_by_id
          WHERE x.channel = c.id AND x.message_id = c.last_message_id
        )
      """
    ) {
      $0.bind(1, view.user.rawValue)
      $0.bind(2, view.channel.rawValue)
    } _: { _ in
      true
    } ?? false
  }

  /// How far the user has read, including marks that are not sent yet.
  package func readMark(of view: ChannelView) throws -> ReadMark? {
    try db.first(
      """
      SELECT
        m.last_read_at,
        iif(
          c.is_crowded,
          (SELECT n.unread FROM crowded_count AS n WHERE n.user = m.user AND n.channel = m.channel),
          m.unread
        ),
        iif(
          c.is_crowded,
          (SELECT n.mentions FROM crowded_count AS n WHERE n.user = m.user AND n.channel = m.channel),
          m.mentions
        )
      FROM membership AS m
      JOIN channel AS c ON c.id = m.channel
      WHERE m.user = ?1 AND m.channel = ?2
      """
    ) {
      $0.bind(1, view.user.rawValue)
      $0.bind(2, view.channel.rawValue)
    } _: {
      ReadMark(readAt: $0.int64(0), unread: $0.int64(1), mentions: $0.int64(2))
    }
  }

  /// The time of the newest message that the user may see and that Perch knows of; 0 without one.
  fileprivate func newestKnownAt(in view: ChannelView) throws -> Int64 {
    let stored = try newestPosition(in: view.channel)?.createdAt ?? 0
    let known = try db.first(
      """
      SELECT max(m.counted_at, coalesce(c.last_message_at, 0))
      FROM membership AS m
      JOIN channel AS c ON c.id = m.channel
      WHERE m.user = ?1 AND m.channel = ?2
      """
    ) {
      $0.bind(1, view.user.rawValue)
      $0.bind(2, view.channel.rawValue)
    } _: {
      $0.int64(0)
    }
    let newest = max(stored, known ?? 0)
    return newest >= view.floorAt ? newest : 0
  }
}
