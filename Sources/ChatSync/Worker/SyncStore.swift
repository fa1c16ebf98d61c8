import ChatCache
import ChatModel

/// What the worker needs from the cache. Declared here because the worker needs it; the cache's owner fulfils
/// it.
///
/// Every writing call is one commit: rows, coverage, changelog token and events together, durable
/// when it returns. Calls may be repeated with the same content: applying something twice changes nothing
/// (B21).
package protocol SyncStore: Sendable {
  /// The event log's last sequence. Taken before a request goes out and given back with its answer, so that
  /// rows changed meanwhile are spared (B27).
  func mark() -> Int64

  /// Calls `observer` after each commit that let go of something on request (B58), before anything that is
  /// stored later; it must be quick.
  func onClearing(_ observer: @escaping @Sendable (Cleared) -> Void)
  /// Whether there is room in the cache for what nobody asked for: prefetch pauses where there is none (B33).
  var hasRoom: Bool { get }
  /// Calls `observer` when room came or went.
  func onRoom(_ observer: @escaping @Sendable () -> Void)
  /// Calls `observer` with lanes of unsent rows that changed by something else than their own turn.
  func onLanesChanged(_ observer: @escaping @Sendable (Set<OutboxLaneName>) -> Void)

  /// Calls `observer` with channels in which a commit noted by itself that something is to be asked.
  func onDue(_ observer: @escaping @Sendable (Set<ChannelURL>) -> Void)

  // MARK: Users and link

  /// The link's generation to begin this run with: higher than any an earlier run used, whatever its losses
  /// were, so that no tail confirmed then is live now (B25).
  var firstGeneration: Int64 { get }
  /// Everybody who ever connected here and was not removed.
  func knownUsers() throws -> [KnownUser]
  /// What the upstream was found to offer, or not to (B32).
  func capabilities() throws -> [Capability: Bool]
  /// Remembers whether the upstream offers this (B32).
  func learn(_ capability: Capability, isOffered: Bool) async throws
  /// The client wants no work for the user, over restarts too (B4).
  func stop(_ user: UserID) async throws
  /// Removes what is the user's own, unless something is unsent and `isForced` is not set: then nothing
  /// happens but that it is counted (B4).
  func forget(_ user: UserID, isForced: Bool) async throws -> Int64
  /// The upstream knows the user: makes or reopens the user's partition.
  func acknowledge(_ user: UserID) async throws
  /// The upstream said for the first time that the user is gone: remembered over restarts (B5).
  func refuse(_ user: UserID) async throws
  /// Removes the users who were closed more than so long ago (ms in which the service ran), and says whom
  /// (B5).
  func forgetClosed(after milliseconds: Int64) async throws -> [UserID]
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
  /// All pages of the user's channels are stored (B11), by a listing that began at that mark; nothing happens
  /// where everything was cleared since.
  func endListing(of user: UserID, begunAt: Int64) async throws
  /// The token of the user's channel changelog.
  func channelToken(of user: UserID) throws -> SyncToken?
  /// The user is no member any more (B69).
  func removeMembership(of user: UserID, in url: ChannelURL, _ source: ChangeSource) async throws
  /// The connected users who are members.
  func connectedMembers(of url: ChannelURL) throws -> [UserID]
  /// The channels that a connected user is in who is not one of those.
  func attendedChannels(besides away: [UserID]) throws -> [ChannelURL]
  /// The channels of all connected users with what decides about their prefetch.
  func overview() throws -> [ChannelOverview]

  // MARK: Members

  /// How far the channel's list of members is known.
  func memberList(of url: ChannelURL) throws -> MemberList
  /// Whether the person is stored as a member.
  func hasMember(_ user: UserID, in url: ChannelURL) throws -> Bool
  /// Goes on with the listing of members that was cut off, or begins one; nil: nobody here is in the channel.
  func beginMembers(of url: ChannelURL, anew: Bool) async throws -> MemberListing?
  /// Stores a page of a listing and where it goes on. False: another one began, or everything was cleared.
  func store(
    _ page: [MemberRecord], of url: ChannelURL, in listing: MemberListing, next: String?
  ) async throws -> Bool
  /// What a listing that ran through showed of the stored members.
  func shownMembers(of url: ChannelURL, by listing: MemberListing) throws -> ShownMembers
  /// Ends a listing that ran through: those are gone, and the channel counted so many. Answers whether the
  /// list is whole now.
  func endMembers(
    of url: ChannelURL, _ listing: MemberListing, gone: [UserID], counted: Int64?
  ) async throws -> Bool
  /// Brings the list in step with what was said of it up to `news`.
  func settleMembers(
    of url: ChannelURL, news: Int64, came: [MemberRecord], gone: [UserID], _ source: ChangeSource
  ) async throws

  // MARK: Messages

  /// What is known of the channel's line; nil where the channel is unknown, or nobody here is in it.
  func line(of url: ChannelURL) throws -> ChannelLine?
  /// Stores listings in order, with the coverage they claim, and casts doubt on what they lack (B24, B27). A
  /// listing that was asked for before the channel was cleared is left out (B58). Answers whether messages of
  /// the channel are doubted.
  func store(
    _ listings: [MessageListing], in url: ChannelURL, _ context: ListingContext
  ) async throws -> Bool
  /// Stores listings of the replies to a message in order, with what they claim of the thread; the channel's
  /// own line is not touched. Answers whether messages of the channel are doubted.
  func store(
    _ listings: [MessageListing], ofThread parent: Int64, in url: ChannelURL, _ context: ListingContext
  ) async throws -> Bool
  /// Stores a page of the channel's changelog, asked for at that mark, and its token in one commit (B31).
  /// Answers whether messages of the channel are doubted.
  func store(
    _ changes: UpstreamChanges<MessageRecord, Int64>, in url: ChannelURL, _ source: ChangeSource,
    askedAt: Int64
  ) async throws -> Bool
  /// The channel's doubted messages, newest first: upstream answers disagree whether they are there (B27).
  /// `below`: only messages before that position.
  func doubted(in url: ChannelURL, below: Position?, limit: Int) throws -> [DoubtedMessage]
  /// The channels that have such messages.
  func channelsInDoubt() throws -> [ChannelURL]
  /// The listing that was asked for at that mark is known to be wrong: what it lacks is not doubted.
  func believe(against askedAt: Int64, in url: ChannelURL) async throws
  /// Stores one message that was asked for by name at that mark, unless the channel was cleared since.
  func store(
    _ message: MessageRecord, in url: ChannelURL, _ source: ChangeSource, askedAt: Int64
  ) async throws
  /// The upstream has no such message any more.
  func delete(message id: Int64, in url: ChannelURL, _ source: ChangeSource) async throws
  /// Changes may have been missed: everything covered is to be listed again, and the changelog's token is
  /// forgotten (B31). The next listing that is stored begins it anew at its newest message's time: by the
  /// upstream's own clock, and early enough for every row stored since.
  func doubt(_ url: ChannelURL) async throws
  /// The first page of these views was fetched, or could not be (B16).
  func answered(views: [String], in url: ChannelURL, failure: UpstreamError?) async throws

  // MARK: Sending (B36, B39)

  /// After a start: what was under way may have arrived, and what is out of time fails. Answers the lanes in
  /// which something waits, with the ms until it is to be tried.
  func recoverOutbox() async throws -> [(lane: OutboxLaneName, wait: Int64)]
  /// Takes in how the lane's last job ended, and begins its next one where one is due. What has begun is
  /// durable when this returns. So many lanes are sending at this moment; their commits may be shared.
  func advance(
    _ lane: OutboxLaneName, after ended: EndedOutboxJob?, mayBegin: Bool, isLinkBack: Bool,
    among sends: Int, _ policy: OutboxPolicy, random: UInt64
  ) async throws -> LaneProgress
  /// Takes in how the lane's last upload ended, and begins its next one where one is due. What has begun is
  /// durable when this returns. `areOffered` false: files go with their messages.
  func advanceUploads(
    _ lane: OutboxLaneName, after ended: EndedUpload?, mayBegin: Bool, areOffered: Bool,
    _ policy: OutboxPolicy, random: UInt64
  ) async throws -> UploadProgress
  /// Tells a step of an upload; it must be quick, and nobody waits for it.
  func noteProgress(_ percent: Int64, of row: Int64, in lane: OutboxLaneName)
  /// Whether the upload of the row is still wanted.
  func isUploadWanted(_ row: Int64) throws -> Bool
  /// Where a file of the spool is; nil: it is gone.
  func path(of file: SpoolName) -> String?
  /// Fails unsent rows whose lifetime has ended, and shows messages that were withheld long enough (B38,
  /// B41).
  func keepUpOutbox() async throws -> Int64?

  // MARK: Gaps somebody asked to fill (B26, B28)

  /// Marks the gap as being filled, with its event. False: there is no such gap, or it is filled already.
  func beginFill(_ gap: Int64, in url: ChannelURL) async throws -> Bool
  /// Nobody fills the gap any more, with its event; nothing happens where it is gone.
  func endFill(_ gap: Int64, in url: ChannelURL) async throws
  /// Gaps marked as being filled: those a stop or a crash cut off.
  func fillsBegun() throws -> [(url: ChannelURL, gap: Int64)]

  // MARK: Webhook notes

  /// Stores notes, in one durable commit, before the webhook is answered, and says as what; what is noted
  /// already stays once, with the users of both, and one note stands for too many messages (B34).
  func note(_ notes: [Webhook.Note]) async throws -> [Webhook.Note]
  /// What webhooks named and was not asked yet.
  func webhookNotes() throws -> [Webhook.Note]
  /// The same of one channel.
  func webhookNotes(in url: ChannelURL) throws -> [Webhook.Note]
  /// Which of these messages the cache neither has nor knows to be deleted.
  func unknown(_ messages: [Int64], in url: ChannelURL) throws -> [Int64]
  /// What a webhook named is in the cache. One that was noted again since it was read stays.
  func settled(_ note: Webhook.Note) async throws
}
