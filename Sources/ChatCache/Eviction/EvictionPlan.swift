import ChatModel

// Which messages go next while the cache is too large, as values without a database or a clock (B56, B57).
//
// Channels go one after the other, in the order that the operator chose; inside a channel the oldest messages
// go first, so its newest page goes last. A channel that is opened while its turn comes loses its turn.

/// A channel whose messages may be evicted.
struct EvictionCandidate: Sendable, Equatable {
  /// Its row.
  let key: ChannelKey
  /// What the order compares.
  let channel: CachedChannel
}

extension CachedChannel {
  /// Whether the messages of this channel go before those of `other`, by that order. Channels that are equal
  /// in it are ordered by their last messages, the older first, and then by their urls.
  func goes(before other: CachedChannel, by order: [CacheLimit.Term]) -> Bool {
    for term in order {
      guard let isBefore = differs(from: other, in: term.field) else { continue }
      return isBefore != term.isDescending
    }
    if let isBefore = differs(from: other, in: .lastMessageAt) { return isBefore }
    return url.text.utf8.lexicographicallyPrecedes(other.url.text.utf8)
  }

  /// Whether the field's value here is the smaller one; nil: the values are equal.
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

/// What one commit is to evict.
struct EvictionSlice: Sendable, Equatable {
  /// A slice ends with the message that makes it so large: large messages have pages of their own.
  static let enoughBytes: Int64 = 1 << 20
  /// Of which channel.
  let channel: ChannelKey
  /// When the channel was last opened or read, as the plan knows it: a channel that was opened since is left
  /// alone.
  let accessedAt: Int64
  /// How many messages at most.
  let rows: Int
}

/// One pass over the channels: candidates go in, the next slice comes out.
struct EvictionPlan: Sendable {
  /// How a slice ended.
  enum Outcome: Sendable, Equatable {
    /// The channel may have more messages that can go.
    case more
    /// Nothing that can go is left of the channel.
    case exhausted
    /// The channel was opened meanwhile, so its position in the order is another one.
    case accessed
  }

  private let order: [CacheLimit.Term]
  /// The candidates that wait, the next one last.
  private var waiting: [EvictionCandidate] = []
  /// Channels of which nothing more can go in this pass.
  private var exhausted: Set<ChannelKey> = []
  private var size = SliceSize()

  /// A pass in that order.
  init(_ order: [CacheLimit.Term]) { self.order = order }

  /// How many channels have nothing left: so many candidates more than wanted are to be read.
  var exhaustedCount: Int { exhausted.count }

  /// Takes in candidates. False: nothing of any of them can go.
  mutating func take(_ candidates: [EvictionCandidate]) -> Bool {
    let order = order
    waiting = candidates.filter { !exhausted.contains($0.key) }
    waiting.sort { $1.channel.goes(before: $0.channel, by: order) }
    return !waiting.isEmpty
  }

  /// What is to go next; nil: candidates are needed.
  var next: EvictionSlice? {
    waiting.last.map {
      EvictionSlice(channel: $0.key, accessedAt: $0.channel.accessedAt, rows: size.rows)
    }
  }

  /// The slice that `next` gave has ended; the writer was held for so long.
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

/// How many rows a slice has, so that it holds the writer for about the time wanted and never for long.
struct SliceSize: Sendable, Equatable {
  /// A slice is to take so long (ns): a quarter of what it may take at the longest.
  static let wantedNanoseconds: UInt64 = 4_000_000
  private static let bounds = 32...2048

  /// The rows of the next slice.
  private(set) var rows = 128

  /// The last slice held the writer for so long. Growing is slow, shrinking is not.
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
  /// In order; no two touch.
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

  /// What lies between them, oldest first: messages there may go.
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
