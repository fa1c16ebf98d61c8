import ChatCache
import ChatModel

/// The worker's port to the cache, over an open `Cache`. A reading call runs on the caller's thread; a
/// writing call waits for the commit without holding a thread.
package struct CacheStore: SyncStore {
  private let cache: Cache
  /// The most messages of a channel's stretch that are counted.
  private let counting: Int

  /// The store over an open cache. `prefetchMessages`: how many messages the worker prefetches of a channel,
  /// since more than it needs to know need not be counted.
  package init(_ cache: Cache, prefetchMessages: Int = ChannelLine.mostCounted) {
    self.cache = cache
    counting = max(prefetchMessages, GapCheck.pageRows)
  }

  private func write<Result: Sendable>(
    sends: Int? = nil, _ body: @escaping @Sendable (CacheWriter) throws -> Result
  ) async throws -> Result {
    try await withCheckedThrowingContinuation { continuation in
      cache.write(sends: sends, body) { continuation.resume(with: $0) }
    }
  }

  private func accept<Result: Sendable>(
    _ body: @escaping @Sendable (CacheWriter) throws -> Result
  ) async throws -> Result {
    try await withCheckedThrowingContinuation { continuation in
      cache.accept(body) { continuation.resume(with: $0) }
    }
  }

  /// The event log's last sequence.
  package func mark() -> Int64 { cache.cursor.sequence }

  /// Reports the data that a commit cleared on request.
  package func onClearing(_ observer: @escaping @Sendable (Cleared) -> Void) {
    cache.onCommit { commit in
      if commit.cleared != Cleared() { observer(commit.cleared) }
    }
  }

  /// Whether rows of everything are still to be deleted.
  package func isBeingCleared() throws -> Bool { try cache.read { try $0.isBeingCleared() } }

  /// Whether there is room in the cache.
  package var hasRoom: Bool { cache.usage.hasRoom }
  /// Reports that `hasRoom` changed.
  package func onRoom(_ observer: @escaping @Sendable () -> Void) { cache.usage.onRoom(observer) }

  /// Reports lanes that were changed by something else than their own turns.
  package func onLanesChanged(_ observer: @escaping @Sendable (Set<OutboxLaneName>) -> Void) {
    cache.onCommit { commit in
      if !commit.lanes.isEmpty { observer(commit.lanes) }
    }
  }

  /// Reports channels for which a commit stored a webhook note.
  package func onDue(_ observer: @escaping @Sendable (Set<ChannelURL>) -> Void) {
    cache.onCommit { commit in
      if !commit.notedChannels.isEmpty { observer(commit.notedChannels) }
    }
  }

  /// Higher than any generation of an earlier run over this database.
  package var firstGeneration: Int64 { cache.cursor.run << 20 }
}

// Users and link.
extension CacheStore {
  /// All users who ever connected.
  package func knownUsers() throws -> [KnownUser] { try cache.read { try $0.knownUsers() } }
  /// The stored capabilities of the upstream.
  package func capabilities() throws -> [Capability: Bool] {
    try cache.read { try $0.capabilities(now: cache.clock.wallMilliseconds()) }
  }
  /// Stores whether the upstream offers this.
  package func learn(_ capability: Capability, isOffered: Bool) async throws {
    try await write { try $0.learn(capability, isOffered: isOffered) }
  }
  /// Stops syncing for the user.
  package func stop(_ user: UserID) async throws { try await accept { try $0.stop(user) } }
  /// Removes the data of this user alone.
  package func forget(_ user: UserID, isForced: Bool) async throws -> Int64 {
    try await accept { try $0.forget(user, isForced: isForced) }
  }
  /// The upstream knows the user.
  package func acknowledge(_ user: UserID) async throws { try await accept { try $0.acknowledge(user) } }
  /// The upstream said for the first time that the user is gone.
  package func refuse(_ user: UserID) async throws { try await write { try $0.refuse(user) } }
  /// Removes the users who were closed long ago, each in a commit of its own.
  package func forgetClosed(after milliseconds: Int64) async throws -> [UserID] {
    var all: [UserID] = []
    while true {
      let users = try await write { try $0.forgetClosed(after: milliseconds) }
      if users.isEmpty { return all }
      all += users
    }
  }
  /// The upstream said twice that the user is gone.
  package func close(_ user: UserID) async throws { try await write { try $0.close(user) } }
  /// Reads show these users nothing new.
  package func holdRights(of users: [UserID]) throws { try cache.holdRights(of: users) }
  /// Reads show no user anything new.
  package func holdRightsOfAll() throws { try cache.holdRightsOfAll() }
  /// Reads show the user what was stored up to `sequence`.
  package func raiseRights(of user: UserID, to sequence: Int64) throws {
    try cache.raiseRights(of: user, to: sequence)
  }
  /// Reads show the user everything again.
  package func releaseRights(of user: UserID) throws { try cache.releaseRights(of: user) }
  /// Appends an event for all users.
  package func announce(_ state: Link.State, generation: Int64) async throws {
    try await write { try $0.announce(link: state.word) }
  }
}

