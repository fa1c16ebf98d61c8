import ChatCache
import ChatModel

/// The work that is due for one user.
struct UserWork: Sendable {
  /// How far the user's channels are listed.
  enum Phase: Sendable, Equatable {
    /// The upstream was not asked about the user yet.
    case connecting
    /// Paging through all channels; a first listing or a sweep.
    case listing(after: String?, done: Int)
    /// All pages are stored; the channels that no page contained are asked about.
    case sweeping
    /// All channels are listed; changes are polled.
    case steady

    /// Whether a listing or a sweep pages through the user's channels.
    var isListing: Bool {
      switch self {
      case .listing, .sweeping: true
      case .connecting, .steady: false
      }
    }
  }

  var state: UserState
  var phase = Phase.connecting
  var isSynced: Bool
  var isBusy = false
  /// Whether the user's data is being removed: no job begins until that has ended (B4).
  var isHeld = false
  /// Whether a client waits for the poll that is due.
  var isAwaited = false
  var hasUnsent = false
  /// Whether the changes since the user's last connect are still being fetched: unsent rows wait for that
  /// (B30).
  var isCatchingUp = true
  /// Whether a listing ended and no poll since. After a connect, clients' reads and sends wait for that poll.
  var isJustListed = false
  /// Whether a question about the user's channels was not answered, and none since told all changes.
  var isUnknown = false
  /// Whether a webhook told that the user left a channel, and no job began since. The answer of a job under
  /// way may be older.
  var isToldOfLeaving = false
  /// True from the link's return until the upstream answers a question about the user.
  var isUnanswered = false
  /// Whether a stopped or closed user connects again: the user's channels get jobs as soon as that is done.
  var isReturning = false
  /// The number of channels in the running or the last listing.
  var channelsListed = 0
  /// Whether the cache has data of the user: then one refusal does not close the user (B5).
  var isCached = false
  var pollAt: Int64
  /// When all channels are to be listed again, because no changelog tells which ones the user has left. A
  /// listing under way may have met a channel before that.
  var sweepAt: Int64 = .max
  var wait: Backoff
  /// The waits of listings that begin again because the upstream refused a token. Nil: all changes were told
  /// since it last did.
  var waitAfterLostToken: Backoff?
  /// The upstream's last reason for refusing the user.
  var denial: UpstreamError?
  /// Whether the last poll told of crowded channels alone: the next one leaves out members and their
  /// read positions.
  var isInCrowds = false
  /// Polls since the upstream was last asked about the user itself.
  var polls = 0
  /// After so many polls the upstream is asked about the user: it may answer polls of a user whom it
  /// deactivated (B5).
  static let pollsPerAsking = 20

  /// Makes the user idle after a long time without a request (B4). True if that happened now.
  mutating func rest(now: Int64) -> Bool { state.tick(now: now, hasUnsent: hasUnsent) }

  /// A user's turn among the users who wait.
  struct Turn: Equatable {
    /// Whether the job pages through the user's channels, or is the first poll after that.
    let isListing: Bool
    /// Whether the user comes before the others: a client waits for the poll or the listing, nothing of the
    /// user is cached yet, unsent messages wait for the poll, or only the listing's end and the poll after it
    /// are left.
    let isPreferred: Bool
    /// The moment at which the job may begin. Who waits longest is next.
    let since: Int64
  }

  /// The user's next turn; nil: no job may begin. A sweep begins instead of the first poll that is due after
  /// `sweepAt`, so `sweepAt` itself wakes nobody.
  var turn: Turn? {
    guard isFree else { return nil }
    return Turn(
      isListing: phase.isListing || isJustListed,
      isPreferred: isAwaited || phase == .sweeping || isJustListed || phase == .connecting && !isCached
        || isCatchingUp && hasUnsent, since: pollAt)
  }

  /// Begins to page through all channels.
  mutating func beginListing() {
    phase = .listing(after: nil, done: 0)
    isJustListed = false
    sweepAt = .max
  }

  /// The changes since the user's last connect are stored.
  mutating func caughtUp() {
    isCatchingUp = false
    isJustListed = false
  }

