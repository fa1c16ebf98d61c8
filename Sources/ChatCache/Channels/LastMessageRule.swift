import ChatModel
import JSON
import SQLite

/// Says of a user whether channels are shown with their last message, as far as that does not depend on the
/// channel.
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

  /// Returns which message the channel's object has as the last one for the rule's user. `time`: when the
  /// channel's last message was created. `version`: the channel's version. `own`: the user's fields there.
  func lastMessage(
    of channel: ChannelKey, at time: Int64, version: Int64, to own: borrowing OwnFields,
    _ rule: LastMessageRule
  ) throws -> ShownLastMessage {
    guard own.mayReadMessage(at: time), version <= rule.heldAt ?? .max else { return .none }
    guard rule.isAnyWithheld, let last = try lastMessage(of: channel), let url = try url(of: channel) else {
      return .common
    }
    let withheld = try withheld(from: rule.user, in: channel, named: url)
    guard withheld.contains(last.messageID) else { return .common }
    let earlier = try newestMessage(in: channel, except: withheld, from: own.floor)
    return earlier.map { .earlier($0) } ?? .none
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

  /// The newest message of the channel that the user may see, without braces. `floor`: the user may not see
  /// messages before this moment. It looks at the newest stored messages only.
  private func newestMessage(
    in channel: ChannelKey, except withheld: Set<Int64>, from floor: Int64
  ) throws -> [UInt8]? {
    var rows = try db.rows(
      """
      SELECT m.message_id, m.body
      FROM (
        SELECT message_id, created_at, version, parent_id, flags, body
        FROM message
        WHERE channel = ?1 AND created_at >= ?2
        ORDER BY created_at DESC, message_id DESC
        LIMIT ?3
      ) AS m
      JOIN channel AS c ON c.id = ?1
      WHERE m.version > coalesce(c.cleared_version, 0) AND (m.parent_id IS NULL OR m.flags & 2)
      ORDER BY m.created_at DESC, m.message_id DESC
      """
    ) {
      $0.bind(1, channel.rawValue)
      $0.bind(2, floor)
      $0.bind(3, CacheReader.mostLookedAt)
    }
    while let row = try rows.next() {
      if !withheld.contains(row.int64(0)) { return Array(row.bytes(1)) }
    }
    return nil
  }

  private static let mostLookedAt = 200
}
