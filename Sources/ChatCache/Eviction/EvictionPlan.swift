import ChatModel

// Decides which messages are evicted next while the cache is too large (B56, B57). Values without a database
// or a clock.
//
// Channels go one after the other, in the order that the operator chose; inside a channel the oldest messages
// go first, so its newest page goes last. A channel that is used meanwhile loses its turn.

/// A channel whose messages may be evicted.
struct EvictionCandidate: Sendable, Equatable {
  /// The channel's row id.
  let key: ChannelKey
  /// The values that the order compares.
  let channel: CachedChannel
}

extension CachedChannel {
  /// Whether this channel's messages are evicted before those of `other`. Channels that are equal in `order`
  /// are compared by the time of their last messages, older first, and then by their urls.
  func goes(before other: CachedChannel, by order: [CacheLimit.Term]) -> Bool {
    for term in order {
      guard let isBefore = differs(from: other, in: term.field) else { continue }
      return isBefore != term.isDescending
    }
    if let isBefore = differs(from: other, in: .lastMessageAt) { return isBefore }
    return url.text.utf8.lexicographicallyPrecedes(other.url.text.utf8)
  }

  /// Whether this channel's value of the field is smaller than that of `other`; nil: the values are equal.
  private func differs(from other: CachedChannel, in field: CachedChannelOrder) -> Bool? {
    func less(_ own: Int64, _ others: Int64) -> Bool? { own == others ? nil : own < others }
    switch field {
    case .accessedAt: return less(accessedAt, other.accessedAt)
    case .messages: return less(messages, other.messages)
    case .bytes: return less(bytes, other.bytes)
    // A channel without messages comes before all others.
    case .lastMessageAt: return less(lastMessageAt ?? .min, other.lastMessageAt ?? .min)
    case .createdAt: return less(createdAt, other.createdAt)
    case .customType:
      guard !customType.hasSameBytes(as: other.customType) else { return nil }
      return customType.utf8.lexicographicallyPrecedes(other.customType.utf8)
    }
  }
}

/// The messages that one commit evicts.
struct EvictionSlice: Sendable, Equatable {
  /// A slice ends with the message that brings it to this many bytes. SQLite stores large messages on pages
  /// of their own, which cost more to delete.
  static let enoughBytes: Int64 = 1 << 20
  /// The channel.
  let channel: ChannelKey
  /// When the channel was last opened or read, as the plan knows it. A channel that was used since then is
  /// skipped.
  let accessedAt: Int64
  /// The most messages to evict.
  let rows: Int
}

/// One pass over the channels: candidates go in, the next slice comes out.
struct EvictionPlan: Sendable {
  /// How a slice ended.
  enum Outcome: Sendable, Equatable {
    /// The channel may have more messages to evict.
    case more
    /// The channel has no more messages to evict.
    case exhausted
    /// The channel was used meanwhile, so its position in the order has changed.
    case accessed
  }

  private let order: [CacheLimit.Term]
  /// The candidates that wait, the next one last.
  private var waiting: [EvictionCandidate] = []
  /// Channels without more messages to evict in this pass.
  private var exhausted: Set<ChannelKey> = []
  private var size = SliceSize()

  /// A pass in that order.
  init(_ order: [CacheLimit.Term]) { self.order = order }

  /// The number of exhausted channels. The reader of candidates may find all of them again, so it reads as
  /// many more.
  var exhaustedCount: Int { exhausted.count }

  /// Adds candidates. False: all of them are exhausted.
  mutating func take(_ candidates: [EvictionCandidate]) -> Bool {
    let order = order
    waiting = candidates.filter { !exhausted.contains($0.key) }
    waiting.sort { $1.channel.goes(before: $0.channel, by: order) }
    return !waiting.isEmpty
  }

  /// The next slice; nil: the plan needs more candidates.
  var next: EvictionSlice? {
    waiting.last.map {
      EvictionSlice(channel: $0.key, accessedAt: $0.channel.accessedAt, rows: size.rows)
    }
  }

  /// Notes how the slice from `next` ended, and how long it held the writer.
  mutating func ended(_ outcome: Outcome, nanoseconds: UInt64) {
    guard let candidate = waiting.last else { return }
    size.took(nanoseconds)
    switch outcome {
    case .more: break
    case .exhausted:
      exhausted.insert(candidate.key)
      waiting.removeLast()
    case .accessed: waiting.removeLast()
    }
  }
}

/// The number of rows in a slice, adapted so that a slice holds the writer for about `wantedNanoseconds`.
struct SliceSize: Sendable, Equatable {
  /// The time a slice should take (ns): a quarter of the longest time allowed.
  static let wantedNanoseconds: UInt64 = 4_000_000
  private static let bounds = 32...2048

  /// The rows of the next slice.
  private(set) var rows = 128

  /// Adapts to the time that the last slice held the writer. Slices grow slowly and shrink fast.
  mutating func took(_ nanoseconds: UInt64) {
    if nanoseconds > SliceSize.wantedNanoseconds {
      let ratio = Double(SliceSize.wantedNanoseconds) / Double(nanoseconds)
      rows = max(SliceSize.bounds.lowerBound, Int(Double(rows) * ratio))
    } else if nanoseconds < SliceSize.wantedNanoseconds / 2 {
      rows = min(SliceSize.bounds.upperBound, rows + rows / 4 + 1)
    }
  }
}

/// Positions of a channel's line whose messages are not evicted: the windows of open views, and messages that
/// are withheld (B57).
struct SparedPositions: Sendable, Equatable {
  /// The ranges in order, with a distance between each two.
  private(set) var ranges: [ClosedRange<Position>] = []

  /// The union of these.
  init(_ spared: [ClosedRange<Position>] = []) {
    for range in spared.sorted(by: { $0.lowerBound < $1.lowerBound }) {
      if let last = ranges.last, last.upperBound.next >= range.lowerBound {
        ranges[ranges.count - 1] = last.lowerBound...max(last.upperBound, range.upperBound)
      } else {
        ranges.append(range)
      }
    }
  }

  /// The ranges between them, oldest first: their messages may be evicted.
  var free: [ClosedRange<Position>] {
    var found: [ClosedRange<Position>] = []
    var start: Position? = .start
    for range in ranges {
      if let from = start, from < range.lowerBound { found.append(from...range.lowerBound.previous) }
      start = range.upperBound < .end ? range.upperBound.next : nil
    }
    if let start { found.append(start ... .end) }
    return found
  }
}
