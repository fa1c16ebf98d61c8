import ChatCache
import ChatModel
import Platform

// Fetches what clients' requests miss (B15), ahead of background work. Identical requests share one.
extension SyncWorker {
  /// The most reads at once; more requests are answered from the cache alone.
  static let readsAtOnce = 256

  /// How long a client waits for the first page of its user's channels (ms).
  static let firstPageWait = 500

  /// What one read fetches for the clients that wait for it.
  enum Read: Hashable, Sendable {
    case messages(MessageSyncRequest)
    case channels(UserID)
    case channel(ChannelURL, UserID)
    case members(ChannelURL)
  }

  /// Fetches and stores what a user's request misses.
  package func fetch(_ wanted: MessageSyncRequest, for user: UserID) async -> SyncOutcome {
    if let failure = await catchUp(user) { return .failed(failure) }
    return await fetch(wanted)
  }

  /// Fetches the members of channels for a user's request.
  package func fetchMembers(of urls: [ChannelURL], for user: UserID) async -> SyncOutcome {
    if let failure = await catchUp(user) { return .failed(failure) }
    return await fetchMembers(of: urls)
  }

  /// Waits until the changes since the user's last connect are stored. Messages are fetched with the
  /// application's key, and the user may have left the channel meanwhile (B1). Returns why the user's
  /// channels are not known: nothing is fetched for a user who is disconnected (B4) or was refused (B5).
  private func catchUp(_ user: UserID) async -> SyncError? {
    seen(user)
    if isBehind(user) {
      plan.users[user]?.isAwaited = true
      await withCheckedContinuation { catchUps[user, default: []].append($0) }
    }
    guard !isStopped else { return .stopping }
    guard let work = plan.users[user] else { return .notSynced(retryAfter: 1_000) }
    guard work.state.isActive, work.denial == nil else { return .notSynced(retryAfter: 60_000) }
    return isBehind(user) ? .notSynced(retryAfter: 1_000) : nil
  }

  /// Whether the channels of a user of the cache may have changed since the last connect.
  func isBehind(_ user: UserID) -> Bool {
    guard let work = plan.users[user], work.isSynced, work.state.isActive, work.denial == nil,
      linkFailure == nil
    else { return false }
    return work.isCatchingUp || work.phase == .connecting
  }

  /// Resumes the reads that wait for the user's changes.
  func endCatchUp(of user: UserID) {
    for waiting in catchUps.removeValue(forKey: user) ?? [] { waiting.resume() }
  }

  /// Fetches and stores what is missing.
  package func fetch(_ wanted: MessageSyncRequest) async -> SyncOutcome {
    if wanted.stretch == .newest, wanted.thread == nil, plan.countsMissing(wanted.channel) {
      return await nextCheck(of: wanted.channel)
    }
    return await read(.messages(wanted)) { try await self.perform(wanted) }
  }

  /// Fetches what changed among the user's channels, or, until all are listed, the most recent channels.
  package func fetchChannels(of user: UserID) async -> SyncOutcome {
    if plan.isClearing { return .failed(.busy(retryAfter: 1_000)) }
    if plan.status(of: user)?.phase == .connected, plan.pollNow(user, now: now) {
      return await nextPoll(of: user)
    }
    // Most users have all of their channels in the listing's first page.
    if let listing = firstPage(of: user) {
      await listing.value
      if plan.users[user]?.isSynced == true { return .stored }
    }
    return await read(.channels(user)) { _ = try await self.topChannels(user, .listing) }
  }

