import ChatModel
import SQLite

// Evicts messages, a slice in each commit: rows, coverage, counts and the threads' coverage change together,
// so that the channel is consistent wherever the pass stops (B57).
//
// The evicted stretch becomes a gap `evicted`, which readers see at once. The log gets one event per channel
// and pass: `meta` (`untold_eviction`) has the stretch without an event, and the commit that begins the next
// channel, or ends the pass, writes it. So a stop in between loses nothing.

/// What a slice did.
struct EvictedSlice: Sendable, Equatable {
  /// How it ended.
  var outcome: EvictionPlan.Outcome
  /// The evicted messages, and their bytes.
  var messages: Int64 = 0
  var bytes: Int64 = 0
}

/// The evicted stretch of a channel that has no event yet.
struct UntoldEviction: Sendable, Equatable {
  var channel: ChannelKey
  var stretch: ClosedRange<Position>

  init(channel: ChannelKey, stretch: ClosedRange<Position>) {
    self.channel = channel
    self.stretch = stretch
  }

  /// Reads what `stored` wrote.
  init?(stored: String) {
    let words = stored.split(separator: " ")
    guard words.count == 3, let channel = Int64(words[0]), let from = Position(words[1]),
      let to = Position(words[2]), from <= to
    else { return nil }
    self.init(channel: ChannelKey(channel), stretch: from...to)
  }

  /// As `meta` has it.
  var stored: String { "\(channel.rawValue) \(stretch.lowerBound) \(stretch.upperBound)" }
}

extension CacheReader {
  /// Whether a pass began that has not ended.
  func isEvicting() throws -> Bool { try db.meta(.evicting) != nil }

  fileprivate func untoldEviction() throws -> UntoldEviction? {
    try db.metaText(.untoldEviction).flatMap { UntoldEviction(stored: $0) }
  }
}

extension CacheWriter {
  /// Evicts a slice of a channel's messages.
  func evict(_ slice: EvictionSlice) throws -> EvictedSlice {
    let channel = slice.channel
    guard let accessedAt = try reader.accessedAt(channel) else { return EvictedSlice(outcome: .exhausted) }
    guard accessedAt == slice.accessedAt else { return EvictedSlice(outcome: .accessed) }
    var going: EvictedMessages?
    for free in try reader.sparedPositions(in: channel).free where going == nil {
      going = try reader.oldestMessages(of: free, in: channel, atMost: slice.rows)
    }
    guard let going else { return EvictedSlice(outcome: .exhausted) }
    let members = max(2, slice.rows / 16)
    guard try countEvicted(going.stretch.upperBound, in: channel, members: members) else {
      return EvictedSlice(outcome: .more)
    }
    try noteEvicting(going.stretch, in: channel)
    let old = try reader.coverage(of: channel)
    var coverage = old
    coverage.evict(going.stretch)
    try keep(coverage, over: old, of: channel)
    try cutThreads(going, in: channel)
    try removeEvicted(going, from: channel)
    return EvictedSlice(outcome: .more, messages: going.rows, bytes: going.bytes)
  }

  /// Ends the pass, and appends the event of its last channel.
  func endEvicting() throws {
    try tellEviction()
    try db.remove(.evicting)
  }

  private func noteEvicting(_ stretch: ClosedRange<Position>, in channel: ChannelKey) throws {
    var untold = UntoldEviction(channel: channel, stretch: stretch)
    if let before = try reader.untoldEviction() {
      if before.channel == channel {
        untold.stretch =
          min(
            before.stretch.lowerBound, stretch.lowerBound)...max(
            before.stretch.upperBound, stretch.upperBound)
      } else {
        try tellEviction()
      }
    } else {
      try db.set(.evicting, 1)
    }
    try db.set(.untoldEviction, untold.stored)
  }

  /// Appends one event for all that the pass evicted of a channel. Its reader looks up the coverage.
  private func tellEviction() throws {
    guard let untold = try reader.untoldEviction() else { return }
    try db.remove(.untoldEviction)
    guard try reader.url(of: untold.channel) != nil else { return }
    let gap = try reader.coverage(of: untold.channel).evictedGaps(in: untold.stretch).last?.gap
    guard let gap else { return }
    var change = Change(.coverage, .channelRefresh, channel: untold.channel)
    change.stretch = untold.stretch
    change.reference = String(gap.id)
    change.detail = Change.evicts
    try append(change)
  }

