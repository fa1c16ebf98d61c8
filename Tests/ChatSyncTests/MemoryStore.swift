import ChatModel
import Platform

@testable import ChatCache
@testable import ChatSync

/// A `SyncStore` over dictionaries and the real coverage, to test the worker without a database.
final class MemoryStore: SyncStore {
  struct Channel {
    var coverage = Coverage()
    var rows: [Int64: MessageRecord] = [:]
    /// When each message was reported deleted.
    var tombstones: [Int64: Int64] = [:]
    var doubted: [Int64: Doubt] = [:]
    var versions: [Int64: Int64] = [:]
    var changes: ChangesSince?
    var lastMessageAt: Int64 = 0
    var hugeCount = 0
    /// When all covered messages were last put in doubt.
    var doubtedAt: Int64 = 0
  }

  struct Doubt: Equatable {
    let position: Position
    let askedAt: Int64
    let isInside: Bool
  }

  struct User {
    var isSynced = false
    var isClosed = false
    var isStopped = false
    var unsent: Int64 = 0
    var token: SyncToken?
    /// The channels, each with the last sweep that saw it.
    var channels: [ChannelURL: Int64] = [:]
  }

  struct State {
    var sequence: Int64 = 0
    var runs: Int64 = 0
    var users: [UserID: User] = [:]
    var channels: [ChannelURL: Channel] = [:]
    var capabilities: [Capability: Bool] = [:]
    var fills: [(url: ChannelURL, gap: Int64)] = []
    var links: [Link.State] = []
    var answered: [String: Int] = [:]
    var refused: [String: Int] = [:]
    var notes: [Webhook.Note] = []
    /// The channels that many users of the cache are in.
    var crowded: Set<ChannelURL> = []
    /// The notes that were there whenever a changelog's token was stored.
    var notesAtTokens: [[Webhook.Note]] = []
    var sources: [ChangeSource] = []
    var hasRoom = true
    /// The users to whom nothing new is shown, with the sequence up to which they are.
    var heldUntil: [UserID: Int64] = [:]
    /// Whether the disk refuses that a user is stopped.
    var refusesStop = false
    var roomObservers: [@Sendable () -> Void] = []
    var keys: [UserID: Int64] = [:]
    /// How often members were read.
    var pages = 0

    /// The user's key, which stays.
    mutating func key(of user: UserID) -> Int64 {
      if let known = keys[user] { return known }
      keys[user] = Int64(keys.count) + 1
      return Int64(keys.count)
    }
  }

  let state = Guarded(State())

  func mark() -> Int64 { state.withLock { $0.sequence } }
  func knownUsers() throws -> [KnownUser] {
    state.withLock {
      $0.users.map {
        KnownUser(
          id: $0.key, isSynced: $0.value.isSynced, isStopped: $0.value.isStopped, isClosed: $0.value.isClosed)
      }
    }
  }
  var firstGeneration: Int64 {
    state.withLock {
      $0.runs += 1
      return $0.runs << 20
    }
  }
  func capabilities() throws -> [Capability: Bool] { state.withLock { $0.capabilities } }
  func learn(_ capability: Capability, isOffered: Bool) async throws {
    state.withLock { $0.capabilities[capability] = isOffered }
  }
  func forget(_ user: UserID, isForced: Bool) async throws -> Int64 {
    state.withLock { state in
      let unsent = state.users[user]?.unsent ?? 0
      guard unsent == 0 || isForced else { return unsent }
      state.users[user] = nil
      return 0
    }
  }
  func refuse(_ user: UserID) async throws {}
  func isBeingCleared() throws -> Bool { false }
  func forgetClosed(after milliseconds: Int64) async throws -> [UserID] { [] }
  func stop(_ user: UserID) async throws {
    try state.withLock {
      if $0.refusesStop { throw CacheError.tooManyWaiting }
      $0.users[user]?.isStopped = true
    }
  }
  func acknowledge(_ user: UserID) async throws {
    state.withLock {
      $0.users[user, default: User()].isClosed = false
      $0.users[user]?.isStopped = false
    }
  }
  func close(_ user: UserID) async throws { state.withLock { $0.users[user]?.isClosed = true } }
  func announce(_ link: Link.State, generation: Int64) async throws {
    state.withLock { $0.links.append(link) }
  }

