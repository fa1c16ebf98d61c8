import ChatCache
import ChatModel
import Platform

/// Keeps the cache in step with the upstream: runs what the plan says, and serves clients' requests for
/// fresher data.
///
/// The plan decides, the jobs (`SyncWorker+…`) ask and store, this actor brings both together: a job
/// is a task, its outcome goes back into the plan, and a timer wakes the plan when time alone makes something
/// due.
package actor SyncWorker {
  let upstream: any Upstream
  let store: any SyncStore
  let clock: Clock
  /// Calls that must not overtake each other: views opened and closed, and data cleared.
  nonisolated let ordered = OrderedCalls()
  /// The status of link and users, for callers that may not wait.
  nonisolated let board: SyncStatusBoard
  /// Counts of how send requests ended.
  package nonisolated let sendingCounts = SendingCounts()
  var plan: Plan
  var tasks: [SyncJob: Task<Void, Never>] = [:]
  private var timer: Task<Void, Never>?
  /// When the timer wakes the plan (monotonic ms).
  private var timerAt: Int64 = 0
  private var announcing: Task<Void, Never>?
  /// The running look at channels (`SyncWorker+Attendance`).
  private var sorting: Task<Void, Never>?
  /// The number of looks at single channels that began, to see whether active users are in them.
  var looks = 0
  /// The latest look at each channel that is being looked at.
  var looksUnderWay: [ChannelURL: Int] = [:]
  /// The active member that the last look found, where it had to read many members.
  var activeMembers: [ChannelURL: UserID] = [:]
  /// When closed users are next removed.
  private var expiresAt: Int64 = 0
  private var expiring: Task<Void, Never>?
  /// When unsent rows are next checked for ended lifetimes.
  var upkeepAt: Int64 = 0
  var keepingUp: Task<Void, Never>?
  /// How a lane's last job ended, if the commit of that failed: the lane's next turn stores it.
  var endedSends: [OutboxLaneName: EndedOutboxJob] = [:]
  /// How a lane's last upload ended, if the commit of that failed: the lane's next turn stores it.
  var endedUploads: [OutboxLaneName: EndedUpload] = [:]
  /// The rows whose files are being uploaded.
  var uploading: [OutboxLaneName: Int64] = [:]
  /// The operator's choices about sending.
  let outboxPolicy: OutboxPolicy
  var random = SystemRandomNumberGenerator()
  /// The running request whether files can be uploaded by themselves.
  private var asking: Task<Void, Never>?
  private(set) var isStopped = false
  /// The running sweeps. A sweep that a restart interrupts begins again.
  var sweeps: [UserID: Sweep] = [:]
  /// Clients' reads under way: identical requests share one (B15).
  var reads: [Read: Task<SyncOutcome, Never>] = [:]
  /// The requests that wait for a job of the plan.
  var waiters: [Awaited: Waiters] = [:]
  /// Views whose first upstream answer is still owed, and whether they were told of a failure already (B16).
  var unanswered: [ChannelURL: TextMap<Bool>] = [:]
  /// The webhook notes of each channel since its last check.
  var pendingNotes: [ChannelURL: PendingNotes] = [:]
  /// Since when the link is online (wall ms). Webhooks may have missed older messages.
  private var onlineSince = Int64.max
  /// The doubts that wait for a second listing, by channel (B27).
  var doubtRounds: [ChannelURL: DoubtRound] = [:]
  /// The oldest doubt that could not be settled: the next settle job asks about older ones.
  var doubtsTriedDownTo: [ChannelURL: Position] = [:]
  /// For each channel whose last listing of members proved nothing: the time before which members are not
  /// listed again.
  var unprovenMembers: [ChannelURL: Int64] = [:]
  /// Whether the upstream answered a listing of a thread with other messages. The channel is then listed
  /// instead.
  var ignoresThreads = false
  /// Messages of each channel before which an item of a page could not be read: the messages of their
  /// milliseconds may be missing.
  var besideUnreadable: [ChannelURL: Set<Position>] = [:]
  /// Whether channels come with the fields that only the asking user sees.
  var memberViews = MemberViews()
  /// Whether the upstream refuses polls that leave out members and read positions.
  var pollsNeedMembers = false
  var handshakes: [UserID: [CheckedContinuation<Void, Never>]] = [:]
  /// The reads that wait for the changes since their user's last connect.
  var catchUps: [UserID: [CheckedContinuation<Void, Never>]] = [:]

  /// The users to whom reads show nothing new, and why their changes are not known.
  var heldRights: [UserID: Unknown] = [:]
  /// The requests that wait until their user's changes are known.
  var rightsWaiters: [UserID: [Reply<Void>]] = [:]

  /// A sweep's number, the log's mark when it began, and the time at which its changelog begins.
  struct Sweep { let number: Int64, mark: Int64, since: Int64 }

  struct PendingNotes {
    var isRealtime = false
    /// Whether older messages may have changed, too.
    var isMissed = false
  }

  /// A worker that does nothing until `start`.
  package init(
    upstream: any Upstream, store: any SyncStore, pace: Pace = Pace(),
    outboxPolicy: OutboxPolicy = OutboxPolicy(), clock: Clock = .system, seed: UInt64
  ) {
    self.outboxPolicy = outboxPolicy
    self.upstream = upstream
    self.store = store
    self.clock = clock
    board = SyncStatusBoard(clock: clock)
    plan = Plan(
      pace: pace, hasUpstream: !(upstream is NoUpstream), generation: store.firstGeneration, seed: seed)
  }

  var now: Int64 { Int64(clock.monotonicNanoseconds() / 1_000_000) }

  // MARK: Life

  /// Reads the users and their state from the cache, and begins.
  package func start() async throws {
    store.onClearing { [weak self] cleared in
      guard let self else { return }
      ordered.append { await self.cleared(cleared) }
    }
    store.onLanesChanged { [weak self] lanes in
      guard let self else { return }
      ordered.append { await self.lanesChanged(lanes) }
    }
    store.onDue { [weak self] urls in
      guard let self else { return }
      ordered.append { await self.lookIntoNotes(in: urls) }
    }
    store.onRoom { [weak self] in
      guard let self else { return }
      ordered.append { await self.roomChanged() }
    }
    plan.hasRoom = store.hasRoom
    plan.isClearing = try store.isBeingCleared()
    for (capability, isOffered) in try store.capabilities() {
      plan.learn(capability, isOffered: isOffered, now: now)
    }
    for user in try store.knownUsers() {
      plan.add(
        user.id, isSynced: user.isSynced, isCached: true,
        phase: user.isClosed ? .closed : user.isStopped ? .stopped : .connecting,
        refusedAt: user.refusedFor.map { now - $0 }, now: now)
    }
    try holdAllRights()
    for fill in try store.fillsBegun() { plan.fill(gap: fill.gap, in: fill.url) }
    try takeNotes()
    for url in try store.channelsInDoubt() { plan.settle(url, now: now) }
    for (lane, wait) in try await store.recoverOutbox() {
      plan.outboxChanged(lane, wait: min(wait, outboxPolicy.longestWait), now: now)
    }
    turn()
    afterOthers { await self.knowChannels() }
  }

  /// Ends every job and waits for its task.
  package func stop() async {
    isStopped = true
    timer?.cancel()
    let running = Array(tasks.values)
    asking?.cancel()
    for task in running { task.cancel() }
    for task in reads.values { task.cancel() }
    for task in running { await task.value }
    for task in Array(reads.values) { _ = await task.value }
    endWaiting(.stopping)
    sorting?.cancel()
    await sorting?.value
    await announcing?.value
    await expiring?.value
    await keepingUp?.value
    await asking?.value
    for waiting in handshakes.values.flatMap({ $0 }) { waiting.resume() }
    handshakes = [:]
    for waiting in catchUps.values.flatMap({ $0 }) { waiting.resume() }
    catchUps = [:]
    endRightsWaits()
  }

  /// Starts the jobs that are due, and sets the timer for the next one.
  func turn() {
    guard !isStopped else { return }
    for job in plan.next(now: now) {
      begins(job)
      // All jobs have one priority: a task with a lower one would not run while others compute, but keep its
      // slot.
      tasks[job] = Task(priority: .medium) { await self.run(job) }
    }
    let rested = plan.takeRested()
    if !rested.isEmpty {
      afterOthers { for user in rested { await self.sortChannels(of: user) } }
    }
    announce()
    publish()
    if expiresAt <= now { expire() }
    if upkeepAt <= now { keepUp() }
    wakeUp(at: min(plan.wakeAt(now: now) ?? .max, expiresAt, upkeepAt))
  }

  /// Sets the timer, unless it wakes the plan before that moment anyway: most turns come long before it.
  private func wakeUp(at moment: Int64) {
    guard timer == nil || moment < timerAt else { return }
    timer?.cancel()
    timerAt = moment
    let wait = max(1, moment - now)
    // The timer has the same priority whatever job set it, because a client may wait for the next job.
    timer = Task(priority: .medium) {
      // Canceled: a newer timer calls `turn`, or the worker stops.
      guard await Task.hasSlept(milliseconds: wait) else { return }
      self.timer = nil
      self.turn()
    }
  }

  /// Begins a look at channels when the one under way has ended.
  func afterOthers(_ work: @escaping @Sendable () async -> Void) {
    let earlier = sorting
    sorting = Task(priority: .medium) {
      await earlier?.value
      await work()
    }
  }

  /// Removes users who were closed long ago, every hour (B5).
  private func expire() {
    expiresAt = now + SyncWorker.expiryInterval
    let earlier = expiring
    expiring = Task {
      await earlier?.value
      await self.forgetClosed()
    }
  }

  /// The interval between two removals of closed users (ms).
  static let expiryInterval: Int64 = 3_600_000

  func run(_ job: SyncJob) async {
    let outcome = await perform(job)
    tasks[job] = nil
    if case .lacks(let capability) = outcome { await learn(capability, isOffered: false) }
    if case .failed(let error) = outcome, error != .canceled {
      Log.line(.info, "sync_job_failed", ["job": .text(job.name), "reason": .text(error.description)])
    }
    let wasRefused = job.user.flatMap { plan.users[$0]?.state.refusedAt } != nil
    plan.ended(job, outcome, now: now)
    if case .channelGone = outcome, let url = job.channel, plan.channels[url]?.isOfNobody ?? true {
      pendingNotes[url] = nil
      knowAgain(url)
    }
    publish()
    ends(job, outcome)
    if let user = job.user {
      if !wasRefused { await noteRefusal(user) }
      await closeIfGone(user)
      if plan.takeReturn(of: user) { await sortChannels(of: user) }
    }
    turn()
  }

  /// Notes that webhooks are lost, if a check found a message that no webhook named in time (B34).
  func judgeWebhooks(before: Position?, after: Position?) {
    guard let before, let after, after > before, after.createdAt > onlineSince,
      after.createdAt < clock.wallMilliseconds() - SyncWorker.webhookSlack
    else { return }
    plan.missedWebhook()
  }

  /// How late a webhook may come (ms).
  static let webhookSlack: Int64 = 5_000

  /// A user may have joined the channel again while a job found it gone.
  private func knowAgain(_ url: ChannelURL) {
    do { try know(url) } catch {
      Log.line(.error, "sync_store_failed", ["job": "know", "reason": .text("\(error)")])
    }
  }

  private func perform(_ job: SyncJob) async -> Outcome {
    do {
      switch job {
      case .probe:
        try await upstream.probe()
        askForUploads()
      case .connect(let user): return try await askAbout(user)
      case .list(let user, let after): return try await list(user, after: after)
      case .endSweep(let user): return try await endSweep(user)
      case .channelChanges(let user): return try await channelChanges(user)
      case .topChannels(let user): return try await topChannels(user)
      case .refresh(let url): return try await refresh(url)
      case .check(let url): return try await check(url)
      case .news(let url): return try await news(in: url)
      case .message(let url, let id): return try await message(id, in: url)
      case .prefetch(let url): return try await prefetch(url)
      case .verify(let url): return try await verify(url)
      case .fill(let url, let gap): return try await fill(gap, in: url)
      case .settle(let url): return try await settle(url)
      case .send(let lane): return try await send(lane)
      case .upload(let lane): return try await upload(lane)
      }
      return .done
    } catch let error as UpstreamError {
      return .failed(error)
    } catch is CancellationError {
      return .failed(.canceled)
    } catch {
      Log.line(.error, "sync_store_failed", ["job": .text(job.name), "reason": .text("\(error)")])
      return .storeFailed
    }
  }

  /// Stores whether the upstream offers the capability (B32).
  func learn(_ capability: Capability, isOffered: Bool) async {
    guard plan.capabilities[capability] != isOffered || !isOffered else { return }
    plan.learn(capability, isOffered: isOffered, now: now)
    Log.line(
      .info, "upstream_capability",
      ["capability": .text(capability.rawValue), "offered": isOffered ? "yes" : "no"])
    do { try await store.learn(capability, isOffered: isOffered) } catch {
      Log.line(.error, "sync_store_failed", ["job": "learn", "reason": .text("\(error)")])
    }
  }

  /// Asks whether the upstream offers uploads, until the answer is known (B32).
  private func askForUploads() {
    guard plan.capabilities[.uploads] == nil, asking == nil else { return }
    asking = Task {
      do { await learn(.uploads, isOffered: try await upstream.offersUploads(.background)) } catch {
        Log.line(
          .info, "upstream_capability_unknown", ["capability": "uploads", "reason": .text("\(error)")])
      }
      asking = nil
    }
  }

  private func announce() {
    let states = plan.takeAnnouncements()
    guard !states.isEmpty else { return }
    for state in states { Log.line(.info, "link_changed", ["link": .text(state.word)]) }
    if let failure = linkFailure { endWaiting(failure) }
    for url in Array(unanswered.keys) { tellOffline(url) }
    onlineSince = plan.link.isOnline ? clock.wallMilliseconds() : .max
    if states.contains(where: { $0 != .online }) { holdRightsAfterLoss() }
    let generation = plan.link.generation
    let earlier = announcing
    // Announcements are stored one after the other, so that the last one is the present state.
    announcing = Task(priority: .medium) {
      await earlier?.value
      for state in states {
        do { try await store.announce(state, generation: generation) } catch {
          Log.line(.error, "sync_store_failed", ["job": "announce", "reason": .text("\(error)")])
        }
      }
    }
  }
}

extension SyncJob {
  /// The job's name for logs, without the user and the channel.
  var name: String {
    switch self {
    case .probe: "probe"
    case .connect: "connect"
    case .list: "list"
    case .endSweep: "end_sweep"
    case .channelChanges: "channel_changes"
    case .topChannels: "top_channels"
    case .refresh: "refresh"
    case .check: "check"
    case .news: "news"
    case .message: "message"
    case .prefetch: "prefetch"
    case .verify: "verify"
    case .fill: "fill"
    case .settle: "settle"
    case .send: "send"
    case .upload: "upload"
    }
  }
}
