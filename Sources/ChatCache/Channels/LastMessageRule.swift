import ChatModel
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

extension CacheReader {
  /// The rule for that user.
  func lastMessageRule(for user: UserKey, heldAt: Int64?) throws -> LastMessageRule {
    LastMessageRule(user: user, heldAt: heldAt, isAnyWithheld: try isAnyWithheld())
  }

  /// Whether the user with these own fields is shown the channel's last message, which is of the time `time`.
  /// `version`: the channel's.
  func shows(
    lastMessageOf channel: ChannelKey, at time: Int64, version: Int64, to own: borrowing OwnFields,
    _ rule: LastMessageRule
  ) throws -> Bool {
    guard own.mayReadMessage(at: time), version <= rule.heldAt ?? .max else { return false }
    return try !(rule.isAnyWithheld && isLastWithheld(in: channel, from: rule.user))
  }

  private func isAnyWithheld() throws -> Bool {
    if let known = notes?.isAnyWithheld { return known }
    let isAny = try db.first(
      """
      SELECT 1
      WHERE EXISTS (SELECT 1 FROM withheld)
        OR EXISTS (
          SELECT 1
          FROM outbox INDEXED BY outbox_taken_back
          WHERE is_cancel_wanted = 1 AND target_id IS NOT NULL
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
}