  func store(
    _ channels: [ChannelRecord], of user: UserID, _ origin: ChannelOrigin
  ) async throws -> [ChannelActivity] {
    state.withLock { state in
      state.sequence += 1
      var sweep: Int64?
      if case .listing(let number) = origin { sweep = number }
      if case .changelog(let deleted, let next, _) = origin {
        for url in deleted { state.users[user]?.channels[url] = nil }
        if let next { state.users[user]?.token = next }
        state.notesAtTokens.append(state.notes)
      }
      return channels.map { record in
        let isLeft = !state.users.values.contains { $0.channels[record.url] != nil }
        var channel = isLeft ? Channel() : state.channels[record.url] ?? Channel()
        let before = state.users[user]?.channels[record.url] ?? 0
        state.users[user]?.channels[record.url] = sweep ?? before
        var isBehind = false
        if case .message(let last) = record.lastMessage {
          channel.lastMessageAt = last.createdAt
          isBehind = channel.coverage.newestCovered.map { last.position > $0 } ?? true
        }
        state.channels[record.url] = channel
        return ChannelActivity(url: record.url, lastMessageAt: channel.lastMessageAt, isBehind: isBehind)
      }
    }
  }
  func unmet(by sweep: Int64, of user: UserID) throws -> [ChannelURL] {
    state.withLock { $0.users[user]?.channels.filter { $0.value < sweep }.map(\.key) ?? [] }
  }
  func onClearing(_ observer: @escaping @Sendable (Cleared) -> Void) {}
  var hasRoom: Bool { state.withLock { $0.hasRoom } }
  func onRoom(_ observer: @escaping @Sendable () -> Void) {
    state.withLock { $0.roomObservers.append(observer) }
  }
  /// Sets whether the cache has room, and tells the observers.
  func setRoom(_ hasRoom: Bool) {
    let observers = state.withLock { state in
      state.hasRoom = hasRoom
      return state.roomObservers
    }
    for observer in observers { observer() }
  }
  func onDue(_ observer: @escaping @Sendable (Set<ChannelURL>) -> Void) {}
  func onLanesChanged(_ observer: @escaping @Sendable (Set<OutboxLaneName>) -> Void) {}
  /// The result of a step of a lane; without one the step does nothing.
  let advances = Guarded<(@Sendable (EndedOutboxJob?) throws -> LaneProgress)?>(nil)
  func endListing(of user: UserID, begunAt: Int64) async throws {
    state.withLock { $0.users[user]?.isSynced = true }
  }
  func endListing(of user: UserID, begunAt: Int64, ifMetBy sweep: Int64) async throws -> Bool {
    guard try unmet(by: sweep, of: user).isEmpty else { return false }
    try await endListing(of: user, begunAt: begunAt)
    return true
  }
  func isSynced(_ user: UserID) throws -> Bool { state.withLock { $0.users[user]?.isSynced ?? false } }
  func channelToken(of user: UserID) throws -> SyncToken? { state.withLock { $0.users[user]?.token } }
  func removeMembership(of user: UserID, in url: ChannelURL, _ source: ChangeSource) async throws {
    state.withLock { $0.users[user]?.channels[url] = nil }
  }
  func isCrowded(_ url: ChannelURL) throws -> Bool { state.withLock { $0.crowded.contains(url) } }
  func connectedMembers(
    of url: ChannelURL, after last: UserKey?, limit: Int
  ) throws -> [(key: UserKey, user: UserID)] {
    state.withLock { state in
      state.pages += 1
      return state.users
        .filter { $0.value.channels[url] != nil && !$0.value.isStopped && !$0.value.isClosed }
        .map { (key: UserKey(state.key(of: $0.key)), user: $0.key) }
        .filter { $0.key.rawValue > last?.rawValue ?? .min }
        .sorted { $0.key.rawValue < $1.key.rawValue }
        .prefix(limit).map { $0 }
    }
  }
  func isConnectedMember(_ user: UserID, of url: ChannelURL) throws -> Bool {
    state.withLock { state in
      state.users[user].map { $0.channels[url] != nil && !$0.isStopped && !$0.isClosed } ?? false
    }
  }
  func userKey(of user: UserID) throws -> UserKey? {
    state.withLock { state in
      state.users[user].map { _ in UserKey(state.key(of: user)) }
    }
  }
  /// A channel's key is its number in the order of the urls.
  func channels(
    of user: UserID, after last: ChannelKey?, limit: Int
  ) throws -> [(key: ChannelKey, url: ChannelURL)] {
    state.withLock { state in
      let mine = (state.users[user]?.channels ?? [:]).keys.sorted { $0.text < $1.text }
      return mine.enumerated().map { (ChannelKey(Int64($0.offset)), $0.element) }
        .filter { $0.0.rawValue > last?.rawValue ?? -1 }.prefix(limit).map { $0 }
    }
  }
  func overview(after last: ChannelKey?, limit: Int) throws -> [ChannelOverview] {
    state.withLock { state in
      state.channels.sorted { $0.key.text < $1.key.text }.enumerated().map { number, found in
        ChannelOverview(
          key: ChannelKey(Int64(number)), url: found.key, lastMessageAt: found.value.lastMessageAt,
          line: MemoryStore.line(found.value))
      }
      .filter { $0.key.rawValue > last?.rawValue ?? -1 }.prefix(limit).map { $0 }
    }
  }