  /// Removes the evicted replies from the coverage of their threads.
  private func cutThreads(_ going: EvictedMessages, in channel: ChannelKey) throws {
    for parent in going.parents {
      let old = try reader.threadCoverage(of: channel, parent)
      var thread = old
      thread.cut(going.stretch)
      if thread != old { try save(thread, of: channel, parent) }
    }
  }

  private func removeEvicted(_ going: EvictedMessages, from channel: ChannelKey) throws {
    try db.run(
      """
      DELETE FROM doubted
      WHERE channel = ?1 AND message_id IN (
        SELECT message_id
        FROM message
        WHERE channel = ?1
          AND (created_at, message_id) >= (?2, ?3)
          AND (created_at, message_id) <= (?4, ?5))
      """
    ) { CacheReader.bind($0, going.stretch, channel) }
    noteMessagesDeleted(in: channel)
    try db.run(
      """
      DELETE FROM message
      WHERE channel = ?1
        AND (created_at, message_id) >= (?2, ?3)
        AND (created_at, message_id) <= (?4, ?5)
      """
    ) { CacheReader.bind($0, going.stretch, channel) }
    let last = going.stretch.upperBound
    // If no message is left, no change of one matters: the changelog begins anew.
    try db.run(
      """
      UPDATE channel
      SET
        cached_messages = cached_messages - ?2,
        cached_bytes = cached_bytes - ?3,
        message_token = iif(cached_messages <= ?2, NULL, message_token),
        evicted_version = max(evicted_version, ?6),
        evicted_at = iif((evicted_at, evicted_id) > (?4, ?5), evicted_at, ?4),
        evicted_id = iif((evicted_at, evicted_id) > (?4, ?5), evicted_id, ?5)
      WHERE id = ?1
      """
    ) {
      $0.bind(1, channel.rawValue)
      $0.bind(2, going.rows)
      $0.bind(3, going.bytes)
      $0.bind(4, last.createdAt)
      $0.bind(5, last.messageID)
      $0.bind(6, going.version)
    }
    try noteKnown(to: last, in: channel)
  }
}

extension CacheReader {
  /// Whether evicted messages may have been newer than an answer that was requested at `mark` and has
  /// messages at `positions`. Then the answer is out of date.
  func wasEvicted(
    _ positions: some Collection<Position>, of channel: ChannelKey, since mark: Int64
  ) throws -> Bool {
    guard let oldest = positions.min() else { return false }
    return try db.first(
      """
      SELECT 1
      FROM channel
      WHERE id = ?1 AND evicted_version > ?2 AND (evicted_at, evicted_id) >= (?3, ?4)
      """
    ) {
      $0.bind(1, channel.rawValue)
      $0.bind(2, mark)
      $0.bind(3, oldest.createdAt)
      $0.bind(4, oldest.messageID)
    } _: { _ in
      true
    } ?? false
  }

  /// When the channel was last opened or read; nil: the channel does not exist.
  fileprivate func accessedAt(_ channel: ChannelKey) throws -> Int64? {
    try db.first("SELECT accessed_at FROM channel WHERE id = ?1") {
      $0.bind(1, channel.rawValue)
    } _: {
      $0.int64(0)
    }
  }
}

extension Coverage {
  /// Turns `range` into gaps, in the transaction that evicts its messages (B57). A gap that is there keeps
  /// its reason. `range` ends at a message.
  package mutating func evict(_ range: ClosedRange<Position>) {
    for segment in segments where segment.gap == nil && segment.range.overlaps(range) {
      carve(segment.range.clamped(to: range))
    }
  }

  /// The evicted gaps that lie in `range`, or reach into it.
  package func evictedGaps(in range: ClosedRange<Position>) -> [Segment] {
    gaps.filter { $0.gap?.reason == .evicted && $0.range.overlaps(range) }
  }
}

extension ThreadCoverage {
  /// Removes `range`, whose replies were evicted.
  mutating func cut(_ range: ClosedRange<Position>) {
    let newest = stretches.last?.upperBound
    stretches = stretches.flatMap { stretch in
      guard stretch.overlaps(range) else { return [stretch] }
      var left: [ClosedRange<Position>] = []
      if stretch.lowerBound < range.lowerBound {
        left.append(stretch.lowerBound...range.lowerBound.previous)
      }
      if stretch.upperBound > range.upperBound { left.append(range.upperBound.next...stretch.upperBound) }
      return left
    }
    // The tail begins after the newest stretch. If that has another end now, the tail is unconfirmed.
    if stretches.last?.upperBound != newest { tail = .unconfirmed }
  }
}
