import ChatModel
import SQLite

// Updates the memberships of a channel after new and deleted messages: unread counts, mentions, hidden
// channels that come back, and positions in lists. One statement updates all members. In a crowded channel
// two kinds of memberships change: those whose user hid the channel, and those whose floor the last message
// passes (CrowdedChannels.swift).

extension CacheWriter {
  /// Counts a batch's messages and moves the channel in its members' lists.
  func tellMembers(of batch: MessageBatch, version: Int64) throws {
    if try reader.isCrowded(batch.channel) {
      if let newest = batch.added.map(\.position).max() { try unhide(batch, newest) }
      try moveLastMessage(batch, version: version)
    } else if let message = batch.added.first, let record = batch.newest, try isArrival(message, batch) {
      try setLastMessage(record, of: batch.channel)
      try arrive(message, in: batch.channel, version)
      try unhide(batch, message.position)
    } else {
      try count(batch)
      try moveLastMessage(batch, version: version)
    }
  }

  /// Whether the batch only added one message after all others, as most batches of a conversation do.
  private func isArrival(_ message: CountedMessage, _ batch: MessageBatch) throws -> Bool {
    guard batch.added.count == 1, batch.recounted.isEmpty, batch.deletion == nil, message.counts,
      batch.newest?.position == message.position
    else { return false }
    return try reader.lastMessage(of: batch.channel).map { $0 < message.position } ?? true
  }

  /// Does what `add` and `sortInLists` do, in one pass over the members. Too many of them make the channel
  /// crowded.
  private func arrive(_ message: CountedMessage, in channel: ChannelKey, _ version: Int64) throws {
    let members = try db.run(
      """
      UPDATE membership
      SET version = ?4,
        sort_at = CASE WHEN floor_at <= ?2 THEN ?2 ELSE created_at - ?5 END,
        unread = CASE
          WHEN (counted_at, counted_id) < (?2, ?3)
            AND last_read_at < ?2
            AND floor_at <= ?2
            AND user NOT IN (SELECT id FROM user WHERE user_id = ?6)
          THEN min(unread + 1, ?8)
          ELSE unread
        END,
        mentions = CASE
          WHEN ?7 IS NOT NULL
            AND (counted_at, counted_id) < (?2, ?3)
            AND last_read_at < ?2
            AND floor_at <= ?2
            AND user NOT IN (SELECT id FROM user WHERE user_id = ?6)
            AND (
              ?7 = '*'
              OR user IN (
                SELECT id FROM user WHERE user_id IN (SELECT value FROM json_each(nullif(?7, '*')))
              )
            )
          THEN min(mentions + 1, ?8)
          ELSE mentions
        END
      WHERE channel = ?1
      """
    ) {
      $0.bind(1, channel.rawValue)
      $0.bind(2, message.position.createdAt)
      $0.bind(3, message.position.messageID)
      $0.bind(4, version)
      $0.bind(5, ChannelColumns.withoutMessage)
      $0.bind(6, message.sender.text)
      $0.bind(7, message.mentions?.text)
      $0.bind(8, Limits.counts.upperBound)
    }
    if members > mostChangedMembers { try crowdIfNeeded(channel) }
  }

  /// Counts a batch's messages. For messages that an earlier commit or the upstream counted, counts only the
  /// difference (B68). Shows a hidden channel again if that is allowed (B10).
  private func count(_ batch: MessageBatch) throws {
    guard let sequence = batch.sequence, !batch.added.isEmpty || !batch.recounted.isEmpty,
      let counted = try leastCounted(batch)
    else { return }
    for message in batch.added where message.position > counted {
      try add(1, message, in: batch.channel, sequence)
    }
    for (old, new) in batch.recounted {
      try add(1, new, in: batch.channel, sequence)
      try add(-1, old, in: batch.channel, sequence)
    }
    if let newest = batch.added.map(\.position).max(), newest > counted { try unhide(batch, newest) }
  }

  /// The position that all members' counts reach, nil without members. If all added messages are newer than
  /// the channel's last one, no member's count includes them, and the memberships are not read.
  private func leastCounted(_ batch: MessageBatch) throws -> Position? {
    if batch.recounted.isEmpty, let oldest = batch.added.map(\.position).min(),
      let last = try reader.lastMessage(of: batch.channel), oldest > last
    {
      return last
    }
    return try reader.leastCounted(in: batch.channel)
  }

