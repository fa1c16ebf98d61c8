import ChatModel
import SQLite

// Which messages are new: those that the cache stores for the first time and that are after the channel's
// `newAfter`. The user's feed tells them as received, whichever request brought them. The messages up to
// `newAfter` are from before a user of this cache was in the channel, or they were cleared or evicted.
//
// All of this is decided by the chat server's clock, never by the order in which answers come: the first
// messages of a new channel may be listed before the webhook of the channel arrives.

extension CacheReader {
  /// The position after which the channel's messages are new; nil: it is not known yet.
  func newAfter(in channel: ChannelKey) throws -> Position? {
    try db.first("SELECT new_after_at, new_after_id FROM channel WHERE id = ?1") { statement in
      statement.bind(1, channel.rawValue)
    } _: { row in
      row.isNull(0) ? nil : Position(createdAt: row.int64(0), messageID: row.int64(1))
    } ?? nil
  }

  /// The newest time in the user's first listing of channels; nil: none of its pages is stored.
  fileprivate func listedTo(of user: UserKey) throws -> Int64? {
    try db.first("SELECT listed_to FROM user WHERE id = ?1") {
      $0.bind(1, user.rawValue)
    } _: {
      $0.int64OrNil(0)
    } ?? nil
  }
}

extension CacheWriter {
  /// An empty batch of changes of the channel's messages.
  func batch(of channel: ChannelKey, _ source: ChangeSource) throws -> MessageBatch {
    MessageBatch(channel, source, newAfter: try reader.newAfter(in: channel))
  }

  /// Decides which messages are new in a channel that no user of this cache was in until now.
  ///
  /// Messages from before the user was in the channel are not new, and messages from before the user's first
  /// listing of channels are not. A channel of that listing has none after its last message. `isListed`: the
  /// first listing shows the channel.
  func beginNewMessages(
    in channel: ChannelKey, for user: UserKey, _ record: MembershipRecord,
    _ lastMessage: ChannelRecord.LastMessage, isListed: Bool
  ) throws {
    let last: Position? = if case .message(let message) = lastMessage { message.position } else { nil }
    guard let listedTo = try reader.listedTo(of: user) else {
      // A webhook named the channel before the listing began, perhaps because of this last message.
      return try setNewAfter(last?.previous, in: channel)
    }
    if isListed, let last { return try setNewAfter(last, in: channel) }
    let time = max(record.joinedAt ?? 0, record.invitedAt ?? 0, listedTo)
    try setNewAfter(time > 0 ? Position.first(at: time).previous : nil, in: channel)
  }

  private func setNewAfter(_ position: Position?, in channel: ChannelKey) throws {
    try db.run("UPDATE channel SET new_after_at = ?2, new_after_id = ?3 WHERE id = ?1") {
      $0.bind(1, channel.rawValue)
      $0.bind(2, position?.createdAt)
      $0.bind(3, position?.messageID)
    }
  }

  /// Messages up to `position` are not new any more: they were stored once.
  func raiseNewAfter(to position: Position, in channel: ChannelKey) throws {
    try db.run(
      """
      UPDATE channel
      SET new_after_at = ?2, new_after_id = ?3
      WHERE id = ?1 AND (new_after_at IS NULL OR (new_after_at, new_after_id) < (?2, ?3))
      """
    ) {
      $0.bind(1, channel.rawValue)
      $0.bind(2, position.createdAt)
      $0.bind(3, position.messageID)
    }
  }

  /// Widens the stretch of the event with that sequence, so that it still tells of a message that it stored
  /// and that has another time now.
  func widenChange(_ sequence: Int64, to position: Position) throws {
    try db.run(
      """
      UPDATE event
      SET
        from_at = iif((from_at, from_id) < (?3, ?4), from_at, ?3),
        from_id = iif((from_at, from_id) < (?3, ?4), from_id, ?4),
        to_at = iif((to_at, to_id) > (?3, ?4), to_at, ?3),
        to_id = iif((to_at, to_id) > (?3, ?4), to_id, ?4)
      WHERE seq = ?1 AND kind = ?2 AND from_at IS NOT NULL
      """
    ) {
      $0.bind(1, sequence)
      $0.bind(2, ChangeKind.messages.rawValue)
      $0.bind(3, position.createdAt)
      $0.bind(4, position.messageID)
    }
  }

  /// Notes the newest time in a page of the user's first listing of channels. A time in the future does not
  /// count.
  func noteListed(_ page: [ChannelRecord], of user: UserKey) throws {
    let newest = page.map(\.newestTime).max() ?? 0
    try db.run("UPDATE user SET listed_to = max(coalesce(listed_to, 0), ?2) WHERE id = ?1") {
      $0.bind(1, user.rawValue)
      $0.bind(2, min(newest, now))
    }
  }
}

extension ChannelRecord {
  /// The newest of the times that it names.
  fileprivate var newestTime: Int64 {
    let last: Int64 = if case .message(let message) = lastMessage { message.createdAt } else { 0 }
    return max(last, createdAt ?? 0, membership?.joinedAt ?? 0, membership?.invitedAt ?? 0)
  }
}