  func store(
    _ listings: [MessageListing], ofThread parent: Int64, in url: ChannelURL, _ context: ListingContext
  ) async throws -> Bool { false }
  func memberList(of url: ChannelURL) throws -> MemberList { MemberList() }
  func hasMember(_ user: UserID, in url: ChannelURL) throws -> Bool { false }
  func beginMembers(of url: ChannelURL, anew: Bool) async throws -> MemberListing? { nil }
  func store(
    _ page: [MemberRecord], of url: ChannelURL, in listing: MemberListing, next: String?
  ) async throws -> Bool { false }
  func shownMembers(of url: ChannelURL, by listing: MemberListing) throws -> ShownMembers { ShownMembers() }
  func endMembers(
    of url: ChannelURL, _ listing: MemberListing, gone: [UserID], counted: Int64?
  ) async throws -> Bool { false }
  func settleMembers(
    of url: ChannelURL, news: Int64, came: [MemberRecord], gone: [UserID], _ source: ChangeSource
  ) async throws {}

  func line(of url: ChannelURL) throws -> ChannelLine? {
    state.withLock { $0.channels[url].map(MemoryStore.line) }
  }
  func newestMessage(of url: ChannelURL) throws -> Int64? {
    state.withLock { state in
      state.channels[url]?.rows.values.filter { $0.parentID == nil || $0.isReplyToChannel }
        .max { $0.position < $1.position }?.messageID
    }
  }

  static func line(_ channel: Channel) -> ChannelLine {
    var line = ChannelLine()
    line.changes = channel.changes
    line.unverified = channel.coverage.unverified.first
    for segment in channel.coverage.gaps { line.gaps[segment.gap?.id ?? 0] = segment.range }
    let segments = channel.coverage.segments
    guard let newest = segments.last(where: \.isCovered) else {
      line.reachesBeginning = segments.count == 1 && channel.coverage.tail.confirmedAt != nil
      return line
    }
    var low = segments.lastIndex(of: newest) ?? 0
    line.isBelowGap = low + 1 < segments.count && segments[low + 1].gap != nil
    while low > 0, segments[low - 1].isCovered { low -= 1 }
    let range = segments[low].range.lowerBound...newest.range.upperBound
    let rows = channel.rows.values.map(\.position).filter { range.contains($0) }
    line.newest = rows.max() ?? newest.range.upperBound
    line.oldest = rows.min()
    line.rows = rows.count
    line.reachedEnd = channel.coverage.tail.confirmedAt != nil && segments.dropLast().last?.isCovered == true
    let below = low > 0 ? segments[low - 1].gap?.state : nil
    line.isAboveHugeGap = below == .huge || below == .filling
    line.reachesBeginning = range.lowerBound == .start
    return line
  }