  /// Subtracts a deleted message that Perch added to the counts, but not one that the upstream counted (B68).
  /// A message that the batch has yet to count leaves the batch.
  func uncount(_ message: CountedMessage, _ batch: inout MessageBatch, _ sequence: Int64) throws {
    let id = message.position.messageID
    if let index = batch.added.firstIndex(where: { $0.position.messageID == id }) {
      batch.added.remove(at: index)
      batch.recounted.removeAll { $0.new.position.messageID == id }
      return
    }
    let before = batch.recounted.first { $0.new.position.messageID == id }?.old
    batch.recounted.removeAll { $0.new.position.messageID == id }
    guard try !reader.isCrowded(batch.channel) else { return }
    try add(-1, before ?? message, in: batch.channel, sequence)
  }

  /// Adds `one` (1 or -1) to the counts of each member who may see the message, did not write it and has not
  /// read it, unless the upstream's count includes it.
  private func add(
    _ one: Int64, _ message: CountedMessage, in channel: ChannelKey, _ sequence: Int64
  ) throws {
    guard message.counts else { return }
    try db.run(
      """
      UPDATE membership
      SET version = ?4,
        unread = min(max(0, unread + ?5), ?8),
        mentions = CASE
          WHEN ?7 = '*'
            OR user IN (SELECT id FROM user WHERE user_id IN (SELECT value FROM json_each(nullif(?7, '*'))))
          THEN min(max(0, mentions + ?5), ?8)
          ELSE mentions
        END
      WHERE channel = ?1
        AND (counted_at, counted_id) < (?2, ?3)
        AND last_read_at < ?2
        AND floor_at <= ?2
        AND user NOT IN (SELECT id FROM user WHERE user_id = ?6)
      """
    ) {
      $0.bind(1, channel.rawValue)
      $0.bind(2, message.position.createdAt)
      $0.bind(3, message.position.messageID)
      $0.bind(4, sequence)
      $0.bind(5, one)
      $0.bind(6, message.sender.text)
      $0.bind(7, message.mentions?.text)
      $0.bind(8, Limits.counts.upperBound)
    }
  }

  /// Marks all members' counts as including every message up to the channel's last one.
  func countUpToLast(of channel: ChannelKey) throws {
    if try reader.isCrowded(channel) {
      if let last = try reader.lastMessage(of: channel) { try fold(channel, upTo: last) }
      return
    }
    try db.run(
      """
      UPDATE membership
      SET counted_at = c.last_message_at, counted_id = c.last_message_id
      FROM channel AS c
      WHERE membership.channel = ?1
        AND c.id = ?1
        AND (counted_at, counted_id) < (c.last_message_at, c.last_message_id)
      """
    ) { $0.bind(1, channel.rawValue) }
  }

  private func unhide(_ batch: MessageBatch, _ newest: Position) throws {
    let users = try db.reading.all(
      """
      UPDATE membership
      SET hidden_state = 'unhidden'
      WHERE channel = ?1
        AND hidden_state = 'hidden_allow_auto_unhide'
        AND (counted_at, counted_id) < (?2, ?3)
      RETURNING user
      """
    ) {
      $0.bind(1, batch.channel.rawValue)
      $0.bind(2, newest.createdAt)
      $0.bind(3, newest.messageID)
    } _: {
      UserKey($0.int64(0))
    }
    for user in users {
      try append(Change(.membership, .channelUnhidden, channel: batch.channel, user: user))
    }
  }

  /// Updates the channel's last message after a batch, and with it the position in every member's list (B7).
  private func moveLastMessage(_ batch: MessageBatch, version: Int64) throws {
    let last = try reader.lastMessage(of: batch.channel)
    if let newest = batch.newest, last.map({ $0 <= newest.position }) ?? true {
      try setLastMessage(newest, of: batch.channel, version: version)
    } else if let last, try isElsewhere(last, batch) {
      try takeLastMessageFromTable(batch.channel)
      try sortInLists(batch.channel, movedFrom: last, version: version)
      try askForLastMessage(of: batch.channel)
    }
  }