  /// A page of the channels is stored. The user waits behind the others for the next page.
  mutating func listed(_ count: Int, next: String?, now: Int64) {
    wait.reset()
    if case .listing(_, let done) = phase {
      channelsListed = done + count
      phase = next == nil ? .sweeping : .listing(after: next, done: channelsListed)
    }
    if next != nil { pollAt = now }
  }

  /// When the user goes idle without a further request (B4).
  var restAt: Int64 { state.seenAt + UserState.idleAfter }

  /// Whether a job for this user may begin.
  var isFree: Bool { state.isActive && !isBusy && !isHeld }
}

extension Plan {
  /// Begins the work for a user of the cache or a new one.
  package mutating func add(
    _ user: UserID, isSynced: Bool, isCached: Bool, phase: UserState.Phase = .connecting,
    refusedAt: Int64? = nil,
    now: Int64
  ) {
    guard users[user] == nil else { return }
    users[user] = UserWork(
      state: UserState(phase, now: now, refusedAt: refusedAt), isSynced: isSynced, pollAt: now,
      wait: Backoff(maximum: pace.maximumBackoff))
    users[user]?.isCached = isCached
    changed(user)
  }

  /// A request of the user came (B4).
  package mutating func seen(_ user: UserID, now: Int64) {
    guard var work = users[user] else { return }
    let isAskedAgain = !work.isCached && work.state.seenUnknown(now: now)
    if work.state.seen(now: now) || isAskedAgain {
      rested.insert(user)
      work.phase = .connecting
      work.denial = nil
      work.pollAt = now
    }
    users[user] = work
    changed(user)
  }

  /// The client wants the user connected, in whatever phase the user is (B2).
  package mutating func connect(_ user: UserID, now: Int64) {
    if users[user] == nil { add(user, isSynced: false, isCached: false, now: now) }
    urge(now: now)
    let before = users[user]?.state.phase
    let wasAway = before == .stopped || before == .closed
    guard var work = users[user], work.state.connect(now: now) else { return }
    if before == .idle { rested.insert(user) }
    work.phase = .connecting
    work.isReturning = wasAway
    work.denial = nil
    work.pollAt = now
    users[user] = work
    changed(user)
  }

  /// The users who became idle or active since the last call: their channels are then no longer polled, or
  /// polled again.
  mutating func takeRested() -> Set<UserID> {
    defer { rested = [] }
    return rested
  }

  /// Whether the user has just come back. True once.
  mutating func takeReturn(of user: UserID) -> Bool {
    guard let work = users[user], work.isReturning, work.state.phase == .connected else { return false }
    users[user]?.isReturning = false
    return true
  }

  /// A client waits for changes among the user's channels. False: a listing of the channels is not complete
  /// yet.
  mutating func pollNow(_ user: UserID, now: Int64) -> Bool {
    guard users[user]?.phase == .steady else { return false }
    users[user]?.pollAt = now
    users[user]?.isAwaited = true
    return true
  }

  /// A webhook tells that the user left a channel. The user's changes are unknown until the answer to a poll
  /// that begins from now on (B1).
  mutating func toldOfLeaving(_ user: UserID, now: Int64) {
    guard var work = users[user], work.state.isActive else { return }
    work.isUnknown = true
    work.isToldOfLeaving = true
    // After failures the poll waits as before. Any other job is followed by a poll.
    if work.phase == .steady, work.denial == nil, work.wait.attempts == 0 {
      work.pollAt = min(work.pollAt, now)
    }
    if lacks(.channelChangelog) { work.sweepAt = min(work.sweepAt, now) }
    users[user] = work
  }

  /// The client wants no work for the user (B4).
  package mutating func stop(_ user: UserID) {
    users[user]?.state.stop()
    changed(user)
  }

  /// Asks nothing for the user until `letGo` or `remove`.
  mutating func hold(_ user: UserID) { users[user]?.isHeld = true }

  /// The user's data was not removed, so the work goes on.
  mutating func letGo(_ user: UserID, now: Int64) {
    users[user]?.isHeld = false
    users[user]?.pollAt = now
  }

  /// The user's data was removed.
  package mutating func remove(_ user: UserID) {
    users[user] = nil
    changed(user)
  }

  /// The interval between two polls of a user.
  package func userInterval(now: Int64) -> Int64 { pace.userInterval(polled(now: now)) }