  func store(
    _ listings: [MessageListing], in url: ChannelURL, _ context: ListingContext
  ) async throws -> Bool {
    state.withLock { state in
      state.sequence += 1
      guard var channel = state.channels[url] else { return false }
      let before = channel.coverage
      state.sources.append(context.source)
      for listing in listings {
        let proof = listing.window.listing(listing.rows.map(\.position))
        var isOverreaching = false
        for claim in listing.claims(proof) {
          let isBeyond = MemoryStore.doubtMissing(claim, listing, context, &channel)
          isOverreaching = isOverreaching || isBeyond
        }
        let isOutdated =
          proof.open.map { open in
            let isNew = { (row: MessageRecord) in channel.versions[row.messageID] ?? 0 > listing.askedAt }
            let rows = channel.rows.values
            return !rows.contains { $0.position >= open.upperBound && !isNew($0) }
              && rows.contains { $0.position >= open.lowerBound && isNew($0) }
          } ?? false
        for row in listing.rows {
          MemoryStore.apply(
            row, &channel, state.sequence, askedAt: listing.askedAt, isNamed: context.settlesDoubts)
        }
        if channel.changes == nil {
          channel.changes = .time(listing.rows.map(\.createdAt).max() ?? 0)
        }
        if listing.breaks.isEmpty {
          channel.coverage.claim(
            proof, now: 1, generation: context.generation,
            isOutdated: isOutdated || isOverreaching || !listing.isEndRead)
        } else {
          channel.coverage.claimRuns(
            listing, now: 1, generation: context.generation, isOutdated: isOutdated || isOverreaching)
        }
        if !listing.isEndRead, proof.claim?.upperBound == .end, let last = proof.last {
          channel.coverage.arrive(at: last.next)
        }
        if let claim = proof.claim, !listing.isWhole, listing.breaks.isEmpty {
          channel.coverage.markUnverified(claim)
        }
        if let claim = proof.claim, !before.unverified.isEmpty, channel.doubtedAt > listing.askedAt {
          channel.coverage.markUnverified(claim)
        }
      }
      if let gap = context.fillsGap {
        channel.coverage.goOnFilling(gap, since: before, rows: listings.reduce(0) { $0 + $1.rows.count })
      }
      if let missing = context.hugeMissing {
        channel.hugeCount += 1
        if let gap = channel.coverage.gaps.last?.gap { channel.coverage.estimate(gap.id, missing: missing) }
      }
      state.channels[url] = channel
      MemoryStore.settle(context.answers, &state)
      return !channel.doubted.isEmpty
    }
  }

  private static func doubtMissing(
    _ claim: ClosedRange<Position>, _ listing: MessageListing, _ context: ListingContext,
    _ channel: inout Channel
  ) -> Bool {
    let came = Set(listing.rows.map(\.messageID))
    let positions = listing.rows.map(\.position)
    var isOverreaching = false
    for row in channel.rows.values where claim.contains(row.position) && !came.contains(row.messageID) {
      guard channel.versions[row.messageID] ?? 0 <= listing.askedAt else { continue }
      let doubt = channel.doubted[row.messageID]
      if context.settlesDoubts, let doubt, doubt.askedAt <= listing.askedAt {
        channel.rows[row.messageID] = nil
        channel.doubted[row.messageID] = nil
        continue
      }
      let isInside = positions.contains { $0 < row.position } && positions.contains { $0 > row.position }
      isOverreaching = isOverreaching || !isInside
      if channel.doubted[row.messageID] == nil {
        channel.doubted[row.messageID] = Doubt(
          position: row.position, askedAt: listing.askedAt, isInside: isInside)
      }
    }
    for (id, doubt) in channel.doubted where context.settlesDoubts && claim.contains(doubt.position) {
      guard channel.rows[id] == nil, !came.contains(id), doubt.askedAt <= listing.askedAt else { continue }
      channel.doubted[id] = nil
    }
    return isOverreaching
  }

  private static func apply(
    _ row: MessageRecord, _ channel: inout Channel, _ sequence: Int64, askedAt: Int64, isNamed: Bool = false
  ) {
    if let buried = channel.tombstones[row.messageID] {
      guard askedAt >= buried else { return }
      guard isNamed else {
        if channel.doubted[row.messageID] == nil {
          channel.doubted[row.messageID] = Doubt(position: row.position, askedAt: askedAt, isInside: false)
        }
        return
      }
      channel.tombstones[row.messageID] = nil
    }
    if let doubt = channel.doubted[row.messageID], doubt.askedAt <= askedAt {
      channel.doubted[row.messageID] = nil
      if isNamed, doubt.isInside { channel.coverage.markUnverified(row.position...row.position) }
    }
    if let old = channel.rows[row.messageID], old.updatedAt > row.updatedAt || old == row { return }
    channel.rows[row.messageID] = row
    channel.versions[row.messageID] = sequence
  }

