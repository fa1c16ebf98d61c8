import ChatModel
import SQLite

// Reads the coverage of channels, by which the sync worker decides what to fetch.

extension CacheReader {
  /// The coverage of the channel; nil if the channel is unknown, or no user of this cache is in it. At most
  /// `counting` messages of a stretch are counted.
  package func line(of url: ChannelURL, counting: Int = ChannelLine.mostCounted) throws -> ChannelLine? {
    try db.first(
      """
      SELECT c.id, c.message_token, c.evicted_at, c.evicted_id
      FROM channel AS c
      WHERE c.channel_url = ?1
        AND EXISTS (
          SELECT 1 FROM membership AS m INDEXED BY membership_by_channel WHERE m.channel = c.id
        )
      """
    ) {
      $0.bind(1, url.text)
    } _: {
      (ChannelKey($0.int64(0)), $0.stringOrNil(1), CacheReader.position($0, 2))
    }
    .map {
      let changes = $0.1.flatMap { ChangesSince(stored: $0) }
      return try line(of: $0.0, changes: changes, evicted: $0.2, counting: counting)
    }
  }

  /// The id of the newest stored message, except replies that only their thread shows; without one, that of
  /// the channel's last message.
  package func newestMessage(of url: ChannelURL) throws -> Int64? {
    try db.first(
      """
      SELECT coalesce(
        (
          SELECT message_id
          FROM message
          WHERE channel = c.id AND (parent_id IS NULL OR flags & 2)
          ORDER BY created_at DESC, message_id DESC
          LIMIT 1
        ),
        c.last_message_id
      )
      FROM channel AS c
      WHERE c.channel_url = ?1
      """
    ) {
      $0.bind(1, url.text)
    } _: {
      $0.int64OrNil(0)
    } ?? nil
  }

  /// The channels after that one that connected users joined, in the order of their keys, at most `limit`,
  /// with the values that decide about prefetch. At most `counting` messages of a stretch are counted.
  package func overview(
    after last: ChannelKey?, limit: Int, counting: Int = ChannelLine.mostCounted
  ) throws -> [ChannelOverview] {
    try db.all(
      """
      SELECT
        c.id, c.channel_url, coalesce(c.last_message_at, 0), c.message_token, c.evicted_at, c.evicted_id,
        c.accessed_at
      FROM channel AS c
      WHERE c.id > ?1
        AND EXISTS (
          SELECT 1
          FROM membership AS m INDEXED BY membership_by_channel
          JOIN user AS u ON u.id = m.user
          WHERE m.channel = c.id AND m.state = 'joined' AND u.phase = 'connected'
        )
      ORDER BY c.id
      LIMIT ?2
      """
    ) {
      $0.bind(1, last?.rawValue ?? .min)
      $0.bind(2, limit)
    } _: { row in
      (
        ChannelKey(row.int64(0)), ChannelURL(row.string(1)), row.int64(2),
        row.stringOrNil(3).flatMap { ChangesSince(stored: $0) }, CacheReader.position(row, 4), row.int64(6)
      )
    }
    .map { key, url, at, changes, evicted, usedAt in
      ChannelOverview(
        key: key, url: url, lastMessageAt: at, usedAt: usedAt,
        line: try line(of: key, changes: changes, evicted: evicted, counting: counting))
    }
  }

  /// Gaps marked as being filled. At a start, these are the fills that a stop or a crash interrupted.
  package func fillsBegun() throws -> [(url: ChannelURL, gap: Int64)] {
    try db.all(
      """
      SELECT c.channel_url, s.id
      FROM segment AS s INDEXED BY segment_filling
      JOIN channel AS c ON c.id = s.channel
      WHERE s.kind = 1 AND s.state = 1
      """
    ) { (ChannelURL($0.string(0)), $0.int64(1)) }
  }

  /// A position from two columns; nil if they are NULL.
  private static func position(_ row: Row, _ column: Int32) -> Position? {
    row.int64OrNil(column).map { Position(createdAt: $0, messageID: row.int64(column + 1)) }
  }

  private func line(
    of channel: ChannelKey, changes: ChangesSince?, evicted: Position?, counting most: Int
  ) throws -> ChannelLine {
    let coverage = try coverage(of: channel)
    var line = ChannelLine()
    line.changes = changes
    line.unverified = coverage.unverified.first
    for segment in coverage.gaps { line.gaps[segment.gap?.id ?? 0] = segment.range }
    let segments = coverage.segments
    guard var low = segments.lastIndex(where: \.isCovered) else {
      line.reachesBeginning = segments.count == 1 && coverage.tail.confirmedAt != nil
      if !line.reachesBeginning, let known = coverage.newestKnown, let evicted, known <= evicted {
        line.isAboveEvicted = true
        line.evictedEnd = known
      }
      return line
    }
    let top = segments[low].range.upperBound
    line.isBelowGap = low + 1 < segments.count && segments[low + 1].gap != nil
    while low > 0, segments[low - 1].isCovered { low -= 1 }
    let range = segments[low].range.lowerBound...top
    let (oldest, newest, rows) = try extent(of: range, in: channel, counting: most)
    line.newest = newest ?? top
    line.oldest = oldest
    line.rows = rows
    line.reachedEnd = coverage.tail.confirmedAt != nil && segments.dropLast().last?.isCovered == true
    let below = low > 0 ? segments[low - 1].gap?.state : nil
    line.isAboveHugeGap = below == .huge || below == .filling
    line.reachesBeginning = range.lowerBound == .start
    line.isAboveEvicted = evicted.map { range.lowerBound.previous <= $0 } ?? false
    if let unverified = line.unverified, line.isAboveEvicted {
      line.unverifiedRows = try extent(of: unverified, in: channel, counting: most).rows
    }
    return line
  }

  /// The oldest and the newest stored message of a stretch, and the number of messages, `most` at most.
  private func extent(
    of range: ClosedRange<Position>, in channel: ChannelKey, counting most: Int
  ) throws -> (oldest: Position?, newest: Position?, rows: Int) {
    let bind: (Statement) -> Void = {
      $0.bind(1, channel.rawValue)
      $0.bind(2, range.lowerBound.createdAt)
      $0.bind(3, range.lowerBound.messageID)
      $0.bind(4, range.upperBound.createdAt)
      $0.bind(5, range.upperBound.messageID)
    }
    let oldest = try db.first(
      """
      SELECT created_at, message_id
      FROM message
      WHERE channel = ?1
        AND (created_at, message_id) >= (?2, ?3)
        AND (created_at, message_id) <= (?4, ?5)
      ORDER BY created_at, message_id
      LIMIT 1
      """, bind
    ) { Position(createdAt: $0.int64(0), messageID: $0.int64(1)) }
    let newest = try db.first(
      """
      SELECT created_at, message_id
      FROM message
      WHERE channel = ?1
        AND (created_at, message_id) >= (?2, ?3)
        AND (created_at, message_id) <= (?4, ?5)
      ORDER BY created_at DESC, message_id DESC
      LIMIT 1
      """, bind
    ) { Position(createdAt: $0.int64(0), messageID: $0.int64(1)) }
    let rows = try db.first(
      """
      SELECT count(*)
      FROM (
        SELECT 1
        FROM message
        WHERE channel = ?1
          AND (created_at, message_id) >= (?2, ?3)
          AND (created_at, message_id) <= (?4, ?5)
        ORDER BY created_at DESC, message_id DESC
        LIMIT ?6
      )
      """
    ) {
      bind($0)
      $0.bind(6, Int64(most))
    } _: {
      $0.int(0)
    }
    return (oldest, newest, rows ?? 0)
  }
}
