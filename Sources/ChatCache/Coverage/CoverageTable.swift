import ChatModel
import SQLite

// The table `segment`: a channel's coverage is read whole and written back as a difference.

extension CacheReader {
  /// The channel's covered stretches and gaps. If its segments leave a hole or overlap, the whole channel is
  /// read as one gap (B64).
  package func coverage(of channel: ChannelKey) throws -> Coverage {
    var tiling = Coverage.Tiling()
    try eachSegment(of: channel) { tiling.lay($0) }
    if tiling.isEmpty { return Coverage() }
    return tiling.coverage ?? .reset(nextGapID: tiling.highestID + 1)
  }

  func segmentRows(of channel: ChannelKey) throws -> [SegmentRow] {
    var rows: [SegmentRow] = []
    try eachSegment(of: channel) { rows.append($0) }
    return rows
  }

  private func eachSegment(of channel: ChannelKey, _ body: (SegmentRow) -> Void) throws {
    var rows = try db.rows(
      """
      SELECT
        lo_at, lo_id, hi_at, hi_id, kind, id, reason, state, estimated_missing, confirmed_at, generation,
        is_unverified
      FROM segment
      WHERE channel = ?1
      ORDER BY lo_at, lo_id
      """
    ) {
      $0.bind(1, channel.rawValue)
    }
    while let row = try rows.next() {
      body(
        SegmentRow(
          lo: Position(createdAt: row.int64(0), messageID: row.int64(1)),
          hi: Position(createdAt: row.int64(2), messageID: row.int64(3)),
          kind: SegmentRow.Kind(rawValue: row.int64(4)) ?? .gap, id: row.int64OrNil(5),
          reason: row.int64OrNil(6), state: row.int64OrNil(7), estimatedMissing: row.int64OrNil(8),
          confirmedAt: row.int64OrNil(9), generation: row.int64OrNil(10), isUnverified: row.bool(11)))
    }
  }
}

extension CacheWriter {
  /// Writes the differences and appends their events: messages that became visible, gaps that came, went,
  /// changed or became huge (B26, B28).
  func save(
    _ coverage: Coverage, over old: Coverage, of channel: ChannelKey, _ source: ChangeSource
  ) throws {
    guard try keep(coverage, over: old, of: channel) else { return }
    let isTold = try tellUncovered(coverage, since: old, of: channel, source)
    try tell(coverage, over: old, of: channel, source, messagesAreTold: isTold)
    try tell(coverage.tail, over: old.tail, of: channel)
  }

  /// Appends an event for open views if the newest end is confirmed again. A first confirmation needs none:
  /// it comes with the answer that a view waits for.
  func tell(_ tail: Tail, over old: Tail, of channel: ChannelKey) throws {
    guard tail.confirmedAt != nil, old.confirmedAt != nil, tail.generation != old.generation else { return }
    let hasViews = try db.reading.first("SELECT 1 FROM collection WHERE channel = ?1 LIMIT 1") {
      $0.bind(1, channel.rawValue)
    } _: { _ in
      true
    }
    if hasViews ?? false { try append(Change(.tailConfirmed, .channelRefresh, channel: channel)) }
  }

  /// Writes the differences without events. Returns whether anything was written.
  @discardableResult
  func keep(_ coverage: Coverage, over old: Coverage, of channel: ChannelKey) throws -> Bool {
    let stored = try reader.segmentRows(of: channel)
    let isSound = stored.isEmpty || Coverage(rows: stored) != nil
    if !isSound {
      try db.run("DELETE FROM segment WHERE channel = ?1") { $0.bind(1, channel.rawValue) }
    }
    let isNew = stored.isEmpty || !isSound
    let changes = coverage.changes(from: old)
    if changes.isEmpty && !isNew { return false }
    for position in changes.removed where !isNew { try remove(segmentAt: position, of: channel) }
    for row in isNew ? coverage.rows : changes.written { try write(row, of: channel) }
    return true
  }

  private func tell(
    _ coverage: Coverage, over old: Coverage, of channel: ChannelKey, _ source: ChangeSource,
    messagesAreTold: Bool
  ) throws {
    let before = Dictionary(uniqueKeysWithValues: old.gaps.map { ($0.gap?.id ?? 0, $0) })
    let after = Dictionary(uniqueKeysWithValues: coverage.gaps.map { ($0.gap?.id ?? 0, $0) })
    for (id, segment) in (before.merging(after) { $1 }).sorted(by: { $0.key < $1.key })
    where before[id] != after[id] {
      let wasHuge = before[id]?.gap?.state == .huge
      let isHuge = after[id]?.gap?.state == .huge
      var change = Change(isHuge && !wasHuge ? .hugeGap : .coverage, source, channel: channel)
      change.stretch = before[id].map { unite($0.range, segment.range) } ?? segment.range
      change.reference = String(id)
      // A new or grown gap hides messages, and only its own change tells of that.
      if messagesAreTold, let was = before[id]?.range, segment.range.clamped(to: was) == segment.range {
        change.detail = Change.messagesAreTold
      }
      if before[id]?.gap?.reason == .evicted, before[id]?.range != after[id]?.range {
        change.detail = Change.cachedAgain
      }
      try append(change)
    }
  }

  private func unite(_ one: ClosedRange<Position>, _ other: ClosedRange<Position>) -> ClosedRange<Position> {
    min(one.lowerBound, other.lowerBound)...max(one.upperBound, other.upperBound)
  }

  private func remove(segmentAt position: Position, of channel: ChannelKey) throws {
    try db.run("DELETE FROM segment WHERE channel = ?1 AND lo_at = ?2 AND lo_id = ?3") {
      $0.bind(1, channel.rawValue)
      $0.bind(2, position.createdAt)
      $0.bind(3, position.messageID)
    }
  }

  func write(_ row: SegmentRow, of channel: ChannelKey) throws {
    try db.run(
      """
      INSERT INTO segment (
        channel, lo_at, lo_id, hi_at, hi_id, kind, id, reason, state, estimated_missing, confirmed_at,
        generation, is_unverified
      )
      VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)
      ON CONFLICT (channel, lo_at, lo_id) DO UPDATE
      SET hi_at = excluded.hi_at, hi_id = excluded.hi_id, kind = excluded.kind, id = excluded.id,
        reason = excluded.reason, state = excluded.state, estimated_missing = excluded.estimated_missing,
        confirmed_at = excluded.confirmed_at, generation = excluded.generation,
        is_unverified = excluded.is_unverified
      """
    ) {
      $0.bind(1, channel.rawValue)
      $0.bind(2, row.lo.createdAt)
      $0.bind(3, row.lo.messageID)
      $0.bind(4, row.hi.createdAt)
      $0.bind(5, row.hi.messageID)
      $0.bind(6, row.kind.rawValue)
      $0.bind(7, row.id)
      $0.bind(8, row.reason)
      $0.bind(9, row.state)
      $0.bind(10, row.estimatedMissing)
      $0.bind(11, row.confirmedAt)
      $0.bind(12, row.generation)
      $0.bind(13, row.isUnverified)
    }
  }
}