  /// Asks for a channel the cache does not know, as that user (B1). True: the user is in it.
  package func find(_ url: ChannelURL, as user: UserID) async -> Result<Bool, SyncError> {
    // Nothing is fetched for a user who is disconnected (B4) or was refused (B5).
    if let work = plan.users[user], !work.state.isActive && work.state.phase != .idle || work.denial != nil {
      return .failure(.notSynced(retryAfter: 60_000))
    }
    // Until all channels of the user are listed, each that the first page lacks is asked for alone. So this
    // user is listed next.
    if plan.users[user]?.isSynced == false { plan.users[user]?.isAwaited = true }
    if await isInFirstPage(url, of: user) { return .success(true) }
    let fetched = await read(.channel(url, user)) {
      let asked = ChannelRecord.Asked(sequence: self.store.mark())
      var record = try await self.upstream.channel(url, as: user, .foreground)
      record.asked = asked
      guard let state = record.membership?.state, state != .outside else { return }
      _ = try await self.store.store([record], of: user, .refresh(.channelRefresh))
      // An answer from before the cache was cleared is not stored: the client asks again.
      guard try self.store.isConnectedMember(user, of: url) else { throw CancellationError() }
      try self.know(url)
    }
    switch fetched {
    case .stored: break
    case .failed(.rejected): return .success(false)
    case .failed(.unreachable(_, let wait)), .failed(.busy(let wait)):
      return .failure(.notSynced(retryAfter: wait))
    case .failed(.storage(let reason)): return .failure(.storage(reason: reason))
    case .failed, .late: return .failure(.notSynced(retryAfter: 1_000))
    }
    do { return .success(try store.isConnectedMember(user, of: url)) } catch {
      return .failure(.storage(reason: "\(error)"))
    }
  }

  /// Lists the user's first channels if none are listed yet: the channel is likely among them, and so are
  /// those that the user's next requests name. True: the user is in the channel.
  private func isInFirstPage(_ url: ChannelURL, of user: UserID) async -> Bool {
    guard linkFailure == nil else { return false }
    guard let task = firstPage(of: user) else { return false }
    // If the list is slow, the channel is asked for alone meanwhile.
    await withCheckedContinuation { continuation in
      let reply = Reply.bounded(within: SyncWorker.firstPageWait, late: {}) { continuation.resume() }
      Task {
        await task.value
        reply.give(())
      }
    }
    // `try?`: if the cache cannot be read now, the request for the one channel finds that out and tells.
    return (try? store.isConnectedMember(user, of: url)) ?? false
  }

  /// The request for the first page of the user's first listing; it begins now if it is not under way. Nil:
  /// that page is stored, or it may not be asked for now.
  private func firstPage(of user: UserID) -> Task<Void, Never>? {
    let job = SyncJob.list(user, after: nil)
    // A list that does not say whether the user is invited or joined takes one more request for each channel.
    if memberViews.areExpected, reads.count + plan.withoutSlot.count < SyncWorker.readsAtOnce,
      plan.beginFirstPage(of: user, now: now) != nil
    {
      tasks[job] = Task(priority: .medium) { await self.run(job) }
    }
    return plan.withoutSlot.contains(job) ? tasks[job] : nil
  }

  /// Runs `body`, or waits for the same read if it is under way. The plan learns how the upstream answered.
  func read(_ name: Read, _ body: @escaping () async throws -> Void) async -> SyncOutcome {
    if let running = reads[name] { return await running.value }
    if let failure = linkFailure { return .failed(failure) }
    // While everything is being cleared, nothing that comes is stored.
    if plan.isClearing { return .failed(.notSynced(retryAfter: 1_000)) }
    guard reads.count < SyncWorker.readsAtOnce else { return .failed(.busy(retryAfter: 1_000)) }
    let task = Task { await self.attempt(body) }
    reads[name] = task
    plan.isForegroundWaiting = true
    let fetched = await task.value
    // After a clear, another read of that name may be under way.
    if reads[name] == task { reads[name] = nil }
    plan.isForegroundWaiting = !reads.isEmpty
    turn()
    return fetched
  }

  private func attempt(_ body: () async throws -> Void) async -> SyncOutcome {
    do {
      try await body()
      plan.met(nil, now: now)
      return .stored
    } catch let error as UpstreamError {
      plan.met(error, now: now)
      return .failed(syncError(error))
    } catch let error as SyncError {
      return .failed(error)
    } catch is CancellationError {
      return .failed(.stopping)
    } catch {
      Log.line(.error, "sync_store_failed", ["job": "read", "reason": .text("\(error)")])
      return .failed(.storage(reason: "\(error)"))
    }
  }

  /// Why a client's request fails at once while the link is down or the worker ends; nil: it need not.
  var linkFailure: SyncError? {
    if isStopped { return .stopping }
    guard case .offline(let loss) = plan.link.state else { return nil }
    return .unreachable(loss, retryAfter: retryAfter)
  }

