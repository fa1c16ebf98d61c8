import ChatModel

/// What is known of a channel's line.
package struct ChannelLine: Sendable, Equatable {
  /// The newest covered message, nil where nothing is covered.
  package var newest: Position?
  /// The oldest message of the newest covered stretch, and how many it has.
  package var oldest: Position?
  /// Messages of that stretch.
  package var rows = 0
  /// Whether that stretch begins where the channel begins.
  package var reachesBeginning = false
  /// Whether a listing reached the end from that stretch once: what came after it was missed, and is not just
  /// never loaded (B28).
  package var reachedEnd = false
  /// Whether right below that stretch lies a huge gap, which nothing fills by itself (B28), or one that
  /// somebody asked to fill: prefetch would shrink that gap, and it would be told as huge a second time.
  package var isAboveHugeGap = false
  /// Whether what lies right below that stretch was evicted: it is fetched when somebody asks for it, never
  /// ahead (B33). Without a covered stretch: whether all up to the newest end was.
  package var isAboveEvicted = false
  /// The newest position that was known where all up to it was evicted.
  package var evictedEnd: Position?
  /// Where its changelog goes on, nil where it was never begun.
  package var changes: ChangesSince?
  /// The newest stretch in which changes may have been missed.
  package var unverified: ClosedRange<Position>?
  /// How many messages are stored in it, as far as anybody asks.
  package var unverifiedRows = 0
  /// Gaps that somebody may ask to fill, by name: the covered message before each.
  package var gaps: [Int64: ClosedRange<Position>] = [:]

  /// A channel of which nothing is covered.
  package init() {}

  /// Whether the newest stretch is as long as prefetching wants it, or as it may become by itself (B28).
  package func isPrefetched(_ messages: Int) -> Bool {
    reachesBeginning || isAboveHugeGap || isAboveEvicted || (newest != nil && rows >= messages)
  }
}

/// What decides whether a channel is prefetched or verified.
package struct ChannelOverview: Sendable, Equatable {
  /// The channel.
  package let url: ChannelURL
  /// The newest message's time, 0 without one.
  package let lastMessageAt: Int64
  /// What is covered of it.
  package let line: ChannelLine

  /// What is known of one channel.
  package init(url: ChannelURL, lastMessageAt: Int64, line: ChannelLine) {
    self.url = url
    self.lastMessageAt = lastMessageAt
    self.line = line
  }
}

/// A channel that sync met, with what decides whether its messages are asked for.
package struct ChannelActivity: Sendable, Hashable {
  /// The channel.
  package let url: ChannelURL
  /// The newest message's time, 0 without one.
  package let lastMessageAt: Int64
  /// Whether its newest message is not the one the cache covers.
  package let isBehind: Bool

  /// A channel that was met.
  package init(url: ChannelURL, lastMessageAt: Int64, isBehind: Bool) {
    self.url = url
    self.lastMessageAt = lastMessageAt
    self.isBehind = isBehind
  }
}

/// Where channels came from.
package enum ChannelOrigin: Sendable, Equatable {
  /// A page of a first listing or sweep of that number.
  case listing(sweep: Int64)
  /// The channel changelog; the token is stored in the same commit.
  case changelog(deleted: [ChannelURL], next: SyncToken?)
  /// The first page by last message.
  case top
  /// The channel was asked for by name.
  case refresh(ChangeSource)
}