// Channels.
extension CacheStore {
  /// Stores in one commit.
  package func store(
    _ channels: [ChannelRecord], of user: UserID, _ origin: ChannelOrigin
  ) async throws -> [ChannelActivity] {
    try await write { try $0.store(channels, of: user, origin) }
  }
  /// The user's channels that no page of the sweep contained.
  package func unmet(by sweep: Int64, of user: UserID) throws -> [ChannelURL] {
    try cache.read { try $0.unmet(by: sweep, of: user) }
  }
  /// All pages of the channels are stored.
  package func endListing(of user: UserID, begunAt: Int64) async throws {
    try await write { try $0.endListing(of: user, begunAt: begunAt) }
  }
  /// All pages of the channels are stored, and contained every stored channel.
  package func endListing(of user: UserID, begunAt: Int64, ifMetBy sweep: Int64) async throws -> Bool {
    try await write { try $0.endListing(of: user, begunAt: begunAt, ifMetBy: sweep) }
  }
  /// The token of the user's channel changelog.
  package func channelToken(of user: UserID) throws -> SyncToken? {
    try cache.read { try $0.channelToken(of: user) }
  }
  /// Whether all of the user's channels were listed.
  package func isSynced(_ user: UserID) throws -> Bool {
    try cache.read { try $0.cachedUser(user)?.isSynced ?? false }
  }
  /// The user is no member any more.
  package func removeMembership(of user: UserID, in url: ChannelURL, _ source: ChangeSource) async throws {
    try await write { try $0.removeMembership(of: user, in: url, source) }
  }
  /// Whether so many users of the cache are in the channel that a message changes no membership.
  package func isCrowded(_ url: ChannelURL) throws -> Bool { try cache.read { try $0.isCrowded(url) } }
  /// The connected members after that user.
  package func connectedMembers(
    of url: ChannelURL, after last: UserKey?, limit: Int
  ) throws -> [(key: UserKey, user: UserID)] {
    try cache.read { try $0.connectedMembers(of: url, after: last, limit: limit) }
  }
  /// Whether the user is connected and in the channel.
  package func isConnectedMember(_ user: UserID, of url: ChannelURL) throws -> Bool {
    try cache.read { try $0.isConnectedMember(user, of: url) }
  }
  /// The user's key.
  package func userKey(of user: UserID) throws -> UserKey? { try cache.read { try $0.userKey(of: user) } }
  /// A slice of the user's channels.
  package func channels(
    of user: UserID, after last: ChannelKey?, limit: Int
  ) throws -> [(key: ChannelKey, url: ChannelURL)] {
    try cache.read { try $0.channels(of: user, after: last, limit: limit) }
  }
  /// The values that decide about prefetch, of a slice of the channels.
  package func overview(after last: ChannelKey?, limit: Int) throws -> [ChannelOverview] {
    try cache.read { try $0.overview(after: last, limit: limit, counting: counting) }
  }
}

