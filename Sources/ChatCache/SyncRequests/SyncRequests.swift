import ChatModel

/// The requests of routes and collections to the sync worker: they ask for fresher data, never for the data
/// itself. The port is declared here, the sync worker implements it, and the executable connects both.
///
/// How a request uses it:
///
/// 1. `seen` once for every request of a user, before anything is answered. It is a look into a table.
///    `.admitted`: answer from the cache. `.undecided`: nothing is known of the user yet, park and `admit`.
///    `.refused`: answer the error.
/// 2. Read the cache. If what was read is not wholly covered, or the tail is not live by `link` and
///    `pollInterval`, park and `fetch` what is missing; when it comes back, whatever it says, read the cache
///    again and answer. `ReadThrough` decides what is missing and counts the pages (B15).
/// 3. Views tell when they are opened, moved and closed. Their first answer is an event of the log
///    (`collectionAnswered`, `collectionFailed`), so that it cannot be lost between two requests (B16).
///
/// No call blocks, whatever the upstream does. Every `then` is called exactly once, on any thread, maybe
/// before the call returns, and no later than the milliseconds given (`within`); what was begun goes on
/// afterwards, and what it brings will be in the cache. It must be quick: wake a parked request, no more.
/// Identical requests under way are one request upstream.
package protocol SyncRequests: Sendable {
  // MARK: Status, from memory

  /// The one link to the upstream.
  var link: LinkStatus { get }

  /// How often the channel is looked at (ms): what judges whether its tail is live (B25).
  func pollInterval(of channel: ChannelURL) -> Int64

  /// The user's status; nobody of that name was ever seen: `connecting`.
  func connection(of user: UserID) -> UserConnection

  // MARK: Users

  /// A request of the user came: wakes an idle one, connects one that never was (B2, B4).
  func seen(_ user: UserID) -> Admission

  /// Waits for the upstream's word on a user of whom nothing is cached.
  func admit(
    _ user: UserID, within milliseconds: Int,
    then: @escaping @Sendable (Result<UserConnection, SyncError>) -> Void)

  /// `PUT /v1/connection`: connects the user whatever was before, tries an offline link at once, and waits
  /// for the outcome (B2); with 0 ms it answers the status of now.
  func connect(
    _ user: UserID, within milliseconds: Int,
    then: @escaping @Sendable (Result<UserConnection, SyncError>) -> Void)

  /// `DELETE /v1/connection`: stops working for the user; durable when `then` is called (B4).
  func disconnect(_ user: UserID, then: @escaping @Sendable (Result<Void, SyncError>) -> Void)

  /// `DELETE /v1/connection?clear=true`: stops working for the user and removes all that is the user's own,
  /// durable when `then` is called. Where something is unsent and `isForced` is not set, nothing happens and
  /// `then` is told how much; else 0 (B4).
  func forget(
    _ user: UserID, isForced: Bool, then: @escaping @Sendable (Result<Int64, SyncError>) -> Void)

  /// Something was accepted for sending, changed or taken back in that lane: it is sent as soon as the link
  /// allows, and an offline link is tried at once (B3). May be called on the writer's thread, after the
  /// commit.
  func accepted(of user: UserID, in channel: ChannelURL)

  // MARK: Fresher data

  /// Messages that a request misses (B15). One upstream page per request; an HTTP request makes at most
  /// `Limits.upstreamPagesPerRequest` of them.
  func fetch(
    _ wanted: MessageSyncRequest, within milliseconds: Int, then: @escaping @Sendable (SyncOutcome) -> Void)

  /// The user's list of channels: the next page of the first listing's beginning, else what changed (B11).
  func fetchChannels(
    of user: UserID, within milliseconds: Int, then: @escaping @Sendable (SyncOutcome) -> Void)

  /// The members of these channels, each list from its beginning to its end.
  func fetchMembers(
    of channels: [ChannelURL], within milliseconds: Int, then: @escaping @Sendable (SyncOutcome) -> Void)

  /// Asks the upstream for a channel the cache does not know. True: the user is in it and it is in the cache
  /// now. After the user's first sync nobody is asked and it is false at once (B1). While the upstream cannot
  /// be asked: `notSynced`, alike for every unknown url.
  func find(
    _ channel: ChannelURL, as user: UserID, within milliseconds: Int,
    then: @escaping @Sendable (Result<Bool, SyncError>) -> Void)

  // MARK: Gaps

  /// A client wants that gap filled; events `gap.changed` tell the progress (B28).
  func fill(gap: Int64, in channel: ChannelURL)

  /// No client wants it filled any more; the filled part stays.
  func stopFilling(gap: Int64, in channel: ChannelURL)

  // MARK: Views

  /// A view is open. `isOwedAnswer`: it was opened just now and gets one first answer; false for those that a
  /// start takes up again.
  func opened(_ view: OpenView, isOwedAnswer: Bool)

  /// A view's window was moved: what `opened` said of it holds no more.
  func moved(_ view: OpenView)

  /// A view was disposed of.
  func closed(view id: String, in channel: ChannelURL)

  // MARK: Webhook notes

  /// A webhook whose signature was checked: noted durably when `then` is called, and looked into afterwards
  /// (B34). How many things it named; 0 for categories of no interest. A body that is none: `unreadable`.
  func takeWebhook(_ webhook: [UInt8], then: @escaping @Sendable (Result<Int, SyncError>) -> Void)

  /// The self-check stored notes for the channels it reset: they are looked into now (B64).
  func healed()
}

/// Whether a request may be answered.
package enum Admission: Sendable, Equatable {
  /// From the cache, whatever the upstream does.
  case admitted
  /// Nothing is known of the user yet: `admit` waits for the upstream's word.
  case undecided
  /// There is nothing to answer from, or the user is gone (B2, B5).
  case refused(SyncError)
}