  /// The user's sync status; nil if the user was never added.
  package func status(of user: UserID) -> UserSyncStatus? {
    guard let work = users[user] else { return nil }
    return UserSyncStatus(
      phase: work.state.phase, isBarred: work.state.isBarred, isSynced: work.isSynced,
      isCached: work.isCached,
      channelsListed: work.channelsListed, denial: work.denial, link: link.state)
  }

  /// The user who waits longest of those of whom the upstream is to be asked whether it knows them.
  func pickConnecting(now: Int64) -> SyncJob? {
    users.firstConnect.flatMap { $0.moment <= now ? .connect($0.user) : nil }
  }

  /// The next step of a user's listing that is almost done, or whose user makes requests: until it is done,
  /// channels that its first page lacks are asked for alone, and until the poll after it reads and sends
  /// wait.
  mutating func pickAwaitedListing(now: Int64) -> SyncJob? {
    pickForUser(now: now) { users, now in users.preferredListing(now: now) }
  }

  mutating func pickForUser(now: Int64, isListing: Bool) -> SyncJob? {
    pickForUser(now: now) { users, now in users.next(isListing: isListing, now: now) }
  }

  private mutating func pickForUser(
    now: Int64, _ next: (inout UserTable, Int64) -> UserID?
  ) -> SyncJob? {
    while let id = next(&users, now), let work = users[id] {
      switch work.phase {
      case .connecting: return .connect(id)
      case .listing(let after, _): return .list(id, after: after)
      case .sweeping: return .endSweep(id)
      case .steady:
        if work.polls >= UserWork.pollsPerAsking { return .connect(id) }
        guard lacks(.channelChangelog) else { return .channelChanges(id) }
        guard work.sweepAt <= now else { return .topChannels(id) }
        users[id]?.beginListing()
      }
    }
    return nil
  }

  mutating func endedForUser(_ user: UserID, _ job: SyncJob, _ outcome: Outcome, now: Int64) {
    guard var work = users[user] else { return }
    defer { users[user] = work }
    note(outcome, in: &work, now: now)
    switch outcome {
    case .acknowledged:
      work.state.acknowledged()
      work.denial = nil
      work.isCached = true
      work.polls = 0
      work.wait.reset()
      work.pollAt = now
      // A user who is polled was asked about between two polls.
      if work.phase == .steady { break }
      work.isCatchingUp = true
      guard work.isSynced else {
        work.beginListing()
        break
      }
      work.phase = .steady
      // Without a changelog, changes since the last run are only found by a listing of all channels.
      if lacks(.channelChangelog) { work.sweepAt = min(work.sweepAt, now) }
    case .listed(let next, let found):
      for activity in found { met(activity, now: now) }
      work.listed(found.count, next: next, now: now)
    case .allListed(let found, let isOnePage):
      for activity in found { met(activity, now: now) }
      work.listed(found.count, next: nil, now: now)
      endedListing(of: &work, now: now)
      if isOnePage { listedAtOnce(&work, now: now) }
    case .changed(let found, let hasMore):
      work.wait.reset()
      for activity in found { met(activity, now: now) }
      // A client may have asked for a poll after this one began, or a webhook may have told of a leaving.
      work.pollAt = hasMore || work.isAwaited || work.isToldOfLeaving ? now : now + pause(of: work, now: now)
      if !hasMore {
        work.caughtUp()
        work.polls += 1
        work.waitAfterLostToken = nil
      }
    case .tokenLost: lostToken(&work, outcome, now: now)
    case .refused:
      work.pollAt = now + pace.refusedRetry
    case .lacks(let capability):
      learn(capability, isOffered: false, now: now)
      work.sweepAt = now
      work.pollAt = now
    case .failed(let error): failed(&work, job, error, outcome, now: now)
    case .storeFailed: work.pollAt = now + wait(&work.wait, outcome)
    default:
      if job == .endSweep(user) { endedListing(of: &work, now: now) }
      work.wait.reset()
      // After a listing the user keeps its place: the poll comes before the listings of others.
      if job == .endSweep(user) { break }
      work.pollAt = now + (work.phase == .steady ? userInterval(now: now) : 0)
    }
  }