  private var retryAfter: Int64 { max(1_000, (plan.link.nextProbeAt ?? now) - now) }

  func syncError(_ error: UpstreamError) -> SyncError {
    switch error {
    case .rejection(let code, let message): .rejected(code: code, message: message)
    case .rateLimited(let milliseconds): .busy(retryAfter: milliseconds)
    case .unauthorized: .unreachable(.auth, retryAfter: retryAfter)
    case .untrusted: .unreachable(.untrusted, retryAfter: retryAfter)
    case .unreachable: .unreachable(.unreachable, retryAfter: retryAfter)
    case .unusable(let reason, _), .unreadable(let reason): .failed(reason: reason)
    case .canceled: .stopping
    }
  }

  private func perform(_ wanted: MessageSyncRequest) async throws {
    let url = wanted.channel
    if let thread = wanted.thread,
      try await listThread(thread, in: url, MessageWindow(wanted.stretch), .foreground)
    {
      return
    }
    switch wanted.stretch {
    case .newest:
      guard let line = try store.line(of: url) else { return }
      try await closeNewestEnd(url, line, counts: false, source: .apiResult, .foreground)
    case .message(let id):
      try await fetchMessage(id, in: url, .apiResult, .foreground)
    case .older, .newer, .around:
      let listings = try await listed(url, wanted.stretch, .foreground)
      try await keep(listings, in: url, context(.apiResult))
    }
  }

  // MARK: Jobs that clients wait for

  /// Checks the channel as soon as its running job ends, and waits for that check.
  private func nextCheck(of url: ChannelURL) async -> SyncOutcome {
    if let failure = linkFailure { return .failed(failure) }
    plan.checkNow(url, now: now)
    return await withCheckedContinuation {
      waiters[.check(url), default: Waiters()].next.append($0)
      turn()
    }
  }

  private func nextPoll(of user: UserID) async -> SyncOutcome {
    if let failure = linkFailure { return .failed(failure) }
    return await withCheckedContinuation {
      waiters[.poll(user), default: Waiters()].next.append($0)
      turn()
    }
  }

  /// A job that clients wait for: the check of a channel, or the poll of a user's channels.
  enum Awaited: Hashable { case check(ChannelURL), poll(UserID) }

  /// The requests that wait for the next job of a kind, and those that wait for the running one.
  struct Waiters {
    var next: [CheckedContinuation<SyncOutcome, Never>] = []
    var current: [CheckedContinuation<SyncOutcome, Never>] = []
  }

  /// A job begins: the requests that waited for the next job wait for this one.
  func begins(_ job: SyncJob) {
    guard let awaited = job.awaited, var waiting = waiters[awaited] else { return }
    waiting.current += waiting.next
    waiting.next = []
    waiters[awaited] = waiting
  }

  /// A job ended.
  func ends(_ job: SyncJob, _ outcome: Outcome) {
    if let user = job.user, catchUps[user] != nil {
      // A read waits for all jobs until the changes are stored, and only the first was preferred.
      plan.users[user]?.isAwaited = true
      if case .failed = outcome { endCatchUp(of: user) }
    }
    guard let awaited = job.awaited, let waiting = waiters[awaited] else { return }
    waiters[awaited] = waiting.next.isEmpty ? nil : Waiters(next: waiting.next)
    let fetched: SyncOutcome =
      switch outcome {
      case .failed(let error): .failed(syncError(error))
      case .storeFailed: .failed(.storage(reason: "the cache failed"))
      default: .stored
      }
    for waiter in waiting.current { waiter.resume(returning: fetched) }
  }

  /// Fails all requests that wait: the link is down, or the worker ends.
  func endWaiting(_ failure: SyncError) {
    let all = waiters.values.flatMap { $0.next + $0.current }
    waiters = [:]
    for waiter in all { waiter.resume(returning: .failed(failure)) }
  }
}

extension SyncJob {
  /// The name under which requests wait for this job; nil: none can.
  var awaited: SyncWorker.Awaited? {
    switch self {
    case .check(let url): .check(url)
    case .channelChanges(let user), .topChannels(let user): .poll(user)
    default: nil
    }
  }
}
