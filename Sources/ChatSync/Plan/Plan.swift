import ChatCache
import ChatModel

/// Decides which sync jobs come next, as a value: the worker reports what happened and gets the next jobs.
/// It knows no sockets, threads or clocks; times are monotonic milliseconds that the caller gives.
///
/// Order (B30): the link's probe; then webhook notes and open channels; then unsent messages; then users
/// (acknowledgement, channel changelog), the longest wait first; then first listings; then channels that fell
/// behind; then prefetch, verification and gaps in turns. Each class has turns of its own (`Share`). A user
/// and a channel have one job at a time, so that no job overtakes another. A failed job waits with backoff
/// and holds back only its own user or channel.
package struct Plan: Sendable {
  /// The one link to the upstream.
  package private(set) var link: Link
  /// How often the upstream is asked.
  package let pace: Pace
  var users = UserTable()
  var channels: ChannelTable
  /// The lanes with rows that wait for a try.
  var lanes = LaneTable()
  /// The lanes with files that wait for their upload.
  var uploads = LaneTable()
  private var offers = Capabilities()
  /// Users whose status may have changed since `takeChangedUsers`.
  private var changedUsers: Set<UserID> = []
  private(set) var running: Set<SyncJob> = []
  /// The running jobs that take no slot: listings that clients wait for, and news of open channels.
  private(set) var withoutSlot: Set<SyncJob> = []
  /// Running jobs that began before their data was cleared (B58): their outcome is ignored.
  var overtaken: Set<SyncJob> = []
  var isProbeWanted = false
  /// The number of jobs begun so far; it chooses the class whose turn is next.
  var turns = 0
  /// The number of jobs begun so far for views and webhook notes.
  var viewTurns = 0
  /// The users who became idle or active since `takeRested`.
  var rested: Set<UserID> = []
  /// Whether the cache has room for prefetch, which pauses without it (B33).
  package var hasRoom = true
  /// Whether rows of everything are still to be deleted (B58). The plan then begins nothing whose answer the
  /// cache would not store.
  package var isClearing = false
  var prefetchBucket: TokenBucket
  var prefetchNotBefore: Int64 = 0
  /// When the last prefetch or fill began.
  var prefetchedAt: Int64 = -1_000_000
  /// How late users' polls are.
  var lateness = PollLateness()
  /// When the running usual polls began.
  var pollsBegun: [UserID: Int64] = [:]
  /// Since when the link is up: polls could not begin before.
  private(set) var onlineAt: Int64 = 0
  /// When the upstream last refused a request because of its rate.
  private var refusedForRateAt: Int64?
  /// Whether the last job was one that a client waits for and that came before all turns.
  var wasAwaited = false
  var webhooks = WebhookTrust()
  /// Whether clients' own reads wait for the upstream: prefetch and fills are then slow (B33).
  package var isForegroundWaiting = false
  var random: SplitMix
  /// Changes of the link that are not announced yet.
  private var announcements: [Link.State] = []

  /// A plan without users.
  package init(pace: Pace = Pace(), hasUpstream: Bool = true, generation: Int64 = 1, seed: UInt64) {
    self.pace = pace
    channels = ChannelTable(maximumBackoff: pace.maximumBackoff)
    link = Link(hasUpstream: hasUpstream, generation: generation, maximumBackoff: pace.maximumBackoff)
    prefetchBucket = TokenBucket(rate: pace.prefetchRate, burst: max(1, pace.prefetchRate))
    random = SplitMix(state: seed)
  }

  /// Random numbers for the jitter.
  struct SplitMix: RandomNumberGenerator, Sendable {
    var state: UInt64
    mutating func next() -> UInt64 {
      state &+= 0x9E37_79B9_7F4A_7C15
      var mixed = state
      mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
      mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
      return mixed ^ (mixed >> 31)
    }
  }

  /// The link's changes since the last call, for the event log.
  package mutating func takeAnnouncements() -> [Link.State] {
    defer { announcements = [] }
    return announcements
  }

  /// Users whose status may have changed since the last call.
  mutating func takeChangedUsers() -> Set<UserID> {
    defer { changedUsers = [] }
    return changedUsers
  }

  mutating func changed(_ user: UserID) { changedUsers.insert(user) }

  // MARK: What happened

  /// What the upstream offers, as far as it is known.
  var capabilities: [Capability: Bool] { offers.known }

  /// Notes whether the upstream offers this.
  package mutating func learn(_ capability: Capability, isOffered: Bool, now: Int64 = 0) {
    let isNews = !isOffered && !lacks(capability)
    offers.learn(capability, isOffered: isOffered, now: now)
    if isNews, capability == .channelChangelog { sweepAll(now: now) }
  }

  /// The call was refused while another one succeeded with the same key. True: it counts as not offered now.
  mutating func refused(_ capability: Capability, now: Int64) -> Bool {
    met(nil, now: now)
    return offers.refuse(capability)
  }

  /// Whether the upstream is known not to offer this.
  func lacks(_ capability: Capability) -> Bool { capabilities[capability] == false }

  /// A client connects or sends: an offline link is tried at once (B3).
  package mutating func urge(now: Int64) { act(link.urge(now: now)) }

  /// A request ended, without an error or with this one: tells the link.
  package mutating func met(_ error: UpstreamError?, now: Int64) {
    switch error {
    case nil, .rejection:
      let wasOnline = link.isOnline
      act(link.succeeded())
      if error == nil { keyWorked() }
      if !wasOnline { cameOnline(now: now) }
    case .rateLimited: refusedForRateAt = now
    case .canceled: break
    case .unauthorized: act(link.refused(now: now, using: &random))
    case .untrusted: act(link.failed(.untrusted, now: now, using: &random))
    case .unreachable: act(link.failed(now: now, using: &random))
    case .unusable(_, let wait) where wait != nil || !link.isOnline:
      act(link.failed(now: now, retryAfter: wait, using: &random))
    case .unreadable, .unusable: act(link.metBadAnswer(now: now))
    }
  }

  private mutating func keyWorked() {
    for user in users.refused { users[user]?.state.keyWorked() }
  }

  private mutating func act(_ actions: [Link.Action]) {
    for action in actions {
      switch action {
      case .probe: isProbeWanted = true
      case .announce(let state): announcements.append(state)
      }
    }
  }

  /// Anything may have changed meanwhile, so active users and open channels are due now. Answers about users
  /// that were asked for before the loss do not count. Without a changelog only a listing of all channels
  /// tells what changed.
  private mutating func cameOnline(now: Int64) {
    onlineAt = now
    overtaken.formUnion(running.filter { $0.user != nil })
    for (id, work) in users.works where work.state.isActive {
      users[id]?.isCatchingUp = true
      // Whom the upstream has not answered since the link was last back keeps the pauses: it may fail for
      // this user alone, and would take the link down again at once.
      if !work.isUnanswered {
        users[id]?.pollAt = now
        users[id]?.wait.reset()
        users[id]?.isUnanswered = true
      }
      if lacks(.channelChangelog) { users[id]?.sweepAt = min(work.sweepAt, now) }
    }
    for url in channels.troubled {
      channels[url]?.wait.reset()
      channels[url]?.retryAt = nil
      channels[url]?.heldBack = HeldBack()
    }
    for url in channels.open {
      channels[url]?.checkAt = now
      channels[url]?.isCatchingUp = true
    }
    releaseLanes(now: now)
  }

  // MARK: What to do

  /// The jobs to start now; they count as running until `ended`.
  package mutating func next(now: Int64) -> [SyncJob] {
    offers.forgetOld(now: now)
    act(link.tick(now: now))
    var jobs: [SyncJob] = []
    if isProbeWanted {
      isProbeWanted = false
      if running.insert(.probe).inserted { jobs.append(.probe) }
    }
    rest(now: now)
    guard link.isOnline else { return jobs }
    while let job = pickForSlot(now: now) {
      begin(job, now: now)
      jobs.append(job)
    }
    while let job = pickWithoutSlot(now: now) {
      begin(job, now: now)
      withoutSlot.insert(job)
      jobs.append(job)
    }
    while hasFreeUploadSlot, let lane = pickUpload(now: now) {
      running.insert(.upload(lane))
      uploads[lane]?.isBusy = true
      jobs.append(.upload(lane))
    }
    return jobs
  }

  private mutating func begin(_ job: SyncJob, now: Int64) {
    running.insert(job)
    notePoll(job, now: now)
    if let user = job.user {
      users[user]?.isBusy = true
      users[user]?.isAwaited = false
      users[user]?.isToldOfLeaving = false
    }
    if let url = job.channel { channels[url]?.started(job, now: now) }
    if case .send(let lane) = job { startedSending(lane) }
  }

  /// The first page of the user's first listing, which begins at once and takes no slot, because a client
  /// waits for it. Nil: that page is stored, or it may not be asked for now.
  mutating func beginFirstPage(of user: UserID, now: Int64) -> SyncJob? {
    guard link.isOnline, !isClearing, let work = users[user], !work.isSynced, work.isFree, work.pollAt <= now,
      case .listing(after: nil, _) = work.phase
    else { return nil }
    let job = SyncJob.list(user, after: nil)
    begin(job, now: now)
    withoutSlot.insert(job)
    return job
  }

  /// Users without a request for a long time go idle (B4).
  private mutating func rest(now: Int64) {
    while let id = users.nextToRest(now: now, later: Plan.longestRestLook) {
      guard users[id]?.rest(now: now) == true else { continue }
      changed(id)
      rested.insert(id)
    }
  }

  /// The longest time between two checks whether a user goes idle (ms).
  private static let longestRestLook: Int64 = 60_000

  /// The lanes that share a slot. Each has a commit and a request in turns, so some send while others commit,
  /// and those that wait for a commit share it. The HTTP client limits the requests at once.
  private static let sendsPerSlot = 12

  /// How many lanes are sending.
  package var sends: Int { running.count(where: \.isSend) }

  /// The next job, if there is a slot for it. A lane shares the slot of other lanes. While other work is due,
  /// it does so only in the first of several slots, and not where the upstream limits the rate: that work
  /// would lose its share.
  private mutating func pickForSlot(now: Int64) -> SyncJob? {
    if hasFreeSlot { return pick(now: now) }
    guard !sends.isMultiple(of: Plan.sendsPerSlot) else { return nil }
    let isFirstSlot = sends < Plan.sendsPerSlot && pace.jobs > 1
    if !isFirstSlot || isRateLimited(now: now), isOtherWorkDue(now: now) { return nil }
    return pickLane(now: now).map { .send($0) }
  }

  /// Whether a job in the background may take a slot. Of several slots these jobs leave one free, as their
  /// requests do (`RequestQueue`): they may be slow, and must not hold up sends, views and new users. They do
  /// not where the upstream limits the rate, because they would lose their share.
  func mayBeginInBackground(now: Int64) -> Bool {
    guard !isRateLimited(now: now) else { return true }
    let count = running.count { isInBackground($0) && !withoutSlot.contains($0) }
    return count < max(1, pace.jobs - 1)
  }

  /// Whether the job is one of many that no client waits for.
  private func isInBackground(_ job: SyncJob) -> Bool {
    switch job {
    case .list, .endSweep, .prefetch, .verify, .fill: true
    case .news(let url), .check(let url): !isOpen(url)
    default: false
    }
  }

  /// News of an open channel, which somebody looks at, if the slot that news alone have is free.
  private func pickWithoutSlot(now: Int64) -> SyncJob? {
    hasFreeNewsSlot(now: now) ? pickOpenNews(now: now) : nil
  }

  /// Whether a slot for news of open channels is free. There is none where the upstream limits the rate,
  /// because other work would lose its share.
  private func hasFreeNewsSlot(now: Int64) -> Bool {
    let most = max(1, pace.jobs / Plan.slotsPerNews)
    return !isRateLimited(now: now) && withoutSlot.count(where: \.isNews) < most && !isClearing
  }

  /// For so many slots there is one more for news.
  private static let slotsPerNews = 4

  private var hasFreeSlot: Bool {
    let slotsOfSends = (sends + Plan.sendsPerSlot - 1) / Plan.sendsPerSlot
    let others = running.count {
      $0 != .probe && !$0.isSend && !$0.isUpload && !withoutSlot.contains($0)
    }
    return others + slotsOfSends < pace.jobs
  }

  /// Whether the upstream is known to limit the rate of requests.
  private func isRateLimited(now: Int64) -> Bool {
    pace.isRateKnown || refusedForRateAt.map { now - $0 < Plan.rateMemory } ?? false
  }

  /// How long the upstream counts as limited after it refused a request for its rate (ms).
  private static let rateMemory: Int64 = 300_000

  private func isOtherWorkDue(now: Int64) -> Bool {
    !isClearing && othersDueAt(now: now) <= now
  }

  /// When the next job of a user or channel may begin in a slot.
  private func othersDueAt(now: Int64) -> Int64 {
    let withBackground = mayBeginInBackground(now: now)
    return min(
      users.dueAt(withListings: withBackground) ?? .max, channelsDueAt(withBackground: withBackground))
  }

  /// The next moment at which `next` may have a job; nil: not before something happens.
  package func wakeAt(now: Int64) -> Int64? {
    var soonest = link.nextProbeAt ?? .max
    if link.isOnline, hasFreeSlot {
      let dueAt = isClearing ? users.firstConnect?.moment : othersDueAt(now: now)
      soonest = min(soonest, dueAt ?? .max)
      if soonest <= now { return now + 1 }
      soonest = min(soonest, lanes.first?.dueAt ?? .max)
    }
    if link.isOnline, hasFreeNewsSlot(now: now) { soonest = min(soonest, openNewsDueAt) }
    if link.isOnline, hasFreeUploadSlot { soonest = min(soonest, uploads.first?.dueAt ?? .max) }
    return soonest == .max ? nil : max(soonest, now + 1)
  }

  /// A job ended.
  package mutating func ended(_ job: SyncJob, _ outcome: Outcome, now: Int64) {
    running.remove(job)
    withoutSlot.remove(job)
    // No job begins while the link is down.
    let isFromBefore = job.user != nil && !link.isOnline
    note(outcome, job, now: now)
    noteAnswer(job, outcome, now: now)
    if overtaken.remove(job) != nil || isFromBefore {
      endedOvertaken(job, now: now)
    } else if case .send(let lane) = job {
      endedSending(lane, outcome, now: now)
    } else if case .upload(let lane) = job {
      endedUpload(lane, outcome, now: now)
    } else if let user = job.user {
      users[user]?.isBusy = false
      changed(user)
      endedForUser(user, job, outcome, now: now)
    } else if let url = job.channel {
      endedInChannel(url, job, outcome, now: now)
    }
  }

  private mutating func note(_ outcome: Outcome, _ job: SyncJob, now: Int64) {
    // The outcome of each request of a lane was noted when the request ended.
    if job.isSend || job.isUpload { return }
    guard job == .probe else {
      switch outcome {
      case .failed(let error): met(error, now: now)
      case .storeFailed: break
      default: met(nil, now: now)
      }
      return
    }
    switch outcome {
    case .failed(.unauthorized): act(link.probeFailed(.auth, now: now, using: &random))
    case .failed(.untrusted): act(link.probeFailed(.untrusted, now: now, using: &random))
    case .failed(.rejection), .done:
      let wasOnline = link.isOnline
      act(link.probeSucceeded())
      if case .done = outcome { keyWorked() }
      if !wasOnline { cameOnline(now: now) }
    case .failed(.rateLimited) where link.isOnline: act(link.probeSucceeded())
    case .failed(let error):
      act(link.probeFailed(.unreachable, now: now, retryAfter: error.retryAfter, using: &random))
    default: act(link.probeFailed(.unreachable, now: now, using: &random))
    }
  }

  /// How long the failed job waits.
  mutating func wait(_ backoff: inout Backoff, _ outcome: Outcome) -> Int64 {
    if case .failed(let error) = outcome {
      return backoff.next(retryAfter: error.retryAfter, using: &random)
    }
    return backoff.next(using: &random)
  }
}