  /// Stores a note to fetch the channel if the upstream may have messages newer than the newest stored one.
  private func askForLastMessage(of channel: ChannelKey) throws {
    let last = try reader.lastMessage(of: channel)
    let coverage = try reader.coverage(of: channel)
    let reaches = coverage.gaps.last.map { gap in last.map { $0 > gap.range.upperBound } ?? false } ?? true
    guard !reaches || coverage.tail.confirmedAt == nil, let url = try reader.url(of: channel) else { return }
    try note([WebhookNote(kind: .channel, channel: url, source: .channelRefresh)])
    markNoted(in: url)
  }

  /// Whether the message that was the channel's last was deleted, or has another time now.
  private func isElsewhere(_ last: Position, _ batch: MessageBatch) throws -> Bool {
    if batch.removed.contains(last.messageID) { return true }
    if try reader.isDeleted(last.messageID, in: batch.channel) { return true }
    guard batch.hasMoved, let time = try reader.time(of: last.messageID, in: batch.channel) else {
      return false
    }
    return time != last.createdAt
  }

  /// Stores the channel's last message (nil: none) and its position in the members' lists.
  func setLastMessage(_ message: MessageRecord?, of channel: ChannelKey, version: Int64) throws {
    let old = try reader.lastMessage(of: channel)
    try setLastMessage(message, of: channel)
    try sortInLists(channel, movedFrom: old, version: version)
  }

  private func setLastMessage(_ message: MessageRecord?, of channel: ChannelKey) throws {
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
  }

  /// Takes the newest stored message. While cleared rows are left, it looks at a few rows only, and takes no
  /// message if all of these are cleared.
  private func takeLastMessageFromTable(_ channel: ChannelKey) throws {
    guard try reader.clearedVersion(of: channel) == 0 else { return try takeLastUnclearedMessage(channel) }
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

  private func takeLastUnclearedMessage(_ channel: ChannelKey) throws {
    try db.run(
      """
      UPDATE channel
      SET (last_message_at, last_message_id, last_message) = (
        SELECT created_at, message_id, CAST('{' || CAST(body AS TEXT) || '}' AS BLOB)
        FROM (
          SELECT created_at, message_id, version, parent_id, flags, body
          FROM message
          WHERE message.channel = ?1
          ORDER BY created_at DESC, message_id DESC
          LIMIT ?2
        ) AS newest
        WHERE newest.version > channel.cleared_version AND (parent_id IS NULL OR flags & 2)
        ORDER BY created_at DESC, message_id DESC
        LIMIT 1
      )
      WHERE id = ?1
      """
    ) {
      $0.bind(1, channel.rawValue)
      $0.bind(2, Limits.clearedAtOnce)
    }
  }

  /// Orders the channel in each member's list by its last message, if that is not below the floor (B7, B23).
  /// `movedFrom`: the last message before.
  private func sortInLists(_ channel: ChannelKey, movedFrom old: Position?, version: Int64) throws {
    if try reader.isCrowded(channel) {
      let new = try reader.lastMessage(of: channel)
      return try follow(channel, from: old?.createdAt, to: new?.createdAt, version: version)
    }
    try sortInLists(channel, version: version)
  }

  /// Orders the channel in each member's list, wherever it was before.
  func sortInLists(_ channel: ChannelKey, version: Int64) throws {
    let last = try reader.lastMessage(of: channel)
    try db.run(
      """
      UPDATE membership
      SET version = ?2,
        sort_at = CASE
          WHEN NOT ?4 >= floor_at OR ?4 IS NULL THEN created_at - ?3
          WHEN (SELECT is_crowded FROM channel WHERE id = ?1) THEN -4000000000000000000
          ELSE ?4
        END
      WHERE channel = ?1
      """
    ) {
      $0.bind(1, channel.rawValue)
      $0.bind(2, version)
      $0.bind(3, ChannelColumns.withoutMessage)
      $0.bind(4, last?.createdAt)
    }
  }
}

extension CacheReader {
  /// The position up to which the upstream counted for every member; nil without members.
  fileprivate func leastCounted(in channel: ChannelKey) throws -> Position? {
    try db.first(
      """
      SELECT counted_at, counted_id
      FROM membership INDEXED BY membership_by_channel
      WHERE channel = ?1
      ORDER BY counted_at, counted_id
      LIMIT 1
      """
    ) {
      $0.bind(1, channel.rawValue)
    } _: {
      Position(createdAt: $0.int64(0), messageID: $0.int64(1))
    }
  }

  /// The position of the channel's last message.
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
