import ChatModel

/// The requests of routes and collections to the sync worker: they ask for fresher data, never for the data
/// itself. The port is declared here, the sync worker implements it, and the executable connects both.
///
/// How a request uses it:
///
/// 1. Call `seen` once for every request of a user, before it is answered. It only reads memory.
///    `.admitted`: answer from the cache. `.undecided`: nothing is known of the user yet, park the request
///    and call `admit`. `.refused`: answer the error.
/// 2. Read the cache. If the page is not wholly covered, or its tail is not live by `link` and
///    `pollInterval`, park the request and `fetch` what is missing. When `then` is called, with any outcome,
///    read the cache again and answer. `ReadThrough` decides what is missing and counts the pages (B15).
/// 3. Report when a view is opened, moved and closed. Its first answer is an event of the log
///    (`collectionAnswered`, `collectionFailed`), so that it cannot be lost between two requests (B16).
///
/// No call blocks, whatever the upstream does. Every `then` is called exactly once, on any thread, maybe
/// before the call returns, and no later than `milliseconds` (`within`). Work that was begun goes on
/// afterwards, and its result will be in the cache. `then` must be quick: it wakes a parked request, no more.
/// Identical requests under way are one request upstream.
package protocol SyncRequests: Sendable {
  // MARK: Status, from memory

  /// The one link to the upstream.
  var link: LinkStatus { get }

  /// How often the channel is polled (ms). It decides whether the channel's tail is live (B25).
  func pollInterval(of channel: ChannelURL) -> Int64

  /// The user's status; `connecting` if the user was never seen.
  func connection(of user: UserID) -> UserConnection

  // MARK: Users

  /// Notes a request of the user. Wakes an idle user, and connects one who never connected (B2, B4).
  func seen(_ user: UserID) -> Admission

  /// Waits until the upstream has said whether it knows a user of whom nothing is cached.
  func admit(
    _ user: UserID, within milliseconds: Int,
    then: @escaping @Sendable (Result<UserConnection, SyncError>) -> Void)

  /// `PUT /v1/connection`: connects the user from any state, tries an offline link at once, and waits for the
  /// outcome (B2). With 0 ms it returns the present status.
  func connect(
    _ user: UserID, within milliseconds: Int,
    then: @escaping @Sendable (Result<UserConnection, SyncError>) -> Void)

  /// `DELETE /v1/connection`: stops the user's sync; durable when `then` is called (B4).
  func disconnect(_ user: UserID, then: @escaping @Sendable (Result<Void, SyncError>) -> Void)

  /// `DELETE /v1/connection?clear=true`: stops the user's sync and removes all data of this user alone;
  /// durable when `then` is called with 0. If the user has unsent rows and `isForced` is false, nothing
  /// happens and `then` gets their number (B4).
  func forget(
    _ user: UserID, isForced: Bool, then: @escaping @Sendable (Result<Int64, SyncError>) -> Void)

  /// Waits until the user's changes since the last connect are stored.
  func awaitChanges(of user: UserID, within milliseconds: Int, then: @escaping @Sendable () -> Void)

  /// Reports that rows of that lane were accepted, changed or taken back. They are sent as soon as the link
  /// allows, and an offline link is tried at once (B3). May be called on the writer's thread after a commit.
  func accepted(of user: UserID, in channel: ChannelURL)

  // MARK: Fresher data

  /// Fetches messages that a user's request misses (B15), after the changes since the user's last connect. A
  /// call fetches one page of the upstream; an HTTP request makes at most `Limits.upstreamPagesPerRequest`
  /// calls.
  func fetch(
    _ wanted: MessageSyncRequest, for user: UserID, within milliseconds: Int,
    then: @escaping @Sendable (SyncOutcome) -> Void)

  /// Fetches the user's channels: the most recent ones while the first listing runs, else the changes (B11).
  func fetchChannels(
    of user: UserID, within milliseconds: Int, then: @escaping @Sendable (SyncOutcome) -> Void)

  /// Fetches the members of these channels for a user, each list from its beginning to its end.
  func fetchMembers(
    of channels: [ChannelURL], for user: UserID, within milliseconds: Int,
    then: @escaping @Sendable (SyncOutcome) -> Void)

  /// Asks the upstream for a channel that the cache does not know. True: the user is in it, and it is in the
  /// cache now. After the user's first sync the upstream is not asked, and the result is false at once (B1).
  /// `notSynced`: the upstream cannot be asked now; alike for every unknown url.
  func find(
    _ channel: ChannelURL, as user: UserID, within milliseconds: Int,
    then: @escaping @Sendable (Result<Bool, SyncError>) -> Void)

  // MARK: Gaps

  /// Fills that gap for a client. Events `gap.changed` tell the progress (B28).
  func fill(gap: Int64, in channel: ChannelURL)

  /// Stops filling that gap. The filled part stays.
  func stopFilling(gap: Int64, in channel: ChannelURL)

  // MARK: Views

  /// Reports an open view. `isOwedAnswer`: its first answer has still to come; false for a view of an earlier
  /// run that has it.
  func opened(_ view: OpenView, isOwedAnswer: Bool)

  /// Reports that a view's window moved. `view` replaces the value that `opened` reported.
  func moved(_ view: OpenView)

  /// Reports that a view was disposed of.
  func closed(view id: String, in channel: ChannelURL)

  // MARK: Webhook notes

  /// Takes a webhook whose signature was checked (B34). `then` gets the number of its notes, which are
  /// durable and handled afterwards; 0: it concerns no user of this cache, or its category is ignored.
  /// `unreadable`: the body is no webhook.
  func takeWebhook(_ webhook: [UInt8], then: @escaping @Sendable (Result<Int, SyncError>) -> Void)

  /// Reports that the self-check stored webhook notes for channels that it reset. They are handled now (B64).
  func healed()
}

/// Whether a request may be answered.
package enum Admission: Sendable, Equatable {
  /// Yes, from the cache, whatever the upstream does.
  case admitted
  /// Nothing is known of the user yet: `admit` waits for the upstream's answer.
  case undecided
  /// There is nothing to answer from, or the user is gone (B2, B5).
  case refused(SyncError)
}