// Members.
extension CacheStore {
  /// How completely the list of members is cached.
  package func memberList(of url: ChannelURL) throws -> MemberList {
    try cache.read { try $0.memberList(of: url) }
  }
  /// Whether the user is stored as a member.
  package func hasMember(_ user: UserID, in url: ChannelURL) throws -> Bool {
    try cache.read { try $0.hasMember(user, in: url) }
  }
  /// Goes on with a listing or begins one.
  package func beginMembers(of url: ChannelURL, anew: Bool) async throws -> MemberListing? {
    try await write { try $0.beginMembers(of: url, anew: anew) }
  }
  /// Stores in one commit.
  package func store(
    _ page: [MemberRecord], of url: ChannelURL, in listing: MemberListing, next: String?
  ) async throws -> Bool {
    try await write { try $0.store(page, of: url, in: listing, next: next) }
  }
  /// The stored members that a listing showed.
  package func shownMembers(of url: ChannelURL, by listing: MemberListing) throws -> ShownMembers {
    try cache.read { try $0.shownMembers(of: url, by: listing) }
  }
  /// Ends a listing.
  package func endMembers(
    of url: ChannelURL, _ listing: MemberListing, gone: [UserID], counted: Int64?
  ) async throws -> Bool {
    try await write { try $0.endMembers(of: url, listing, gone: gone, counted: counted) }
  }
  /// Adds and removes members as the upstream answered about them.
  package func settleMembers(
    of url: ChannelURL, news: Int64, came: [MemberRecord], gone: [UserID], _ source: ChangeSource
  ) async throws {
    try await write { try $0.settleMembers(of: url, news: news, came: came, gone: gone, source) }
  }
}

// Messages.
extension CacheStore {
  /// Stores in one commit.
  package func store(
    _ listings: [MessageListing], ofThread parent: Int64, in url: ChannelURL, _ context: ListingContext
  ) async throws -> Bool {
    try await write { try $0.store(listings, ofThread: parent, in: url, context) }
  }
  /// The coverage of the channel.
  package func line(of url: ChannelURL) throws -> ChannelLine? {
    try cache.read { try $0.line(of: url, counting: counting) }
  }
  /// The newest stored message of the channel.
  package func newestMessage(of url: ChannelURL) throws -> Int64? {
    try cache.read { try $0.newestMessage(of: url) }
  }
  /// Stores in order; while clients write, in several commits.
  package func store(
    _ listings: [MessageListing], in url: ChannelURL, _ context: ListingContext
  ) async throws -> Bool {
    var hasDoubts = false
    for part in try cache.commits(of: listings, in: url, context) {
      hasDoubts = try await write { try $0.store(part, in: url, context) }
    }
    return hasDoubts
  }
  /// Stores in one commit.
  package func store(
    _ changes: UpstreamChanges<MessageRecord, Int64>, in url: ChannelURL, _ source: ChangeSource,
    askedAt: Int64
  ) async throws -> Bool {
    try await write { try $0.store(changes, in: url, source, askedAt: askedAt) }
  }
  /// Doubted messages of the channel.
  package func doubted(in url: ChannelURL, below: Position?, limit: Int) throws -> [DoubtedMessage] {
    try cache.read { try $0.doubted(in: url, below: below, limit: limit) }
  }
  /// The channels with doubted messages.
  package func channelsInDoubt() throws -> [ChannelURL] { try cache.read { try $0.channelsInDoubt() } }
  /// Removes the doubts of a listing that is known to be wrong.
  package func believe(against askedAt: Int64, in url: ChannelURL) async throws {
    try await write { try $0.believe(against: askedAt, in: url) }
  }
  /// Stores in one commit.
  package func store(
    _ message: MessageRecord, in url: ChannelURL, _ source: ChangeSource, askedAt: Int64
  ) async throws -> Bool {
    try await write { try $0.store(message, in: url, source, askedAt: askedAt) }
  }
  /// The upstream has no such message any more.
  package func delete(message id: Int64, in url: ChannelURL, _ source: ChangeSource) async throws {
    try await write { try $0.delete(message: id, in: url, source) }
  }
  /// Changes may have been missed.
  package func doubt(_ url: ChannelURL) async throws { try await write { try $0.doubt(url) } }
  /// The first page of these views was fetched, or could not be.
  package func answered(views: [String], in url: ChannelURL, failure: UpstreamError?) async throws {
    let told = failure.map { (reason: $0.word, willRetry: $0.isTransient) }
    try await write { try $0.answered(views: views, in: url, failure: told) }
  }
}

