import ChatModel

/// The coverage of a channel, as far as the plan needs it.
package struct ChannelLine: Sendable, Equatable {
  /// The newest covered message, nil where nothing is covered.
  package var newest: Position?
  /// The oldest message of the newest covered stretch.
  package var oldest: Position?
  /// The number of messages in that stretch.
  package var rows = 0
  /// Whether that stretch begins at the channel's beginning. Without a covered stretch: whether the channel
  /// is known to have had no messages.
  package var reachesBeginning = false
  /// Whether a gap follows that stretch, so that newer messages may be missing: a page in the middle of a
  /// channel was stored, and its newest page was not.
  package var isBelowGap = false
  /// Whether a listing once reached the newest end from that stretch. Messages after it were then missed, and
  /// not just never loaded (B28).
  package var reachedEnd = false
  /// Whether the gap right before that stretch is huge (B28), or is one that a client asked to fill. Prefetch
  /// leaves such a gap alone: it would shrink the gap, which would be told as huge a second time.
  package var isAboveHugeGap = false
  /// Whether the messages right before that stretch were evicted: they are fetched when a client asks for
  /// them, never prefetched (B33). Without a covered stretch: whether all messages up to the newest end were
  /// evicted.
  package var isAboveEvicted = false
  /// The newest known position, if all messages up to it were evicted.
  package var evictedEnd: Position?
  /// The time or token from which the channel's changelog goes on; nil if it was never read.
  package var changes: ChangesSince?
  /// The newest stretch in which changes may have been missed.
  package var unverified: ClosedRange<Position>?
  /// The number of messages stored in `unverified`; 0 if it was not counted.
  package var unverifiedRows = 0
  /// The gaps that a client may ask to fill, by id: the stretch of each.
  package var gaps: [Int64: ClosedRange<Position>] = [:]

  /// The most messages of a stretch that are counted unless the caller needs fewer.
  package static let mostCounted = 100_000

  /// A channel of which nothing is covered.
  package init() {}

  /// The position after which messages may have been missed: the newest covered message, or the beginning of
  /// a channel that had no messages. Nil: nothing is covered.
  package var coveredEnd: Position? { newest ?? (reachesBeginning ? .start : nil) }

  /// Whether the newest stretch reaches the newest end, and is as long as prefetching wants it, or as it may
  /// become by itself (B28).
  package func isPrefetched(_ messages: Int) -> Bool {
    if isAboveEvicted { return true }
    return !isBelowGap && (reachesBeginning || isAboveHugeGap || (newest != nil && rows >= messages))
  }
}

/// The values that decide whether a channel is prefetched or verified.
package struct ChannelOverview: Sendable, Equatable {
  /// The channel.
  package let key: ChannelKey
  /// The channel's url.
  package let url: ChannelURL
  /// The newest message's time, 0 without one.
  package let lastMessageAt: Int64
  /// When its messages were last read here (wall ms), 0 for never.
  package let usedAt: Int64
  /// The channel's coverage.
  package let line: ChannelLine

  /// The overview of one channel.
  package init(
    key: ChannelKey, url: ChannelURL, lastMessageAt: Int64, usedAt: Int64 = 0, line: ChannelLine
  ) {
    self.usedAt = usedAt
    self.key = key
    self.url = url
    self.lastMessageAt = lastMessageAt
    self.line = line
  }
}

/// A channel that a listing of channels contained, with the values that decide whether its messages are
/// fetched.
package struct ChannelActivity: Sendable, Hashable {
  /// The channel.
  package let url: ChannelURL
  /// The newest message's time, 0 without one.
  package let lastMessageAt: Int64
  /// Whether its newest message is not the one the cache covers.
  package let isBehind: Bool

  /// The activity of one channel.
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
  /// The channel changelog; the token is stored in the same commit. `asked`: the cache when it was asked for.
  case changelog(deleted: [ChannelURL], next: SyncToken?, asked: ChannelRecord.Asked? = nil)
  /// The first page by last message.
  case top
  /// The channel was asked for by name.
  case refresh(ChangeSource)
}
