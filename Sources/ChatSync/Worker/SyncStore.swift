import ChatCache
import ChatModel

/// What the worker needs from the cache. Declared here because the worker needs it; the cache's owner fulfils
/// it.
///
/// Every writing call is one commit: rows, coverage, place in the changelog and events together, durable when
/// it returns. Calls may be repeated with the same content: applying something twice changes nothing (B21).
package protocol SyncStore: Sendable {
  /// The event log's last sequence. Taken before a request goes out and given back with its answer, so that
  /// rows changed meanwhile are spared (B27).
  func mark() -> Int64

  // MARK: Users and link

  /// Everybody who ever connected here and was not removed.
  func knownUsers() throws -> [KnownUser]
  /// Capabilities that were probed and found missing.
  func missingCapabilities() throws -> [Capability]
  /// Remembers that the upstream does not offer this (B32).
  func learn(missing capability: Capability) async throws
  /// The upstream knows the user: makes or reopens the user's partition.
  func acknowledge(_ user: UserID) async throws
  /// The upstream said twice that the user is gone (B5).
  func close(_ user: UserID) async throws
  /// One event for everybody, and the link's generation for the tails (B3, B25).
  func announce(_ state: Link.State, generation: Int64) async throws

  // MARK: Channels

  /// Stores channels as `user` sees them and says how far each one's messages are behind.
  func store(
    _ channels: [ChannelRecord], of user: UserID, _ origin: ChannelOrigin
  ) async throws -> [ChannelActivity]
  /// The user's channels that the sweep of that number did not meet.
  func unmet(by sweep: Int64, of user: UserID) throws -> [ChannelURL]
  /// All pages of the user's channels are stored (B11).
  func endListing(of user: UserID) async throws
  /// The place in the user's channel changelog.
  func channelToken(of user: UserID) throws -> SyncToken?
  /// The user is no member any more (B69).
  func removeMembership(of user: UserID, in url: ChannelURL, _ source: ChangeSource) async throws
  /// The connected users who are members.
  func connectedMembers(of url: ChannelURL) throws -> [UserID]
  /// The channels of all connected users with what decides about their prefetch.
  func overview() throws -> [ChannelOverview]

  // MARK: Messages

  /// What is known of the channel's line; nil where the channel is unknown.
  func line(of url: ChannelURL) throws -> ChannelLine?
  /// Stores listings in order, with the coverage they claim, and deletes what they prove gone (B24, B27).
  func store(_ listings: [MessageListing], in url: ChannelURL, _ context: ListingContext) async throws
  /// Stores a page of the channel's changelog and its place in one commit (B31).
  func store(
    _ changes: UpstreamChanges<MessageRecord, Int64>, in url: ChannelURL, _ source: ChangeSource
  ) async throws
  /// Stores one message that was asked for by name.
  func store(_ message: MessageRecord, in url: ChannelURL, _ source: ChangeSource) async throws
  /// The upstream has no such message any more.
  func delete(message id: Int64, in url: ChannelURL, _ source: ChangeSource) async throws
  /// Changes may have been missed: everything covered is to be listed again, and the changelog's place is
  /// forgotten (B31). The next listing that is stored begins it anew at its newest message's time: by the
  /// upstream's own clock, and early enough for every row stored since.
  func doubt(_ url: ChannelURL) async throws
  /// The first page of these views was fetched, or could not be (B16).
  func answered(views: [String], in url: ChannelURL, failure: UpstreamError?) async throws

  // MARK: Doorbells

  /// What rang and was not answered yet.
  func dueDoorbells() throws -> [Webhook.Doorbell]
  /// What a doorbell named is in the cache.
  func settled(_ kind: Webhook.Doorbell.Kind, in url: ChannelURL, message: Int64) async throws
}

/// A user as the cache remembers one.
package struct KnownUser: Sendable, Equatable {
  /// Who.
  package let id: UserID
  /// Whether all channels were listed once (B11).
  package let isSynced: Bool
  /// Whether only `PUT /v1/connection` brings the user back (B4).
  package let isStopped: Bool

  /// A user the cache knows.
  package init(id: UserID, isSynced: Bool, isStopped: Bool) {
    self.id = id
    self.isSynced = isSynced
    self.isStopped = isStopped
  }
}

/// Where channels came from.
package enum ChannelOrigin: Sendable, Equatable {
  /// A page of a first listing or sweep of that number.
  case listing(sweep: Int64)
  /// The channel changelog; the place is stored in the same commit.
  case changelog(deleted: [ChannelURL], next: SyncToken?)
  /// The first page by last message.
  case top
  /// The channel was asked for by name.
  case refresh(ChangeSource)
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
  /// Whether a huge gap lies right below that stretch: nothing fills it by itself (B28).
  package var isAboveHugeGap = false
  /// Where its changelog goes on, nil where it was never begun.
  package var changes: ChangesSince?
  /// The newest stretch in which changes may have been missed.
  package var unverified: ClosedRange<Position>?
  /// Gaps that somebody may ask to fill, by name: the covered message before each.
  package var gaps: [Int64: ClosedRange<Position>] = [:]

  /// A channel of which nothing is covered.
  package init() {}

  /// Whether the newest stretch is as long as prefetching wants it.
  package func isPrefetched(_ messages: Int) -> Bool {
    reachesBeginning || (newest != nil && rows >= messages)
  }
}

/// An authoritative listing and its rows.
package struct MessageListing: Sendable, Equatable {
  /// What was asked.
  package var window: MessageWindow
  /// What came.
  package var rows: [MessageRecord]
  /// Whether every item could be read: only then does absence prove anything (B35).
  package var isWhole: Bool
  /// The log's sequence when the request went out (B27).
  package var askedAt: Int64
}

/// Why listings are stored.
package struct ListingContext: Sendable, Equatable {
  /// What the events are called (B20).
  package var source: ChangeSource
  /// The link's generation when the listing was asked for; a listing of the newest end confirms the tail
  /// under it.
  package var generation: Int64
  /// More are missing than are filled by themselves: so many at least (B28).
  package var hugeMissing: Int?
}
