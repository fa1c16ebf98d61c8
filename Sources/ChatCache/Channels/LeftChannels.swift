import ChatModel
import SQLite

// Channels that no user of this cache is in any more. No user may see their data, so it is deleted in the
// background, one slice per commit. If a user joins before or meanwhile, what is left is cleared with the
// joining, and the user finds a channel of which nothing is covered.
//
// First the line becomes one gap and the log says that the channel was cleared, so that answers to earlier
// requests prove nothing (B58). Then messages, tombstones, members and metadata are deleted. The row with the
// url stays while events or views refer to the channel by its number, for users who left it. Then the row is
// deleted, too.

extension CacheReader {
  /// Whether no user of this cache is in the channel.
  func isLeft(_ channel: ChannelKey) throws -> Bool {
    try db.first("SELECT 1 FROM membership INDEXED BY membership_by_channel WHERE channel = ?1 LIMIT 1") {
      $0.bind(1, channel.rawValue)
    } _: { _ in
      false
    } ?? true
  }

  /// The channel with that url; nil if no user of this cache is in it. Data of other channels is not stored.
  func attendedChannel(_ url: ChannelURL) throws -> ChannelKey? {
    try channelKey(of: url).flatMap { try isLeft($0) ? nil : $0 }
  }

  /// Channels after `channel` that no user of this cache is in and that have rows to delete now, at most
  /// `most`.
  func leftChannels(after channel: ChannelKey, atMost most: Int) throws -> [ChannelKey] {
    try db.all(
      """
      SELECT c.id
      FROM channel AS c
      WHERE c.id > ?1
        AND NOT EXISTS (
          SELECT 1 FROM membership AS m INDEXED BY membership_by_channel WHERE m.channel = c.id
        )
        AND (
          c.body <> ?2
          OR NOT EXISTS (SELECT 1 FROM event AS e INDEXED BY event_by_channel WHERE e.channel = c.id)
            AND NOT EXISTS (SELECT 1 FROM collection AS o WHERE o.channel = c.id)
        )
      ORDER BY c.id
      LIMIT ?3
      """
    ) {
      $0.bind(1, channel.rawValue)
      $0.bind(2, copyOf: Fields.ofChannel)
      $0.bind(3, most)
    } _: {
      ChannelKey($0.int64(0))
    }
  }

  fileprivate func isNamed(_ channel: ChannelKey) throws -> Bool {
    try db.first(
      """
      SELECT 1 FROM event INDEXED BY event_by_channel WHERE channel = ?1
      UNION ALL
      SELECT 1 FROM collection WHERE channel = ?1
      LIMIT 1
      """
    ) {
      $0.bind(1, channel.rawValue)
    } _: { _ in
      true
    } ?? false
  }
}

extension CacheWriter {
  /// Deletes one slice of the rows of a channel that no user of this cache is in. True: more rows are left.
  func removeSlice(ofLeft channel: ChannelKey) throws -> Bool {
    guard try reader.isLeft(channel), let url = try reader.url(of: channel) else { return false }
    try forgetLine(of: channel)
    try db.run("DELETE FROM webhook_note WHERE channel_url = ?1 AND kind <> 'channel'") {
      $0.bind(1, url.text)
    }
    let room = try removeSome(of: channel)
    guard room > 0 else {
      // Somebody may join before the next slice.
      try countReadersAgain(in: channel)
      return true
    }
    try empty(channel)
    if try !reader.isNamed(channel) { try removeRow(channel, url) }
    return false
  }

  /// Deletes some of the channel's messages, members and other rows. Returns how many more could have been
  /// deleted at once; 0: some may be left.
  private func removeSome(of channel: ChannelKey) throws -> Int {
    try forgetMemberList(of: channel)
    try forgetThreads(of: channel)
    var room = Limits.trimmedRows - (try removeMessages(of: channel, atMost: Limits.trimmedRows))
    for rest in CacheWriter.rests where room > 0 {
      room -= try db.run(rest) {
        $0.bind(1, channel.rawValue)
        $0.bind(2, room)
      }
    }
    return room
  }