  /// Lists the user's channels again: the first time at once, then after waits that grow. A server may refuse
  /// every token (B35).
  private mutating func lostToken(_ work: inout UserWork, _ outcome: Outcome, now: Int64) {
    work.beginListing()
    work.pollAt = now
    guard var backoff = work.waitAfterLostToken else {
      work.waitAfterLostToken = Backoff(maximum: pace.maximumBackoff)
      return
    }
    work.pollAt += wait(&backoff, outcome)
    work.waitAfterLostToken = backoff
  }

  /// All of the user's channels are listed.
  private func endedListing(of work: inout UserWork, now: Int64) {
    work.isSynced = true
    work.isJustListed = true
    work.phase = .steady
    if lacks(.channelChangelog) { work.sweepAt = min(work.sweepAt, now + pace.sweep) }
  }

  /// One answer had all of the user's channels, so no poll follows at once. The first poll of all shows
  /// whether there is a changelog.
  private mutating func listedAtOnce(_ work: inout UserWork, now: Int64) {
    guard capabilities[.channelChangelog] != nil, !work.isToldOfLeaving else { return }
    work.pollAt = now + pause(of: work, now: now)
    work.isAwaited = false
    work.caughtUp()
  }

  /// Notes whether the upstream answered, and whether the user's changes are known after this outcome.
  private func note(_ outcome: Outcome, in work: inout UserWork, now: Int64) {
    if outcome.isAnswer { work.isUnanswered = false }
    work.isUnknown = work.isToldOfLeaving || outcome.leavesChangesUnknown ?? work.isUnknown
    // Without a changelog only a listing of all channels tells what changed meanwhile.
    if work.isUnknown, !outcome.isAnswer, !work.phase.isListing, lacks(.channelChangelog) {
      work.sweepAt = min(work.sweepAt, now)
    }
  }

  /// The upstream offers no changelog any more: the channels of all users are listed.
  mutating func sweepAll(now: Int64) {
    for (user, work) in users.works { users[user]?.sweepAt = min(work.sweepAt, now) }
  }

  /// The time until the user's next poll. After the first one since a connect it is a random part of the
  /// interval: users who connected together would otherwise be polled together for good.
  private mutating func pause(of work: UserWork, now: Int64) -> Int64 {
    let interval = userInterval(now: now)
    guard work.isCatchingUp else { return interval }
    return Int64.random(in: 0...interval, using: &random)
  }

  private mutating func failed(
    _ work: inout UserWork, _ job: SyncJob, _ error: UpstreamError, _ outcome: Outcome, now: Int64
  ) {
    if error.deniesUser, case .connect = job {
      work.denial = error
      switch work.state.refused(now: now, isCached: work.isCached) {
      case .doubtful(let moment):
        work.pollAt = moment
        // A second refusal counts only if another call has succeeded, so a probe is made.
        if !work.state.hasKeyWorkedSince { isProbeWanted = true }
      case .closed, .unknown: break
      }
      return
    }
    // An upstream that answers nothing about the user is asked for changes nevertheless.
    if case .connect = job { work.polls = 0 }
    // A rejection of the user's own list may mean that the user is gone: ask about the user itself.
    if error.deniesUser { work.phase = .connecting }
    work.pollAt = now + wait(&work.wait, outcome)
  }
}

/// The status of a user, for `GET /v1/connection`.
package struct UserSyncStatus: Sendable, Equatable {
  /// How far the user is synced.
  package let phase: UserState.Phase
  /// Whether the user was closed and is not acknowledged again: nothing is answered from the cache (B5).
  package let isBarred: Bool
  /// Whether all channels were listed once.
  package let isSynced: Bool
  /// Whether the cache has data of the user.
  package let isCached: Bool
  /// Channels listed so far by the running listing, or by the last one.
  package let channelsListed: Int
  /// Why the upstream refused the user, if it did.
  package let denial: UpstreamError?
  /// The state of the link, which all users share.
  package let link: Link.State

  /// The contract's word (B3).
  package var word: StaticString {
    switch (phase, link) {
    case (.stopped, _), (.closed, _): "stopped"
    case (.idle, _): "idle"
    case (_, .offline): "offline"
    case (.connecting, _), (_, .unknown): "connecting"
    case (.connected, .online): "online"
    }
  }
}