  func store(
    _ changes: UpstreamChanges<MessageRecord, Int64>, in url: ChannelURL, _ source: ChangeSource,
    askedAt: Int64
  ) async throws -> Bool {
    state.withLock { state in
      state.sequence += 1
      guard var channel = state.channels[url] else { return false }
      for row in changes.updated { MemoryStore.apply(row, &channel, state.sequence, askedAt: askedAt) }
      for id in changes.deleted {
        channel.rows[id] = nil
        channel.doubted[id] = nil
        channel.tombstones[id] = state.sequence
      }
      if let next = changes.next { channel.changes = .token(next) }
      state.channels[url] = channel
      return !channel.doubted.isEmpty
    }
  }
  func doubted(in url: ChannelURL, below: Position?, limit: Int) throws -> [DoubtedMessage] {
    state.withLock { state in
      let all = state.channels[url]?.doubted.values.sorted { $0.position > $1.position } ?? []
      return all.filter { $0.position < below ?? .end }.prefix(limit).map {
        DoubtedMessage(position: $0.position, askedAt: $0.askedAt)
      }
    }
  }
  func channelsInDoubt() throws -> [ChannelURL] {
    state.withLock { $0.channels.filter { !$0.value.doubted.isEmpty }.map(\.key) }
  }
  func believe(against askedAt: Int64, in url: ChannelURL) async throws {
    state.withLock { state in
      guard let doubted = state.channels[url]?.doubted else { return }
      state.channels[url]?.doubted = doubted.filter { $0.value.askedAt != askedAt }
    }
  }
  func store(
    _ message: MessageRecord, in url: ChannelURL, _ source: ChangeSource, askedAt: Int64
  ) async throws -> Bool {
    state.withLock { state in
      state.sequence += 1
      guard var channel = state.channels[url] else { return false }
      MemoryStore.apply(message, &channel, state.sequence, askedAt: askedAt, isNamed: true)
      state.channels[url] = channel
      return true
    }
  }
  func delete(message id: Int64, in url: ChannelURL, _ source: ChangeSource) async throws {
    state.withLock { state in
      state.channels[url]?.rows[id] = nil
      state.channels[url]?.doubted[id] = nil
      state.channels[url]?.tombstones[id] = state.sequence
    }
  }
  func doubt(_ url: ChannelURL) async throws {
    state.withLock { state in
      guard var channel = state.channels[url] else { return }
      let before = channel.coverage
      channel.coverage.markUnverified(.start ... .end)
      channel.changes = nil
      if channel.coverage != before {
        state.sequence += 1
        channel.doubtedAt = state.sequence
      }
      state.channels[url] = channel
    }
  }
  func answered(views: [String], in url: ChannelURL, failure: UpstreamError?) async throws {
    state.withLock { state in
      for view in views {
        if failure == nil {
          state.answered[view, default: 0] += 1
        } else {
          state.refused[view, default: 0] += 1
        }
      }
    }
  }
  func beginFill(_ gap: Int64, in url: ChannelURL) async throws -> Bool {
    state.withLock { state in
      guard state.channels[url]?.coverage.beginFill(gap) == true else { return false }
      state.fills.append((url, gap))
      return true
    }
  }
  func endFill(_ gap: Int64, in url: ChannelURL) async throws {
    state.withLock { state in
      state.channels[url]?.coverage.stopFill(gap)
      state.fills.removeAll { $0 == (url, gap) }
    }
  }
  func fillsBegun() throws -> [(url: ChannelURL, gap: Int64)] { state.withLock { $0.fills } }

  // The store has only the unsent rows that a test scripts: sending is tested over the real cache.
  func recoverOutbox() async throws -> [(lane: OutboxLaneName, wait: Int64)] { [] }
  func advance(
    _ lane: OutboxLaneName, after ended: EndedOutboxJob?, mayBegin: Bool, mayMarkRead: Bool, isLinkBack: Bool,
    among sends: Int, _ policy: OutboxPolicy, random: UInt64
  ) async throws -> LaneProgress { try advances.withLock { $0 }?(ended) ?? LaneProgress() }
  func keepUpOutbox() async throws -> Int64? { nil }
  func advanceUploads(
    _ lane: OutboxLaneName, after ended: EndedUpload?, mayBegin: Bool, areOffered: Bool,
    _ policy: OutboxPolicy, random: UInt64
  ) async throws -> UploadProgress { UploadProgress() }
  func noteProgress(_ percent: Int64, of row: Int64, in lane: OutboxLaneName) {}
  func isUploadWanted(_ row: Int64) throws -> Bool { true }
  func path(of file: SpoolName) -> String? { nil }
}
