import ChatCache
import ChatModel

/// What is to be done in one channel.
struct ChannelWork: Sendable {
  var views = TextMap<OpenView>()
  /// When its newest end is to be looked at, nil for no reason to.
  var checkAt: Int64?
  /// When a listing for news last began to be due at once.
  var newestNotedAt: Int64?
  /// Whether a webhook asks for the look at its newest end that is due.
  var isNoted = false
  /// Its own fields are to be refreshed.
  var isRefreshDue = false
  /// Messages that webhooks named.
  var messages: [Int64] = []
  /// Since when its messages, its refresh and its gaps wait for a turn: whoever waits longest is next.
  var messagesAt: Int64 = 0
  var refreshAt: Int64 = 0
  var fillsAt: Int64 = 0
  var isPrefetched = false
  var verifyAt: Int64?
  /// When it is asked for messages of which answers disagree whether they are there (B27).
  var settleAt: Int64?
  /// Gaps somebody asked to fill.
  var fills: [Int64] = []
  var lastMessageAt: Int64 = 0
  var isBusy = false
  /// Whether no connected user is in it: nothing is asked of it until one is again (B4).
  var isOfNobody = false
  /// Whether all who are in it are idle: it is not polled until one of them asks for something (B4).
  var isResting = false
  var retryAt: Int64?
  var wait: Backoff
  /// Jobs whose answers could not be decoded: each waits by itself and holds back no other (B35).
  var heldBack = HeldBack()

  var isOpen: Bool { !views.isEmpty }
  /// Whether its newest messages are still to be fetched, and somebody is in it.
  var needsPrefetch: Bool { !isPrefetched && !isOfNobody }
  var countsMissing: Bool { views.values.contains { $0.isAtNewest } }

  mutating func started(_ job: SyncJob, now: Int64) {
    isBusy = true
    switch job {
    case .check:
      checkAt = nil
      isNoted = false
    case .refresh: isRefreshDue = false
    case .message(_, let id):
      messages.removeAll { $0 == id }
      messagesAt = now
    case .verify: verifyAt = nil
    case .settle: settleAt = nil
    case .fill: fillsAt = now
    default: break
    }
  }

  /// Whether a job in it may begin.
  func isFree(now: Int64) -> Bool { !isBusy && !isOfNobody && (retryAt ?? 0) <= now }

  /// When something besides prefetch may begin; nil: nothing.
  func dueAt(_ plan: Plan) -> Int64? {
    guard !isBusy, !isOfNobody else { return nil }
    var soonest = min(heldBack.moment(.check, checkAt), heldBack.moment(.verify, verifyAt))
    if isRefreshDue { soonest = min(soonest, heldBack.moment(.refresh, 0)) }
    soonest = min(soonest, heldBack.moment(.settle, settleAt))
    for id in messages { soonest = min(soonest, heldBack.moment(.message(id), 0)) }
    if !plan.isForegroundWaiting {
      for gap in fills { soonest = min(soonest, heldBack.moment(.fill(gap), plan.prefetchNotBefore)) }
    }
    return soonest == .max ? nil : max(soonest, retryAt ?? 0)
  }

  /// When its prefetch may begin; nil: a job under way is waited for.
  func prefetchDueAt(_ plan: Plan) -> Int64? {
    isBusy ? nil : max(heldBack.moment(.prefetch, plan.prefetchNotBefore), retryAt ?? 0)
  }
}

extension Plan {
  private mutating func change(_ url: ChannelURL, _ body: (inout ChannelWork) -> Void) {
    let fresh = ChannelWork(wait: Backoff(maximum: pace.maximumBackoff))
    body(&channels[url, default: fresh])
  }

  /// A view was opened or moved: its channel is looked at now.
  package mutating func open(_ view: OpenView, now: Int64) {
    change(view.channel) {
      if $0.views[view.id] == nil { $0.checkAt = now }
      $0.views[view.id] = view
    }
  }

