import ChatModel
import SQLite

// Clears cached data on request: one channel's messages, or everything (B58).

extension CacheReader {
  /// Whether another connected user is a member too, and so uses the channel's cache.
  package func isShared(_ view: ChannelView) throws -> Bool {
    try db.first(
      """
      SELECT 1
      FROM membership AS m INDEXED BY membership_by_channel
      JOIN user AS u ON u.id = m.user
      WHERE m.channel = ?1 AND m.user <> ?2 AND u.phase = 'connected'
      LIMIT 1
      """
    ) {
      $0.bind(1, view.channel.rawValue)
      $0.bind(2, view.user.rawValue)
    } _: { _ in
      true
    } ?? false
  }
}

extension CacheReader {
  /// Whether everything was cleared after that sequence of the log. An answer that was requested at that
  /// sequence is then not stored.
  func wasEverythingCleared(since mark: Int64) throws -> Bool {
    try db.meta(.cleared) ?? 0 > mark
  }

  /// Whether messages of the channel were cleared or evicted after that sequence of the log.
  package func hasRemovedMessages(of url: ChannelURL, since mark: Int64) throws -> Bool {
    guard let channel = try channelKey(of: url) else { return try wasEverythingCleared(since: mark) }
    return try wasCleared(channel, since: mark) || wasEvicted([.start], of: channel, since: mark)
  }

  /// Whether the channel was cleared after that sequence of the log, by itself or with everything.
  func wasCleared(_ channel: ChannelKey, since mark: Int64) throws -> Bool {
    if try wasEverythingCleared(since: mark) { return true }
    return try db.first(
      """
      SELECT 1
      FROM event INDEXED BY event_by_channel
      WHERE channel = ?1 AND user IS NULL AND seq > ?2 AND kind = ?3
      LIMIT 1
      """
    ) {
      $0.bind(1, channel.rawValue)
      $0.bind(2, mark)
      $0.bind(3, ChangeKind.cacheCleared.rawValue)
    } _: { _ in
      true
    } ?? false
  }
}

extension CacheWriter {
  /// Clears one channel's messages. Their range becomes a gap in the same commit. Views are told of the gap,
  /// never of deleted messages. If they are many, or the members whose counts have to keep them, the rows are
  /// deleted later (`ClearedRows`).
  package func clear(_ url: ChannelURL) throws {
    guard let channel = try reader.channelKey(of: url) else { return }
    let old = try reader.coverage(of: channel)
    var coverage = old
    coverage.clear()
    let most = reader.log.mostCleared
    let hasManyMembers = try reader.isCrowded(channel) && reader.hasMoreMembers(channel, than: most)
    if !hasManyMembers { try countUpToLast(of: channel) }
    try forgetListings(of: channel)
    try save(coverage, over: old, of: channel, .channelRefresh)
    let sequence = try append(Change(.cacheCleared, .channelRefresh, channel: channel))
    noteCleared { $0.channels.insert(url) }
    if try hasManyMembers || reader.storedMessages(of: channel, exceed: most) {
      try hideMessages(of: channel, through: sequence)
    } else {
      try deleteMessages(of: channel)
    }
  }

  /// Deletes a channel's messages without events. When they are fetched again, they do not count as new.
  func dropMessages(of channel: ChannelKey) throws {
    try countUpToLast(of: channel)
    try forgetListings(of: channel)
    try deleteMessages(of: channel)
  }

  private func forgetListings(of channel: ChannelKey) throws {
    try db.run("DELETE FROM doubted WHERE channel = ?1") { $0.bind(1, channel.rawValue) }
    try forgetThreads(of: channel)
    if let newest = try reader.newestPosition(in: channel) { try noteKnown(to: newest, in: channel) }
    try db.run(
      "UPDATE channel SET message_token = NULL, evicted_at = NULL, evicted_id = NULL WHERE id = ?1"
    ) { $0.bind(1, channel.rawValue) }
  }

  private func deleteMessages(of channel: ChannelKey) throws {
    noteMessagesDeleted(in: channel)
    try db.run("DELETE FROM message WHERE channel = ?1") { $0.bind(1, channel.rawValue) }
    try db.run(
      "UPDATE channel SET cached_messages = 0, cached_bytes = 0, cleared_version = NULL WHERE id = ?1"
    ) { $0.bind(1, channel.rawValue) }
  }

  /// Clears all cached data and begins a new epoch, so that every cursor expires (B52). Unsent rows stay
  /// unless `withUnsent`, which removes those up to the row `last`. Users stay, and their sync begins again.
  /// Views stay. If the rows are many, they are deleted later (`ClearedRows`). `isRest`: the upkeep calls
  /// this after the last slice, to clear the tables that no slice clears.
  package func clearAll(withUnsent: Bool, through last: Int64 = .max, isRest: Bool = false) throws {
    if withUnsent { try clearUnsent(through: last) }
    let through = try reader.lastChange()
    let isLater = try !isRest && reader.hasMany(eventsThrough: through)
    if isLater {
      try db.execute("DELETE FROM webhook_note")
    } else {
      noteMessagesDeleted()
      for table in [
        "message", "tombstone", "segment", "membership", "member", "member_list",
        "channel_metadata", "read_position", "thread", "channel", "webhook_note",
      ] {
        try db.execute("DELETE FROM \(table)")
      }
      try db.run("DELETE FROM event WHERE seq <= ?1") { $0.bind(1, through) }
    }
    try db.execute("UPDATE user SET is_synced = 0, channel_token = NULL, listed_to = NULL, version = 0")
    try beginEpoch()
    let sequence = try append(Change(.connection, .channelRefresh))
    try keepLog(from: sequence + 1)
    try db.set(.cleared, sequence)
    try clearLater(isLater ? through : nil)
    noteCleared { cleared in
      cleared.isEverything = true
      cleared.isUnderWay = isLater
    }
  }

  private func clearUnsent(through last: Int64) throws {
    // The request ids stay remembered, so that a repetition sends nothing (B37).
    try db.run(
      """
      UPDATE request
      SET ended_at = ?1, ended_as = 'removed'
      WHERE (user, request_id) IN (SELECT user, request_id FROM outbox WHERE id <= ?2 OR follows <= ?2)
        AND ended_at IS NULL
      """
    ) {
      $0.bind(1, now)
      $0.bind(2, last)
    }
    try db.run("DELETE FROM upload WHERE row <= ?1") { $0.bind(1, last) }
    try db.run("DELETE FROM outbox WHERE id <= ?1 OR follows <= ?1") { $0.bind(1, last) }
    noteFreedFiles()
    try recountUnsent()
  }
}