  /// Turns the channel's line into one gap.
  private func forgetLine(of channel: ChannelKey) throws {
    let old = try reader.coverage(of: channel)
    guard old.newestCovered != nil || old.tail.confirmedAt != nil else { return }
    var coverage = old
    coverage.clear()
    try save(coverage, over: old, of: channel, .channelRefresh)
    try append(Change(.cacheCleared, .channelRefresh, channel: channel))
  }

  /// Deletes the channel's oldest messages. Returns how many there were.
  func removeMessages(of channel: ChannelKey, atMost most: Int) throws -> Int {
    try db.run(
      """
      UPDATE channel
      SET (cached_messages, cached_bytes) = (
        SELECT
          channel.cached_messages - count(*),
          channel.cached_bytes - coalesce(sum(
            length(body) + coalesce(length(reactions), 0) + coalesce(length(metaarray), 0)
              + coalesce(length(thread_info), 0) + coalesce(length(parent), 0)), 0)
        FROM (SELECT * FROM message WHERE channel = ?1 ORDER BY created_at, message_id LIMIT ?2)
      )
      WHERE id = ?1
      """
    ) {
      $0.bind(1, channel.rawValue)
      $0.bind(2, most)
    }
    noteMessagesDeleted(in: channel)
    return try db.run(
      """
      DELETE FROM message
      WHERE channel = ?1
        AND (created_at, message_id) <= (
          SELECT created_at, message_id
          FROM (
            SELECT created_at, message_id
            FROM message
            WHERE channel = ?1
            ORDER BY created_at, message_id
            LIMIT ?2
          )
          ORDER BY created_at DESC, message_id DESC
          LIMIT 1
        )
      """
    ) {
      $0.bind(1, channel.rawValue)
      $0.bind(2, most)
    }
  }

  /// Statements that each delete a bounded number of a channel's other rows.
  private static let rests: [StaticString] = [
    """
    DELETE FROM tombstone
    WHERE channel = ?1
      AND message_id <= (
        SELECT max(message_id)
        FROM (SELECT message_id FROM tombstone WHERE channel = ?1 ORDER BY message_id LIMIT ?2)
      )
    """,
    """
    DELETE FROM member
    WHERE channel = ?1
      AND user_id <= (
        SELECT max(user_id)
        FROM (SELECT user_id FROM member WHERE channel = ?1 ORDER BY user_id LIMIT ?2)
      )
    """,
    """
    DELETE FROM read_position
    WHERE channel = ?1
      AND user_id <= (
        SELECT max(user_id)
        FROM (SELECT user_id FROM read_position WHERE channel = ?1 ORDER BY user_id LIMIT ?2)
      )
    """,
    """
    DELETE FROM channel_metadata
    WHERE channel = ?1
      AND key <= (
        SELECT max(key)
        FROM (SELECT key FROM channel_metadata WHERE channel = ?1 ORDER BY key LIMIT ?2)
      )
    """,
  ]

  /// Resets the channel's row to that of a channel of which the upstream has told nothing.
  private func empty(_ channel: ChannelKey) throws {
    try db.run(
      """
      UPDATE channel
      SET name = '', name_key = '', custom_type = '', created_at = 0, is_distinct = 0, is_public = 0,
        is_super = 0, is_frozen = 0, member_count = 0, joined_member_count = 0, last_message_at = NULL,
        last_message_id = NULL, last_message = NULL, body = ?2, read_receipts = CAST('{}' AS BLOB),
        reader_count = NULL, reader_digest = NULL, metadata = NULL, message_token = NULL, evicted_at = NULL,
        evicted_id = NULL, cleared_version = NULL, new_after = NULL, known_to_at = NULL,
        known_to_id = NULL
      WHERE id = ?1
      """
    ) {
      $0.bind(1, channel.rawValue)
      $0.bind(2, copyOf: Fields.ofChannel)
    }
  }

  private func removeRow(_ channel: ChannelKey, _ url: ChannelURL) throws {
    try db.run("DELETE FROM webhook_note WHERE channel_url = ?1") { $0.bind(1, url.text) }
    try db.run("DELETE FROM segment WHERE channel = ?1") { $0.bind(1, channel.rawValue) }
    try db.run("DELETE FROM channel WHERE id = ?1") { $0.bind(1, channel.rawValue) }
  }
}