  /// A view that is open.
  func view(_ id: String, in url: ChannelURL) -> OpenView? { channels[url]?.views[id] }

  /// The channels somebody looks at.
  var openChannels: Set<ChannelURL> {
    channels.open.filter { channels[$0]?.isOfNobody == false }
  }

  /// Channels whose newest messages are still to be fetched.
  var channelsBehind: Int { channels.behind }

  /// When a job in a channel may begin; any moment that is over where one may now.
  func channelsDueAt(now: Int64) -> Int64 {
    var soonest = Int64.max
    for url in channels.wanted {
      soonest = min(soonest, channels[url]?.dueAt(self) ?? .max)
      if soonest <= now { return soonest }
    }
    guard !isForegroundWaiting, hasRoom else { return soonest }
    return min(soonest, channels.prefetchDueAt(soonest: prefetchNotBefore) { $0.prefetchDueAt(self) })
  }

  /// Tells which channels have a connected user (`attended`), and which of those have an active one
  /// (`awake`). All other channels have none.
  mutating func attend(only attended: Set<ChannelURL>, awake: Set<ChannelURL>, now: Int64) {
    for url in channels.urls {
      let (isOfNobody, isResting) = (!attended.contains(url), !awake.contains(url))
      guard let work = channels[url], work.isOfNobody != isOfNobody || work.isResting != isResting else {
        continue
      }
      channels[url]?.isOfNobody = isOfNobody
      channels[url]?.isResting = isResting
      // Whatever was known may have changed meanwhile.
      if work.isOpen, work.isOfNobody && !isOfNobody || work.isResting && !isResting {
        channels[url]?.checkAt = now
      }
    }
  }

  /// A client waits for a look at the channel.
  mutating func checkNow(_ url: ChannelURL, now: Int64) {
    channels[url]?.checkAt = now
    channels[url]?.retryAt = nil
    channels[url]?.heldBack.letGo(.check)
  }

  /// A connected user is in the channel of nobody.
  mutating func attend(_ url: ChannelURL, now: Int64) {
    guard channels[url]?.isOfNobody == true else { return }
    channels[url]?.isOfNobody = false
    if isOpen(url) { channels[url]?.checkAt = now }
  }

  /// A webhook came: they work.
  mutating func heardWebhook(now: Int64) { webhooks.hear(now: now) }

  /// A look found news that no webhook had told.
  mutating func missedWebhook() { webhooks.miss() }

  /// A view was disposed of.
  package mutating func close(view id: String, in url: ChannelURL) { channels[url]?.views[id] = nil }

  /// Whether somebody looks at the channel, and at its newest end (B28).
  package func isOpen(_ url: ChannelURL) -> Bool { channels[url]?.isOpen ?? false }

  /// Whether missing messages are counted in the channel (B28).
  package func countsMissing(_ url: ChannelURL) -> Bool { channels[url]?.countsMissing ?? false }

  /// A webhook came (B34).
  package mutating func noteWebhook(
    _ kind: Webhook.Note.Kind, in url: ChannelURL, message: Int64, now: Int64
  ) {
    let delay = pace.webhookNoteDelay
    change(url) {
      // It may be the news that somebody is in it again.
      $0.isOfNobody = false
      switch kind {
      case .newest:
        // At once where it was quiet, and one more for all that webhooks name soon after.
        let isQuiet = $0.newestNotedAt.map { now - $0 >= delay } ?? true
        if isQuiet { $0.newestNotedAt = now }
        $0.isNoted = true
        $0.checkAt = min($0.checkAt ?? .max, isQuiet ? now : ($0.newestNotedAt ?? now) + delay)
      case .missed:
        $0.messages = []
        $0.isNoted = true
        $0.checkAt = min($0.checkAt ?? .max, now + delay)
      case .message:
        guard !$0.messages.contains(message) else { return }
        if $0.messages.isEmpty { $0.messagesAt = now }
        $0.messages.append(message)
      case .channel:
        if !$0.isRefreshDue { $0.refreshAt = now }
        $0.isRefreshDue = true
      }
    }
  }

