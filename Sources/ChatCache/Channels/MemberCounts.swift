import ChatModel
import SQLite

// What new and deleted messages mean for those members of the channel who are connected here: unread counts,
// mentions, hidden channels that come back, the place in their lists. Set by set, never member by member.

extension CacheWriter {
  /// Counts messages that were not there before: each is unread for whoever did not write it, has not read so
  /// far, and whose count from upstream does not include it (B68). A hidden channel that may come back does
  /// (B10).
  func count(_ batch: MessageBatch) throws {
    guard let newest = batch.added.map(\.createdAt).max(), let sequence = batch.sequence,
      let counted = try reader.leastCounted(in: batch.channel), newest > counted
    else { return }
    for message in batch.added where message.createdAt > counted && message.counts {
      try db.run(
        """
        UPDATE membership
        SET unread = unread + 1, version = ?4
        WHERE channel = ?1
          AND counted_at < ?2
          AND last_read_at < ?2
          AND floor_at <= ?2
          AND user NOT IN (SELECT id FROM user WHERE user_id = ?3)
        """
      ) {
        $0.bind(1, batch.channel.rawValue)
        $0.bind(2, message.createdAt)
        $0.bind(3, message.sender)
        $0.bind(4, sequence)
      }
      try countMentions(message, in: batch.channel, sequence)
    }
    try unhide(batch, newest)
  }

  private func countMentions(
    _ message: MessageBatch.Added, in channel: ChannelKey, _ sequence: Int64
  ) throws {
    let names: [String?]
    switch message.mentions {
    case .nobody: return
    case .everybody: names = [nil]
    case .users(let users): names = users
    }
    for name in names where name != message.sender {
      try db.run(
        """
        UPDATE membership
        SET mentions = mentions + 1, version = ?4
        WHERE channel = ?1
          AND counted_at < ?2
          AND last_read_at < ?2
          AND floor_at <= ?2
          AND user IN (SELECT id FROM user WHERE user_id <> ?3 AND user_id = coalesce(?5, user_id))
        """
      ) {
        $0.bind(1, channel.rawValue)
        $0.bind(2, message.createdAt)
        $0.bind(3, message.sender)
        $0.bind(4, sequence)
        $0.bind(5, name)
      }
    }
  }

  private func unhide(_ batch: MessageBatch, _ newest: Int64) throws {
    let users = try db.reading.all(
      """
      UPDATE membership
      SET hidden_state = 'unhidden'
      WHERE channel = ?1
        AND hidden_state = 'hidden_allow_auto_unhide'
        AND counted_at < ?2
      RETURNING user
      """
    ) {
      $0.bind(1, batch.channel.rawValue)
      $0.bind(2, newest)
    } _: {
      UserKey($0.int64(0))
    }
    for user in users {
      try append(Change(.membership, .channelUnhidden, channel: batch.channel, user: user))
    }
  }

  /// A deleted message is not unread any more.
  func uncount(_ message: DoomedMessage, in channel: ChannelKey) throws {
    try db.run(
      """
      UPDATE membership
      SET unread = unread - 1
      WHERE channel = ?1
        AND unread > 0
        AND last_read_at < ?2
        AND floor_at <= ?2
        AND user NOT IN (SELECT id FROM user WHERE user_id = ?3)
      """
    ) {
      $0.bind(1, channel.rawValue)
      $0.bind(2, message.position.createdAt)
      $0.bind(3, message.sender)
    }
  }

  /// The channel's last message after a batch, and with it the place in every member's list (B7).
  func moveLastMessage(_ batch: MessageBatch, version: Int64) throws {
    let last = try reader.lastMessage(of: batch.channel)
    if let newest = batch.newest, last.map({ $0 <= newest.position }) ?? true {
      try setLastMessage(newest, of: batch.channel, version: version)
    } else if let last, try reader.isDeleted(last.messageID, in: batch.channel) {
      try setLastMessage(nil, of: batch.channel, version: version)
      try takeLastMessageFromTable(batch.channel)
      try placeInLists(batch.channel, version: version)
    }
  }

  /// Makes a message the channel's last, or says that there is none.
  func setLastMessage(_ message: MessageRecord?, of channel: ChannelKey, version: Int64) throws {
    try db.run(
      """
      UPDATE channel
      SET last_message_at = ?2, last_message_id = ?3, last_message = ?4
      WHERE id = ?1
      """
    ) {
      $0.bind(1, channel.rawValue)
      $0.bind(2, message?.createdAt)
      $0.bind(3, message?.messageID)
      $0.bind(4, copyOf: message.map { [UInt8(ascii: "{")] + $0.body + [UInt8(ascii: "}")] })
    }
    try placeInLists(channel, version: version)
  }

  private func takeLastMessageFromTable(_ channel: ChannelKey) throws {
    try db.run(
      """
      UPDATE channel
      SET (last_message_at, last_message_id, last_message) = (
        SELECT created_at, message_id, CAST('{' || CAST(body AS TEXT) || '}' AS BLOB)
        FROM message
        WHERE message.channel = ?1 AND (parent_id IS NULL OR flags & 2)
        ORDER BY created_at DESC, message_id DESC
        LIMIT 1
      )
      WHERE id = ?1
      """
    ) { $0.bind(1, channel.rawValue) }
  }

  /// The newest message at or after each member's floor decides where the channel stands (B7, B23).
  func placeInLists(_ channel: ChannelKey, version: Int64) throws {
    try db.run(
      """
      UPDATE membership
      SET version = ?2,
        sort_at = coalesce(
          (SELECT last_message_at FROM channel WHERE id = ?1 AND last_message_at >= membership.floor_at),
          created_at - ?3)
      WHERE channel = ?1
      """
    ) {
      $0.bind(1, channel.rawValue)
      $0.bind(2, version)
      $0.bind(3, ChannelFacts.withoutMessage)
    }
  }
}

extension CacheReader {
  /// Up to where the upstream's counts of all members reach; nil without members.
  fileprivate func leastCounted(in channel: ChannelKey) throws -> Int64? {
    try db.first("SELECT min(counted_at) FROM membership WHERE channel = ?1") {
      $0.bind(1, channel.rawValue)
    } _: {
      $0.int64OrNil(0)
    } ?? nil
  }

  /// The place of the channel's last message.
  func lastMessage(of channel: ChannelKey) throws -> Position? {
    try db.first(
      "SELECT last_message_at, last_message_id FROM channel WHERE id = ?1 AND last_message_at IS NOT NULL"
    ) {
      $0.bind(1, channel.rawValue)
    } _: {
      Position(createdAt: $0.int64(0), messageID: $0.int64(1))
    }
  }
}