// Sending.
extension CacheStore {
  /// Repairs the outbox after a start, and returns the lanes with rows that wait.
  package func recoverOutbox() async throws -> [(lane: OutboxLaneName, wait: Int64)] {
    try await accept { writer in
      try writer.recoverOutbox()
      try writer.expireOutbox()
      return try writer.reader.waitingLanes(now: writer.now)
    }
  }
  /// Ends a job, begins the next one.
  package func advance(
    _ lane: OutboxLaneName, after ended: EndedOutboxJob?, mayBegin: Bool, mayMarkRead: Bool, isLinkBack: Bool,
    among sends: Int, _ policy: OutboxPolicy, random: UInt64
  ) async throws -> LaneProgress {
    try await write(sends: sends) {
      try $0.advance(
        lane, after: ended, mayBegin: mayBegin, mayMarkRead: mayMarkRead, isLinkBack: isLinkBack, policy,
        random: random)
    }
  }
  /// Ends an upload, begins the next one.
  package func advanceUploads(
    _ lane: OutboxLaneName, after ended: EndedUpload?, mayBegin: Bool, areOffered: Bool,
    _ policy: OutboxPolicy, random: UInt64
  ) async throws -> UploadProgress {
    try await write(sends: 1) {
      try $0.advanceUploads(
        lane, after: ended, mayBegin: mayBegin, areOffered: areOffered, policy, random: random)
    }
  }
  /// Notes a step of an upload, and does not wait for the commit.
  package func noteProgress(_ percent: Int64, of row: Int64, in lane: OutboxLaneName) {
    cache.write {
      try $0.noteProgress(percent, of: row, in: lane)
    } finish: { _ in
    }
  }
  /// Whether the upload is still wanted.
  package func isUploadWanted(_ row: Int64) throws -> Bool { try cache.read { try $0.isUploadWanted(row) } }
  /// The path of a file in the spool.
  package func path(of file: SpoolName) -> String? { cache.spool.path(of: file) }
  /// Ends rows and shows withheld messages whose time is over.
  package func keepUpOutbox() async throws -> Int64? { try await accept { try $0.keepUpOutbox() } }
}

// Gaps and webhook notes.
extension CacheStore {
  /// Marks the gap as being filled.
  package func beginFill(_ gap: Int64, in url: ChannelURL) async throws -> Bool {
    try await write { try $0.beginFill(gap, in: url) }
  }
  /// Marks the gap as no longer being filled.
  package func endFill(_ gap: Int64, in url: ChannelURL) async throws {
    try await write { try $0.endFill(gap, in: url) }
  }
  /// Gaps marked as being filled.
  package func fillsBegun() throws -> [(url: ChannelURL, gap: Int64)] {
    try cache.read { try $0.fillsBegun() }
  }
  /// Stores notes.
  package func note(_ notes: [Webhook.Note]) async throws -> [Webhook.Note] {
    try await accept { try $0.note(notes) }
  }
  /// All webhook notes.
  package func webhookNotes() throws -> [Webhook.Note] { try cache.read { try $0.webhookNotes() } }
  /// The webhook notes of that channel.
  package func webhookNotes(in url: ChannelURL) throws -> [Webhook.Note] {
    try cache.read { try $0.webhookNotes(in: url) }
  }
  /// Deletes a note after its answer was stored.
  package func settled(_ note: Webhook.Note) async throws {
    try await write {
      try $0.settled(note.kind, in: note.channel, message: note.messageID, noted: note.noted)
    }
  }
  /// The given messages that have neither a row nor a tombstone.
  package func unknown(_ messages: [Int64], in url: ChannelURL) throws -> [Int64] {
    try cache.read { try $0.unknown(messages, in: url) }
  }
}