  /// Somebody asked for that gap (B28).
  package mutating func fill(gap: Int64, in url: ChannelURL) {
    change(url) { if !$0.fills.contains(gap) { $0.fills.append(gap) } }
  }

  /// Nobody wants the gap filled any more.
  package mutating func stopFilling(gap: Int64, in url: ChannelURL) {
    channels[url]?.fills.removeAll { $0 == gap }
  }

  /// The cache says that the channel holds enough, or has stretches to verify.
  package mutating func know(
    _ url: ChannelURL, isPrefetched: Bool, isUnverified: Bool, lastMessageAt: Int64, now: Int64
  ) {
    change(url) {
      $0.isPrefetched = isPrefetched
      $0.lastMessageAt = max($0.lastMessageAt, lastMessageAt)
      if isUnverified { $0.verifyAt = now }
    }
  }

  /// Changes may have been missed in the channel: list it again when there is time (B31).
  package mutating func verify(_ url: ChannelURL, now: Int64) {
    change(url) { $0.verifyAt = min($0.verifyAt ?? .max, now) }
  }

  /// Answers disagree whether messages of the channel are there: they are asked for by their ids (B27).
  mutating func settle(_ url: ChannelURL, now: Int64) {
    change(url) { $0.settleAt = min($0.settleAt ?? .max, now) }
  }

  /// Sync met the channel in a list or a changelog.
  mutating func met(_ activity: ChannelActivity, now: Int64) {
    change(activity.url) {
      let isNews = activity.isBehind || activity.lastMessageAt > $0.lastMessageAt
      $0.lastMessageAt = max($0.lastMessageAt, activity.lastMessageAt)
      // What is still to be prefetched is listed from the newest end anyway.
      if isNews, $0.isPrefetched || $0.isOpen { $0.checkAt = $0.checkAt ?? now }
    }
  }

  /// The next job: of the class whose turn it is, or else of the first in order of importance that has one
  /// (B30).
  mutating func pick(now: Int64) -> SyncJob? {
    let best = candidates(now: now)
    let turn = Share.turns[turns % Share.turns.count]
    for share in [turn] + Share.allCases {
      guard let job = pick(share, best, now: now) else { continue }
      turns += 1
      return job
    }
    return nil
  }

  private mutating func pick(_ share: Share, _ best: Candidates, now: Int64) -> SyncJob? {
    switch share {
    case .views:
      return pickView(best)
    case .users: return pickForUser(now: now, isListing: false)
    case .sends: return pickLane(now: now).map { .send($0) }
    case .listings: return pickForUser(now: now, isListing: true)
    case .channels: return best.check.map { .check($0.url) }
    case .rest: return pickRest(best, now: now)
    }
  }

  /// Webhooks' notes and polls of open views in turns, and what is in doubt in a sixteenth of them: none
  /// keeps the others waiting.
  private func pickView(_ best: Candidates) -> SyncJob? {
    let noted = best.notedCheck.map { SyncJob.check($0.url) }
    let open = best.openCheck.map { SyncJob.check($0.url) }
    let message = best.message.map { SyncJob.message($0.url, id: $0.id) }
    let isRefreshFirst = best.refresh?.at ?? .max < best.message?.at ?? .max
    let named = isRefreshFirst ? best.refresh.map { SyncJob.refresh($0.url) } : message
    let doubt = best.settle.map { SyncJob.settle($0.url) }
    return switch turns % 16 {
    case 6: doubt ?? noted ?? open ?? named
    case 2, 10: open ?? noted ?? named
    case 4, 12: named ?? noted ?? open
    default: noted ?? named ?? open
    }
  }

