import ChatModel
import SQLite

// A gap may hide many messages that are stored already. When it closes they all become visible at once, and
// a single change of the log would name all of them. An answer can only end between two changes (B49). So
// several changes of bounded size name them first.

extension CacheWriter {
  /// Appends changes for the messages that were stored before this commit and become visible with it, if they
  /// are too many for one. False: one change is enough, and none was appended.
  func tellUncovered(
    _ coverage: Coverage, since old: Coverage, of channel: ChannelKey, _ source: ChangeSource
  ) throws -> Bool {
    var slices: [MessageSlice] = []
    for stretch in coverage.uncovered(since: old) {
      slices += try self.slices(of: stretch, in: channel, upTo: lastCommitted)
    }
    guard slices.count > 1 else { return false }
    for slice in slices {
      var change = Change(.messages, source, channel: channel)
      change.stretch = slice.stretch
      change.detail = Change.uncovers
      try append(change)
    }
    return true
  }

  /// The messages of a stretch whose versions go up to `version`, divided among as few changes as possible.
  func slices(
    of stretch: ClosedRange<Position>, in channel: ChannelKey, upTo version: Int64
  ) throws -> [MessageSlice] {
    var rows = try db.reading.rows(
      """
      SELECT
        created_at, message_id,
        length(body) + coalesce(length(reactions), 0) + coalesce(length(metaarray), 0)
          + coalesce(length(thread_info), 0) + coalesce(length(parent), 0)
      FROM message
      WHERE channel = ?1
        AND (created_at, message_id) >= (?2, ?3)
        AND (created_at, message_id) <= (?4, ?5)
        AND version <= ?6
      ORDER BY created_at, message_id
      """
    ) {
      CacheReader.bind($0, stretch, channel)
      $0.bind(6, version)
    }
    var slices: [MessageSlice] = []
    while let row = try rows.next() {
      let position = Position(createdAt: row.int64(0), messageID: row.int64(1))
      if slices.isEmpty || !slices[slices.count - 1].take(position, bytes: row.int64(2)) {
        slices.append(MessageSlice(position, bytes: row.int64(2)))
      }
    }
    return slices
  }
}

/// Neighbouring messages of which one change tells.
struct MessageSlice {
  private(set) var stretch: ClosedRange<Position>
  private var rows = 1
  private var bytes: Int64

  fileprivate init(_ position: Position, bytes: Int64) {
    stretch = position...position
    self.bytes = bytes
  }

  /// Adds one more message. False: it does not fit.
  fileprivate mutating func take(_ position: Position, bytes more: Int64) -> Bool {
    guard rows < Limits.changeMessages, bytes + more <= Limits.changeBytes else { return false }
    rows += 1
    bytes += more
    stretch = stretch.lowerBound...position
    return true
  }
}

extension Coverage {
  /// The stretches whose messages this coverage shows, and `old` did not.
  func uncovered(since old: Coverage) -> [ClosedRange<Position>] {
    let (now, shown) = (gaps, segments.filter { $0.gap == nil })
    return old.gaps.filter { !now.contains($0) }.flatMap { gap in
      shown.filter { $0.range.overlaps(gap.range) }.map { $0.range.clamped(to: gap.range) }
    }
  }
}
