import ChatCache
import ChatModel

/// The worker's port to the cache, declared by the worker, which needs it.
///
/// Every writing call is one commit: rows, coverage, changelog token and events together, durable when it
/// returns. Only listings may take several. Calls may be repeated with the same content: applying something
/// twice changes nothing (B21).
package protocol SyncStore: Sendable {
  /// The event log's last sequence. The worker takes it before a request goes out and passes it with the
  /// answer, so that the store does not overwrite rows that changed meanwhile (B27).
  func mark() -> Int64

  /// Calls `observer` after each commit that cleared data on request (B58), and before any later commit.
  /// `observer` must be quick.
  func onClearing(_ observer: @escaping @Sendable (Cleared) -> Void)
  /// Whether everything was cleared, and rows are still to be deleted: nothing of the upstream is stored.
  func isBeingCleared() throws -> Bool
  /// Whether the cache has room for prefetch, which pauses without it (B33).
  var hasRoom: Bool { get }
  /// Calls `observer` when `hasRoom` changed.
  func onRoom(_ observer: @escaping @Sendable () -> Void)
  /// Calls `observer` with lanes whose unsent rows were changed by anything but the lane's own job.
  func onLanesChanged(_ observer: @escaping @Sendable (Set<OutboxLaneName>) -> Void)

  /// Calls `observer` with channels for which a commit stored a webhook note of its own.
  func onDue(_ observer: @escaping @Sendable (Set<ChannelURL>) -> Void)

  // MARK: Users and link

  /// The link's generation with which this run begins: higher than any of an earlier run, so that no tail
  /// confirmed then is live now (B25).
  var firstGeneration: Int64 { get }
  /// All users who ever connected and were not removed.
  func knownUsers() throws -> [KnownUser]
  /// The stored capabilities of the upstream (B32).
  func capabilities() throws -> [Capability: Bool]
  /// Stores whether the upstream offers this (B32).
  func learn(_ capability: Capability, isOffered: Bool) async throws
  /// Stops syncing for the user, also after a restart (B4).
  func stop(_ user: UserID) async throws
  /// Removes the data of this user alone. If the user has unsent rows and `isForced` is false, removes
  /// nothing and returns their number (B4).
  func forget(_ user: UserID, isForced: Bool) async throws -> Int64
  /// The upstream knows the user: inserts the user's row, or reopens it.
  func acknowledge(_ user: UserID) async throws
  /// The upstream said for the first time that the user is gone: remembered over restarts (B5).
  func refuse(_ user: UserID) async throws
  /// Removes the users who were closed more than `milliseconds` of running time ago, and returns them (B5).
  func forgetClosed(after milliseconds: Int64) async throws -> [UserID]
  /// The upstream said twice that the user is gone (B5).
  func close(_ user: UserID) async throws
  /// From now on reads show these users no message that is stored later, until `releaseRights` is called
  /// (B1).
  func holdRights(of users: [UserID]) throws
  /// The same for all users, at a start.
  func holdRightsOfAll() throws
  /// The user may see what was stored up to `sequence`, and stays held for what came later.
  func raiseRights(of user: UserID, to sequence: Int64) throws
  /// The changes of the user are stored: reads show everything again.
  func releaseRights(of user: UserID) throws
  /// Appends an event for all users, and stores the link's generation for the tails (B3, B25).
  func announce(_ state: Link.State, generation: Int64) async throws

  // MARK: Channels

  /// Stores channels as `user` sees them. Returns for each channel whether its messages are behind.
  func store(
    _ channels: [ChannelRecord], of user: UserID, _ origin: ChannelOrigin
  ) async throws -> [ChannelActivity]
  /// The user's channels that no page of the sweep with that number contained.
  func unmet(by sweep: Int64, of user: UserID) throws -> [ChannelURL]
  /// Notes that all pages of the user's channels are stored (B11). Does nothing if everything was cleared
  /// since the listing began at that mark.
  func endListing(of user: UserID, begunAt: Int64) async throws
  /// Notes that all pages are stored, if the pages of the sweep with that number contained every stored
  /// channel of the user. False: they did not, and nothing is noted.
  func endListing(of user: UserID, begunAt: Int64, ifMetBy sweep: Int64) async throws -> Bool
  /// The token of the user's channel changelog.
  func channelToken(of user: UserID) throws -> SyncToken?
  /// Whether all of the user's channels were listed (B11).
  func isSynced(_ user: UserID) throws -> Bool
  /// The user is no member any more (B69).
  func removeMembership(of user: UserID, in url: ChannelURL, _ source: ChangeSource) async throws
  /// Whether so many users of the cache are in the channel that a message changes no membership.
  func isCrowded(_ url: ChannelURL) throws -> Bool
  /// The connected members after that user, in the order of their keys, at most `limit`.
  func connectedMembers(
    of url: ChannelURL, after last: UserKey?, limit: Int
  ) throws -> [(key: UserKey, user: UserID)]
  /// Whether the user is connected and in the channel.
  func isConnectedMember(_ user: UserID, of url: ChannelURL) throws -> Bool
  /// The user's key; nil: the cache does not know the user.
  func userKey(of user: UserID) throws -> UserKey?
  /// The user's channels after that one, in the order of their keys, at most `limit`.
  func channels(
    of user: UserID, after last: ChannelKey?, limit: Int
  ) throws -> [(key: ChannelKey, url: ChannelURL)]
  /// The channels after that one that have a connected user, in the order of their keys, at most `limit`,
  /// with the values that decide about their prefetch.
  func overview(after last: ChannelKey?, limit: Int) throws -> [ChannelOverview]

  // MARK: Members

  /// How completely the channel's list of members is cached.
  func memberList(of url: ChannelURL) throws -> MemberList
  /// Whether the user is stored as a member.
  func hasMember(_ user: UserID, in url: ChannelURL) throws -> Bool
  /// Goes on with an interrupted listing of members, or begins one. Nil: no user of this cache is in the
  /// channel.
  func beginMembers(of url: ChannelURL, anew: Bool) async throws -> MemberListing?
  /// Stores a page of a listing, and the token of the next page. False: another listing began, or everything
  /// was cleared.
  func store(
    _ page: [MemberRecord], of url: ChannelURL, in listing: MemberListing, next: String?
  ) async throws -> Bool
  /// The stored members that a complete listing showed.
  func shownMembers(of url: ChannelURL, by listing: MemberListing) throws -> ShownMembers
  /// Ends a complete listing: removes the given members, and compares with the channel's number of members.
  /// Returns whether the list is whole now.
  func endMembers(
    of url: ChannelURL, _ listing: MemberListing, gone: [UserID], counted: Int64?
  ) async throws -> Bool
  /// Adds and removes these members, and notes that the stored ones include everything told up to `news`.
  func settleMembers(
    of url: ChannelURL, news: Int64, came: [MemberRecord], gone: [UserID], _ source: ChangeSource
  ) async throws

  // MARK: Messages

  /// The coverage of the channel. Nil: the channel is unknown, or no user of this cache is in it.
  func line(of url: ChannelURL) throws -> ChannelLine?
  /// The newest message of the channel that is stored, other than a reply that only its thread shows.
  func newestMessage(of url: ChannelURL) throws -> Int64?
  /// Stores listings in order, with the coverage they prove. Stored messages that a listing lacks are doubted
  /// (B24, B27). A listing requested before the channel was cleared is left out (B58). Returns whether the
  /// channel has doubted messages.
  func store(
    _ listings: [MessageListing], in url: ChannelURL, _ context: ListingContext
  ) async throws -> Bool
  /// Stores listings of the replies to a message in order, with the thread's coverage; the channel's own
  /// coverage does not change. Returns whether the channel has doubted messages.
  func store(
    _ listings: [MessageListing], ofThread parent: Int64, in url: ChannelURL, _ context: ListingContext
  ) async throws -> Bool
  /// Stores a page of the channel's changelog, requested at that mark, and its token in one commit (B31).
  /// Returns whether the channel has doubted messages.
  func store(
    _ changes: UpstreamChanges<MessageRecord, Int64>, in url: ChannelURL, _ source: ChangeSource,
    askedAt: Int64
  ) async throws -> Bool
  /// The channel's doubted messages, newest first: answers of the upstream disagree whether they exist (B27).
  /// `below`: only messages before that position.
  func doubted(in url: ChannelURL, below: Position?, limit: Int) throws -> [DoubtedMessage]
  /// The channels with doubted messages.
  func channelsInDoubt() throws -> [ChannelURL]
  /// Removes the doubts of the listing requested at that mark, because the listing is known to be wrong.
  func believe(against askedAt: Int64, in url: ChannelURL) async throws
  /// Stores one message that was requested by id at that mark, unless the channel was cleared since. Returns
  /// whether it was stored.
  func store(
    _ message: MessageRecord, in url: ChannelURL, _ source: ChangeSource, askedAt: Int64
  ) async throws -> Bool
  /// The upstream has no such message any more.
  func delete(message id: Int64, in url: ChannelURL, _ source: ChangeSource) async throws
  /// Changes may have been missed: marks everything covered as unverified, and deletes the changelog's token
  /// (B31). The next stored listing begins the changelog again at the time of its newest message: by the
  /// upstream's clock, and early enough for every row stored since.
  func doubt(_ url: ChannelURL) async throws
  /// The request for the first page of these views succeeded or failed (B16).
  func answered(views: [String], in url: ChannelURL, failure: UpstreamError?) async throws

  // MARK: Sending (B36, B39)

  /// Called after a start. Rows in flight become uncertain, and rows past their lifetime fail. Returns the
  /// lanes with waiting rows, and the ms until their next try.
  func recoverOutbox() async throws -> [(lane: OutboxLaneName, wait: Int64)]
  /// Stores how the lane's last job ended, and begins the next one if one is due. The start is durable when
  /// this returns. `mayMarkRead` false: read marks wait. `sends`: how many lanes are sending now; their
  /// commits may share a batch.
  func advance(
    _ lane: OutboxLaneName, after ended: EndedOutboxJob?, mayBegin: Bool, mayMarkRead: Bool, isLinkBack: Bool,
    among sends: Int, _ policy: OutboxPolicy, random: UInt64
  ) async throws -> LaneProgress
  /// Stores how the lane's last upload ended, and begins the next one if one is due. The start is durable
  /// when this returns. `areOffered` false: files are sent with their messages.
  func advanceUploads(
    _ lane: OutboxLaneName, after ended: EndedUpload?, mayBegin: Bool, areOffered: Bool,
    _ policy: OutboxPolicy, random: UInt64
  ) async throws -> UploadProgress
  /// Notes the progress of an upload. It must be quick, and its commit is not waited for.
  func noteProgress(_ percent: Int64, of row: Int64, in lane: OutboxLaneName)
  /// Whether the upload of the row is still wanted.
  func isUploadWanted(_ row: Int64) throws -> Bool
  /// The path of a file in the spool; nil: the file is gone.
  func path(of file: SpoolName) -> String?
  /// Fails unsent rows whose lifetime has ended, and shows messages that were withheld long enough (B38,
  /// B41). Returns the ms until the next withheld message is shown.
  func keepUpOutbox() async throws -> Int64?

  // MARK: Gaps that clients asked to fill (B26, B28)

  /// Marks the gap as being filled, with its event. False: there is no such gap, or it is filled already.
  func beginFill(_ gap: Int64, in url: ChannelURL) async throws -> Bool
  /// Marks the gap as no longer being filled, with its event. Does nothing if the gap is gone.
  func endFill(_ gap: Int64, in url: ChannelURL) async throws
  /// The gaps whose filling a stop or a crash interrupted.
  func fillsBegun() throws -> [(url: ChannelURL, gap: Int64)]

  // MARK: Webhook notes

  /// Stores notes in one durable commit, before the webhook is answered, and returns them as they are stored.
  /// An equal note is stored once, with the users of both. If a channel has too many notes of messages, one
  /// note replaces them (B34).
  func note(_ notes: [Webhook.Note]) async throws -> [Webhook.Note]
  /// All webhook notes, oldest first.
  func webhookNotes() throws -> [Webhook.Note]
  /// The webhook notes of one channel.
  func webhookNotes(in url: ChannelURL) throws -> [Webhook.Note]
  /// The given messages that have neither a row nor a tombstone.
  func unknown(_ messages: [Int64], in url: ChannelURL) throws -> [Int64]
  /// Deletes a note after its answer was stored. A note that was stored again since it was read stays.
  func settled(_ note: Webhook.Note) async throws
}

extension SyncStore {
  /// The connected users who are members, at most `most`.
  package func connectedMembers(of url: ChannelURL, atMost most: Int = .max) throws -> [UserID] {
    try connectedMembers(of: url, after: nil, limit: most).map(\.user)
  }
}