  /// Prefetch, verification and gaps in turns. Half of the turns are prefetch's. One that has nothing to do
  /// leaves its turn to the others. Doubts come before them in turns that other classes left, and after them
  /// in their own turns.
  private mutating func pickRest(_ best: Candidates, now: Int64) -> SyncJob? {
    let isOwnTurn = Share.turns[turns % Share.turns.count] == .rest
    let doubt = best.settle.map { SyncJob.settle($0.url) }
    if !isOwnTurn, let doubt { return doubt }
    let job =
      switch turns / Share.turns.count % 4 {
      case 1: pickVerify(best) ?? pickPrefetch(now: now) ?? pickFill(best, now: now)
      case 3: pickFill(best, now: now) ?? pickPrefetch(now: now) ?? pickVerify(best)
      default: pickPrefetch(now: now) ?? pickVerify(best) ?? pickFill(best, now: now)
      }
    return job ?? doubt
  }

  private func pickVerify(_ best: Candidates) -> SyncJob? { best.verify.map { .verify($0.url) } }

  private mutating func pickPrefetch(now: Int64) -> SyncJob? {
    guard !isForegroundWaiting, hasRoom,
      let url = channels.nextBehind(where: {
        $0.isFree(now: now) && !$0.heldBack.holds(.prefetch, now: now)
      }), mayBePrefetched(now: now)
    else { return nil }
    return .prefetch(url)
  }

  /// Filling is as slow as prefetching (B28).
  private mutating func pickFill(_ best: Candidates, now: Int64) -> SyncJob? {
    guard let fill = best.fill, mayBePrefetched(now: now) else { return nil }
    return .fill(fill.url, gap: fill.gap)
  }

  private mutating func mayBePrefetched(now: Int64) -> Bool {
    guard !isForegroundWaiting else { return false }
    guard let later = prefetchBucket.take(now: now) else { return true }
    prefetchNotBefore = later
    return false
  }

  /// Of each kind of job the channel that is first in line.
  private struct Candidates {
    var message: (url: ChannelURL, id: Int64, at: Int64)?
    var refresh: (url: ChannelURL, at: Int64)?
    var notedCheck: (url: ChannelURL, at: Int64)?
    var openCheck: (url: ChannelURL, at: Int64)?
    var check: (url: ChannelURL, at: Int64)?
    var verify: (url: ChannelURL, at: Int64)?
    var settle: (url: ChannelURL, at: Int64)?
    var fill: (url: ChannelURL, gap: Int64, at: Int64)?
  }

  private func candidates(now: Int64) -> Candidates {
    var best = Candidates()
    for url in channels.wanted {
      guard let work = channels[url], work.isFree(now: now) else { continue }
      let held = work.heldBack
      if work.messagesAt < best.message?.at ?? .max,
        let id = work.messages.first(where: { !held.holds(.message($0), now: now) })
      {
        best.message = (url, id, work.messagesAt)
      }
      if work.isRefreshDue, work.refreshAt < best.refresh?.at ?? .max, !held.holds(.refresh, now: now) {
        best.refresh = (url, work.refreshAt)
      }
      if let at = work.checkAt, at <= now, !held.holds(.check, now: now) {
        if work.isNoted {
          if at < best.notedCheck?.at ?? .max { best.notedCheck = (url, at) }
        } else if work.isOpen {
          if at < best.openCheck?.at ?? .max { best.openCheck = (url, at) }
        } else if at < best.check?.at ?? .max {
          best.check = (url, at)
        }
      }
      if let at = work.verifyAt, at <= now, at < best.verify?.at ?? .max, !held.holds(.verify, now: now) {
        best.verify = (url, at)
      }
      if let at = work.settleAt, at <= now, at < best.settle?.at ?? .max, !held.holds(.settle, now: now) {
        best.settle = (url, at)
      }
      if work.fillsAt < best.fill?.at ?? .max,
        let gap = work.fills.first(where: { !held.holds(.fill($0), now: now) })
      {
        best.fill = (url, gap, work.fillsAt)
      }
    }
    return best
  }

