import ChatModel
import JSON
import SQLite

/// What decides, besides the membership, whether a user is shown a channel's last message.
struct LastMessageRule {
  let user: UserKey
  /// If the channel changed since that sequence, its last message is not shown, because it is not known
  /// whether the user is still in the channel (B1); nil: it is known.
  let heldAt: Int64?
  /// Whether any message is kept from its sender's views for now.
  let isAnyWithheld: Bool
}

/// The last message of a channel, as a user is shown it.
enum ShownLastMessage {
  /// The user is shown none.
  case none
  /// The channel's last message, which is among the fields that all members see.
  case common
  /// An earlier message, because the channel's last one is withheld from this user.
  case earlier([UInt8])

  var isCommon: Bool { if case .common = self { true } else { false } }

  /// Writes the message that is not among the common fields.
  func writeEarlier(into writer: inout JSONWriter) {
    guard case .earlier(let message) = self else { return }
    writer.name("last_message")
    writer.beginObject()
    message.withUnsafeBytes { writer.splice(fields: $0) }
    writer.endObject()
  }
}

extension CacheReader {
  /// The rule for that user.
  func lastMessageRule(for user: UserKey, heldAt: Int64?) throws -> LastMessageRule {
    LastMessageRule(user: user, heldAt: heldAt, isAnyWithheld: try isAnyWithheld())
  }

  /// What the user with these own fields is shown as the channel's last message. `time`: that of the
  /// channel's last message. `version`: the channel's.
  func lastMessage(
    of channel: ChannelKey, at time: Int64, version: Int64, to own: borrowing OwnFields,
    _ rule: LastMessageRule
  ) throws -> ShownLastMessage {
    guard own.mayReadMessage(at: time), version <= rule.heldAt ?? .max else { return .none }
    guard try rule.isAnyWithheld && isLastWithheld(in: channel, from: rule.user) else { return .common }
    return try newestShown(in: channel, to: rule.user, from: own.floor).map { .earlier($0) } ?? .none
  }

  private func isAnyWithheld() throws -> Bool {
    if let known = notes?.isAnyWithheld { return known }
    // All users' keys are positive: the condition makes it a search that ends at the first entry.
    let isAny =
      try db.first(
        """
        SELECT 1
        WHERE EXISTS (SELECT 1 FROM withheld WHERE user > 0)
          OR EXISTS (
            SELECT 1
            FROM outbox INDEXED BY outbox_taken_back
            WHERE user > 0 AND is_cancel_wanted = 1 AND target_id IS NOT NULL
          )
        """
      ) { _ in
        true
      } ?? false
    notes?.isAnyWithheld = isAny
    return isAny
  }

  /// Whether the channel's last message may be the answer to a send of the user that is under way, or was
  /// taken back: the user's views do not show it (B38, B44).
  private func isLastWithheld(in channel: ChannelKey, from user: UserKey) throws -> Bool {
    try db.first(
      """
      SELECT 1
      FROM channel AS c
      WHERE c.id = ?1
        AND (
          EXISTS (
            SELECT 1
            FROM withheld
            WHERE user = ?2 AND channel = c.id AND message_id = c.last_message_id
          )
          OR EXISTS (
            SELECT 1
            FROM outbox INDEXED BY outbox_taken_back
            WHERE user = ?2
              AND channel_url = c.channel_url
              AND target_id = c.last_message_id
              AND is_cancel_wanted = 1
              AND kind IN ('message', 'file')
          )
        )
      """
    ) {
      $0.bind(1, channel.rawValue)
      $0.bind(2, user.rawValue)
    } _: { _ in
      true
    } ?? false
  }
  /// The newest of the channel's newest messages that is not withheld from the user, without braces. `floor`:
  /// the user may not see older ones.
  private func newestShown(
    in channel: ChannelKey, to user: UserKey, from floor: Int64
  ) throws -> [UInt8]? {
    try db.first(
      """
      SELECT m.body
      FROM (
        SELECT message_id, created_at, version, parent_id, flags, body
        FROM message
        WHERE channel = ?1 AND created_at >= ?3
        ORDER BY created_at DESC, message_id DESC
        LIMIT ?4
      ) AS m
      JOIN channel AS c ON c.id = ?1
      WHERE m.version > coalesce(c.cleared_version, 0)
        AND (m.parent_id IS NULL OR m.flags & 2)
        AND NOT EXISTS (
          SELECT 1
          FROM withheld
          WHERE user = ?2 AND channel = ?1 AND message_id = m.message_id
        )
        AND NOT EXISTS (
          SELECT 1
          FROM outbox INDEXED BY outbox_taken_back
          WHERE user = ?2
            AND channel_url = c.channel_url
            AND target_id = m.message_id
            AND is_cancel_wanted = 1
            AND kind IN ('message', 'file')
        )
      ORDER BY m.created_at DESC, m.message_id DESC
      LIMIT 1
      """
    ) {
      $0.bind(1, channel.rawValue)
      $0.bind(2, user.rawValue)
      $0.bind(3, floor)
      $0.bind(4, CacheReader.mostLookedAt)
    } _: {
      Array($0.bytes(0))
    }
  }

  private static let mostLookedAt = 200
}