  mutating func endedInChannel(_ url: ChannelURL, _ job: SyncJob, _ outcome: Outcome, now: Int64) {
    guard var work = channels[url] else { return }
    work.isBusy = false
    switch outcome {
    case .channelGone:
      // A refresh that is still due may find it: of a channel that is new here nothing else is known.
      guard work.isRefreshDue else {
        forget(url, work.views)
        return
      }
      work.isPrefetched = true
    case .failed(let error) where error.isHeldAlone(job):
      if let kind = job.channelJob {
        work.heldBack.hold(kind, maximum: pace.maximumBackoff, now: now) { wait(&$0, outcome) }
      }
      isDueAgain(&work, job, outcome, now: now)
    case .failed, .storeFailed:
      work.retryAt = now + wait(&work.wait, outcome)
      isDueAgain(&work, job, outcome, now: now)
    case .waits(let milliseconds):
      work.settleAt = now + milliseconds
    case .lacks(let capability):
      learn(capability, isOffered: false, now: now)
      if case .check = job { work.checkAt = now }
    default:
      work.wait.reset()
      work.retryAt = nil
      if let kind = job.channelJob { work.heldBack.letGo(kind) }
      if case .prefetched(let isComplete) = outcome { work.isPrefetched = isComplete }
      if case .checked(let isPrefetched, let isInDoubt) = outcome {
        work.isPrefetched = isPrefetched
        if isInDoubt { work.verifyAt = work.verifyAt ?? now }
      }
      if case .progressed(let isComplete) = outcome { progressed(&work, job, isComplete, now: now) }
      if case .tokenLost = outcome { work.verifyAt = now }
    }
    if case .check = job, work.isOpen, !work.isResting {
      work.checkAt = work.checkAt ?? now + openInterval(now: now)
      if lacks(.messageChangelog) { work.verifyAt = work.verifyAt ?? now + pace.verify }
    }
    channels[url] = work
  }

  /// The channel is gone, or nobody connected is in it. Its open views stay known: they are polled again once
  /// somebody is in it again.
  private mutating func forget(_ url: ChannelURL, _ views: TextMap<OpenView>) {
    channels[url] = nil
    guard !views.isEmpty else { return }
    change(url) {
      $0.views = views
      $0.isOfNobody = true
    }
  }

  private func progressed(_ work: inout ChannelWork, _ job: SyncJob, _ isComplete: Bool, now: Int64) {
    switch job {
    case .verify: work.verifyAt = isComplete ? nil : now
    case .settle: work.settleAt = isComplete ? work.settleAt : now
    case .fill(_, let gap): if isComplete { work.fills.removeAll { $0 == gap } }
    default: break
    }
  }

  /// The job that failed comes again.
  private func isDueAgain(_ work: inout ChannelWork, _ job: SyncJob, _ outcome: Outcome, now: Int64) {
    switch job {
    case .check: work.checkAt = now
    case .refresh: work.isRefreshDue = true
    case .message(_, let id): if !work.messages.contains(id) { work.messages.append(id) }
    case .verify: work.verifyAt = now
    case .settle: work.settleAt = now
    case .fill(_, let gap) where outcome.isRejection: work.fills.removeAll { $0 == gap }
    default: break
    }
  }

  /// Between two looks at an open channel.
  func openInterval(now: Int64) -> Int64 {
    let isAlive = webhooks.isGood(now: now, memory: pace.webhookMemory)
    return pace.openInterval(
      count: openChannels.count { channels[$0]?.isResting == false },
      requests: lacks(.messageChangelog) ? 1 : 2,
      hasWebhooks: isAlive)
  }
}

extension Outcome {
  var isRejection: Bool {
    if case .failed(.rejection) = self { return true }
    return false
  }
}

extension UpstreamError {
  /// Whether it keeps only this job waiting, and nothing else of its channel (B35): an answer that cannot
  /// be read, and the refusal of one message.
  fileprivate func isHeldAlone(_ job: SyncJob) -> Bool {
    switch (self, job) {
    case (.unreadable, _), (.rejection, .message): true
    default: false
    }
  }
}
