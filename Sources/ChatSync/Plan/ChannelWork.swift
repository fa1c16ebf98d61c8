import ChatCache
import ChatModel

/// The work that is due in one channel.
struct ChannelWork: Sendable, Equatable {
  var views = TextMap<OpenView>()
  /// When the channel's next check is due; nil: no check is needed.
  var checkAt: Int64?
  /// Whether a view was opened, the channel was cleared, or its users came back, since the last check. Views
  /// are told nothing before the next one.
  var owesFirstCheck = false
  /// The same at the moment when the last check began: if it fails, its views still wait.
  var owedFirstCheck = false
  /// Whether the channel was open when the link came back and was not checked since. Sends wait for that
  /// check.
  var isCatchingUp = false
  /// When a webhook last made a listing due at once.
  var newestNotedAt: Int64?
  /// When new messages that webhooks told of are next listed; nil: none wait for that.
  var newsAt: Int64?
  /// Whether a webhook asked for the check that is due.
  var isNoted = false
  /// Whether a client waits for the check that is due.
  var isAwaited = false
  /// Whether the channel's own fields have to be refreshed.
  var isRefreshDue = false
  /// The messages that webhooks named and that have to be fetched.
  var messages: [Int64] = []
  /// Since when messages, refresh and gaps wait for a turn. The channel that waits longest is next.
  var messagesAt: Int64 = 0
  var refreshAt: Int64 = 0
  /// When the last refresh began.
  var refreshedAt: Int64?
  var fillsAt: Int64 = 0
  var isPrefetched = false
  var verifyAt: Int64?
  /// When the upstream is next asked about doubted messages (B27).
  var settleAt: Int64?
  /// The gaps that clients asked to fill.
  var fills: [Int64] = []
  var lastMessageAt: Int64 = 0
  /// Whether somebody has opened the channel in the last month: it is prefetched before others.
  var isUsed = false
  var isBusy = false
  /// Whether no connected user is in the channel: the upstream is not asked about it until one is (B4).
  var isOfNobody = false
  /// Whether all users in the channel are idle: it is not polled until one of them makes a request (B4).
  var isResting = false
  var retryAt: Int64?
  var wait: Backoff
  /// Jobs whose answers could not be decoded. Each waits alone, without delaying the others (B35).
  var heldBack = HeldBack()

  var isOpen: Bool { !views.isEmpty }
  /// Whether clients are told nothing new before the channel's next check.
  var isFirstCheck: Bool { isOpen && (owesFirstCheck || isCatchingUp) }
  /// Whether the newest messages have to be prefetched and a connected user is in the channel.
  var needsPrefetch: Bool { !isPrefetched && !isOfNobody }
  /// Whether a job is due or runs that may find that a connected user came into the channel.
  var mayFindSomebody: Bool { isRefreshDue || isBusy }
  var countsMissing: Bool { views.values.contains { $0.isAtNewest } }

  /// The last check told the views nothing.
  mutating func stillOwesFirstCheck() { owesFirstCheck = owesFirstCheck || owedFirstCheck }

  mutating func started(_ job: SyncJob, now: Int64) {
    isBusy = true
    switch job {
    case .check:
      checkAt = nil
      newsAt = nil
      owedFirstCheck = isFirstCheck
      owesFirstCheck = false
      isNoted = false
      isAwaited = false
    case .news: newsAt = nil
    case .refresh:
      isRefreshDue = false
      refreshedAt = now
    case .message(_, let id):
      messages.removeAll { $0 == id }
      messagesAt = now
    case .verify: verifyAt = nil
    case .settle: settleAt = nil
    case .fill: fillsAt = now
    default: break
    }
  }

  /// The kinds of jobs in a channel, without prefetch. Each kind has a line of its own.
  enum Kind: Int, CaseIterable {
    case awaitedCheck, message, refresh, news, otherNews, notedCheck, otherNotedCheck, firstCheck, openCheck
    case check, verify, settle, fill

    /// Whether jobs of that kind leave a slot free (`Plan.mayBeginInBackground`).
    var isInBackground: Bool {
      switch self {
      case .otherNews, .otherNotedCheck, .check, .verify, .fill: true
      default: false
      }
    }
  }

  /// When a job of that kind may begin; nil: none is due, or another job runs.
  func moment(of kind: Kind) -> Int64? {
    guard !isBusy, !isOfNobody else { return nil }
    let moment =
      switch kind {
      case .awaitedCheck: heldBack.moment(.check, isAwaited ? checkAt : nil)
      case .message: messages.lazy.map { heldBack.moment(.message($0), messagesAt) }.min() ?? .max
      case .refresh: heldBack.moment(.refresh, isRefreshDue ? refreshAt : nil)
      case .news: heldBack.moment(.news, isOpen ? newsAt : nil)
      case .otherNews: heldBack.moment(.news, isOpen ? nil : newsAt)
      case .notedCheck: heldBack.moment(.check, !isAwaited && isNoted && isOpen ? checkAt : nil)
      case .otherNotedCheck: heldBack.moment(.check, !isAwaited && isNoted && !isOpen ? checkAt : nil)
      case .firstCheck: heldBack.moment(.check, !isAwaited && !isNoted && isFirstCheck ? checkAt : nil)
      case .openCheck:
        heldBack.moment(.check, !isAwaited && !isNoted && isOpen && !isFirstCheck ? checkAt : nil)
      case .check: heldBack.moment(.check, !isAwaited && !isNoted && !isOpen ? checkAt : nil)
      case .verify: heldBack.moment(.verify, verifyAt)
      case .settle: heldBack.moment(.settle, settleAt)
      case .fill: fills.lazy.map { heldBack.moment(.fill($0), fillsAt) }.min() ?? .max
      }
    return moment == .max ? nil : max(moment, retryAt ?? moment)
  }
}

extension Plan {
  private mutating func change(_ url: ChannelURL, _ body: (inout ChannelWork) -> Void) {
    channels.change(url, body)
  }

  /// A view was opened or moved. The channel of a new view is checked now.
  package mutating func open(_ view: OpenView, now: Int64) {
    change(view.channel) {
      if $0.views[view.id] == nil {
        $0.checkAt = now
        $0.owesFirstCheck = true
      }
      $0.isUsed = true
      $0.views[view.id] = view
    }
  }

  /// A view that is open.
  func view(_ id: String, in url: ChannelURL) -> OpenView? { channels[url]?.views[id] }

  /// The number of channels whose newest messages have to be prefetched.
  var channelsBehind: Int { channels.behind }

  /// When the next job in any channel may begin; a time before `now` if one may begin now.
  func channelsDueAt(withBackground: Bool) -> Int64 {
    var soonest = Int64.max
    for kind in ChannelWork.Kind.allCases where !kind.isInBackground || (withBackground && kind != .fill) {
      soonest = min(soonest, channels.first(kind)?.moment ?? .max)
    }
    guard withBackground else { return soonest }
    if let fill = channels.first(.fill)?.moment { soonest = min(soonest, max(fill, prefetchFrom)) }
    let prefetch = hasRoom ? channels.prefetchDueAt : .max
    return min(soonest, max(prefetch, prefetchFrom))
  }

  /// When the next prefetch or fill may begin. While clients' own reads wait for the upstream, at most one
  /// begins each second. It does not wait for the reads to end, because clients may read all the time (B33).
  private var prefetchFrom: Int64 {
    isForegroundWaiting ? max(prefetchNotBefore, prefetchedAt + pace.prefetchPause) : prefetchNotBefore
  }

  /// Tells whether no connected user is in the channel, or none who is active.
  mutating func attend(_ url: ChannelURL, isOfNobody: Bool, isResting: Bool, now: Int64) {
    guard let work = channels[url], work.isOfNobody != isOfNobody || work.isResting != isResting else {
      return
    }
    channels[url]?.isOfNobody = isOfNobody
    channels[url]?.isResting = isResting
    // The channel was not polled meanwhile, so it may have changed.
    if work.isOpen, work.isOfNobody && !isOfNobody || work.isResting && !isResting {
      channels[url]?.checkAt = now
      channels[url]?.owesFirstCheck = true
    }
  }

  /// No connected user is in the channel. What waits there is taken up when one comes.
  mutating func hasNobody(_ url: ChannelURL) { channels[url]?.isOfNobody = true }

  /// A client waits for a check of the channel.
  mutating func checkNow(_ url: ChannelURL, now: Int64) {
    channels[url]?.checkAt = now
    channels[url]?.isAwaited = true
    channels[url]?.retryAt = nil
    channels[url]?.heldBack.letGo(.check)
  }

  /// A connected user is now in a channel that had none.
  mutating func attend(_ url: ChannelURL, now: Int64) {
    guard channels[url]?.isOfNobody == true else { return }
    channels[url]?.isOfNobody = false
    guard isOpen(url) else { return }
    channels[url]?.checkAt = now
    channels[url]?.owesFirstCheck = true
  }

  /// A webhook came, so webhooks work.
  mutating func heardWebhook(now: Int64) { webhooks.hear(now: now) }

  /// A check found a new message that no webhook had named.
  mutating func missedWebhook() { webhooks.miss() }

  /// A view was disposed of.
  package mutating func close(view id: String, in url: ChannelURL) { channels[url]?.views[id] = nil }

  /// Whether the channel has an open view.
  package func isOpen(_ url: ChannelURL) -> Bool { channels[url]?.isOpen ?? false }

  /// Whether missing messages are counted in the channel (B28).
  package func countsMissing(_ url: ChannelURL) -> Bool { channels[url]?.countsMissing ?? false }

  /// A webhook named something in the channel (B34). `isRead`: it tells that a member has read on. Such
  /// a channel is refreshed at most once a second: a refresh has the positions of all.
  package mutating func noteWebhook(
    _ kind: Webhook.Note.Kind, in url: ChannelURL, message: Int64, isRead: Bool = false, now: Int64
  ) {
    let (delay, readInterval) = (pace.webhookNoteDelay, pace.readInterval)
    change(url) {
      // The webhook may tell that a user of this cache joined the channel.
      $0.isOfNobody = false
      switch kind {
      case .newest:
        // The first webhook after a pause makes a listing due at once. Those that follow soon share one more.
        let isQuiet = $0.newestNotedAt.map { now - $0 >= delay } ?? true
        if isQuiet { $0.newestNotedAt = now }
        $0.newsAt = min($0.newsAt ?? .max, isQuiet ? now : ($0.newestNotedAt ?? now) + delay)
      case .missed:
        $0.messages = []
        $0.isNoted = true
        $0.checkAt = min($0.checkAt ?? .max, now + delay)
      case .message:
        guard !$0.messages.contains(message) else { return }
        if $0.messages.isEmpty { $0.messagesAt = now }
        $0.messages.append(message)
      case .channel:
        let earliest = isRead ? ($0.refreshedAt ?? now - readInterval) + readInterval : now
        $0.refreshAt = $0.isRefreshDue ? min($0.refreshAt, max(now, earliest)) : max(now, earliest)
        $0.isRefreshDue = true
      }
    }
  }

  /// A client asked to fill the gap (B28).
  package mutating func fill(gap: Int64, in url: ChannelURL) {
    change(url) { if !$0.fills.contains(gap) { $0.fills.append(gap) } }
  }

  /// No client wants the gap filled any more.
  package mutating func stopFilling(gap: Int64, in url: ChannelURL) {
    channels[url]?.fills.removeAll { $0 == gap }
  }

  /// Notes whether the cache has enough of the channel's messages, whether stretches have to be verified, and
  /// whether somebody has opened the channel in the last month.
  package mutating func know(
    _ url: ChannelURL, isPrefetched: Bool, isUnverified: Bool, lastMessageAt: Int64, isUsed: Bool = false,
    now: Int64
  ) {
    change(url) {
      $0.isUsed = $0.isUsed || isUsed
      $0.isPrefetched = isPrefetched
      $0.lastMessageAt = max($0.lastMessageAt, lastMessageAt)
      if isUnverified { $0.verifyAt = now }
    }
  }

  /// Changes may have been missed in the channel: it is listed again when there is time (B31).
  package mutating func verify(_ url: ChannelURL, now: Int64) {
    change(url) { $0.verifyAt = min($0.verifyAt ?? .max, now) }
  }

  /// The channel has doubted messages: they are asked for by their ids (B27).
  mutating func settle(_ url: ChannelURL, now: Int64) {
    change(url) { $0.settleAt = min($0.settleAt ?? .max, now) }
  }

  /// A list or a changelog of channels contained the channel.
  mutating func met(_ activity: ChannelActivity, now: Int64) {
    let soon = now + pace.openPoll
    change(activity.url) {
      let isNews = activity.isBehind || activity.lastMessageAt > $0.lastMessageAt
      $0.lastMessageAt = max($0.lastMessageAt, activity.lastMessageAt)
      // A channel that is not prefetched yet needs no check: prefetch lists it from the newest end.
      if isNews, $0.isPrefetched || $0.isOpen { $0.checkAt = $0.checkAt ?? now }
      // With many open channels the next check may be minutes away. If a user's poll found that this channel
      // has newer messages, it is checked within 2 s. It is not checked at once: if the channel was deleted
      // and made anew, the webhook of its deletion has to be read first (B1).
      if activity.isBehind, $0.isOpen { $0.checkAt = min($0.checkAt ?? now, soon) }
    }
  }

  /// The next job: of the class whose turn it is, or else of the first in order of importance that has one
  /// (B30).
  mutating func pick(now: Int64) -> SyncJob? {
    if isClearing { return pickConnecting(now: now) ?? pickLane(now: now).map { .send($0) } }
    // A check that a client waits for is at most every second job, a listing every fourth. So clients who ask
    // all the time do not stop the other jobs.
    let awaited = first(.awaitedCheck, now: now).map { SyncJob.check($0.url) }
    let isTurnOfListing = awaited == nil && turns.isMultiple(of: 3) && mayBeginInBackground(now: now)
    if !wasAwaited, let job = awaited ?? (isTurnOfListing ? pickAwaitedListing(now: now) : nil) {
      wasAwaited = true
      return job
    }
    let turn = Share.turns[turns % Share.turns.count]
    for share in [turn, turn.second] + Share.allCases {
      guard let job = pick(share, now: now) else { continue }
      turns += 1
      wasAwaited = false
      return job
    }
    return awaited
  }

  private mutating func pick(_ share: Share, now: Int64) -> SyncJob? {
    switch share {
    case .views: return pickView(now: now)
    case .users: return pickForUser(now: now, isListing: false)
    case .sends: return pickLane(now: now).map { .send($0) }
    case .listings: return mayBeginInBackground(now: now) ? pickForUser(now: now, isListing: true) : nil
    case .channels:
      return mayBeginInBackground(now: now) ? first(.check, now: now).map { .check($0.url) } : nil
    case .rest: return pickRest(now: now)
    }
  }

  /// The channel whose job of that kind waits longest, if it may begin now.
  func first(_ kind: ChannelWork.Kind, now: Int64) -> (url: ChannelURL, moment: Int64)? {
    channels.first(kind).flatMap { $0.moment <= now ? $0 : nil }
  }

  /// Prefetch, verification and gaps in turns. Half of the turns are prefetch's. A kind without work leaves
  /// its turn to the others. Doubts come before them in turns that other classes left, and after them in the
  /// turns of this class.
  private mutating func pickRest(now: Int64) -> SyncJob? {
    let isOwnTurn = Share.turns[turns % Share.turns.count] == .rest
    let doubt = pickDoubt(now: now)
    if !isOwnTurn, let doubt { return doubt }
    guard mayBeginInBackground(now: now) else { return doubt }
    let job =
      switch turns / Share.turns.count % 4 {
      case 1: pickVerify(now: now) ?? pickPrefetch(now: now) ?? pickFill(now: now)
      case 3: pickFill(now: now) ?? pickPrefetch(now: now) ?? pickVerify(now: now)
      default: pickPrefetch(now: now) ?? pickVerify(now: now) ?? pickFill(now: now)
      }
    return job ?? doubt
  }

  private func pickVerify(now: Int64) -> SyncJob? { first(.verify, now: now).map { .verify($0.url) } }

  private mutating func pickPrefetch(now: Int64) -> SyncJob? {
    guard hasRoom, let url = channels.nextPrefetch(now: now), mayBePrefetched(now: now) else { return nil }
    return .prefetch(url)
  }

  /// Filling gaps has the same rate limit as prefetch (B28).
  private mutating func pickFill(now: Int64) -> SyncJob? {
    guard let url = first(.fill, now: now)?.url, let work = channels[url],
      let gap = work.fills.first(where: { !work.heldBack.holds(.fill($0), now: now) }),
      mayBePrefetched(now: now)
    else { return nil }
    return .fill(url, gap: gap)
  }

  private mutating func mayBePrefetched(now: Int64) -> Bool {
    guard prefetchFrom <= now else { return false }
    if let later = prefetchBucket.take(now: now) {
      prefetchNotBefore = later
      return false
    }
    prefetchedAt = now
    return true
  }

  mutating func endedInChannel(_ url: ChannelURL, _ job: SyncJob, _ outcome: Outcome, now: Int64) {
    guard var work = channels[url] else { return }
    work.isBusy = false
    switch outcome {
    case .channelGone:
      // If a refresh is due, it may still find the channel, of which nothing else is known yet.
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
      if case .check = job {
        work.checkAt = now
        work.stillOwesFirstCheck()
      }
    default:
      work.wait.reset()
      work.retryAt = nil
      if let kind = job.channelJob { work.heldBack.letGo(kind) }
      // A check lists the new messages, too.
      if case .check = job { work.heldBack.letGo(.news) }
      if case .prefetched(let isComplete) = outcome { work.isPrefetched = isComplete }
      if case .checked(let isPrefetched, let isInDoubt) = outcome {
        work.isPrefetched = isPrefetched
        if isInDoubt { work.verifyAt = work.verifyAt ?? now }
      }
      if case .progressed(let isComplete) = outcome { progressed(&work, job, isComplete, now: now) }
      if case .tokenLost = outcome { work.verifyAt = now }
    }
    if case .check = job { work.isCatchingUp = false }
    if case .check = job, work.isOpen, !work.isResting {
      work.checkAt = work.checkAt ?? now + openInterval(now: now)
      if lacks(.messageChangelog) { work.verifyAt = work.verifyAt ?? now + pace.verify }
    }
    channels[url] = work
  }

  /// The channel is gone, or no connected user is in it. Its open views stay: they are polled again as soon
  /// as a connected user is in it.
  private mutating func forget(_ url: ChannelURL, _ views: TextMap<OpenView>) {
    channels[url] = nil
    guard !views.isEmpty else { return }
    change(url) {
      $0.views = views
      $0.owesFirstCheck = true
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

  /// Makes a failed job due again.
  private func isDueAgain(_ work: inout ChannelWork, _ job: SyncJob, _ outcome: Outcome, now: Int64) {
    switch job {
    case .check:
      work.checkAt = now
      work.stillOwesFirstCheck()
    case .news: work.newsAt = now
    case .refresh: work.isRefreshDue = true
    case .message(_, let id): if !work.messages.contains(id) { work.messages.append(id) }
    case .verify: work.verifyAt = now
    case .settle: work.settleAt = now
    case .fill(_, let gap) where outcome.isRejection: work.fills.removeAll { $0 == gap }
    default: break
    }
  }

  /// The interval between two checks of an open channel.
  func openInterval(now: Int64) -> Int64 { pace.openInterval(polled(now: now)) }

  /// The numbers of users and channels that are polled at present.
  func polled(now: Int64) -> Pace.Polled {
    Pace.Polled(
      users: users.active, channels: channels.polled, requests: lacks(.messageChangelog) ? 1 : 2,
      hasWebhooks: webhooks.isGood(now: now, memory: pace.webhookMemory))
  }
}

extension Outcome {
  var isRejection: Bool {
    if case .failed(.rejection) = self { return true }
    return false
  }
}

extension UpstreamError {
  /// Whether the error delays only this job and no other of its channel (B35): an answer that cannot be read,
  /// or the refusal of one message or one member.
  fileprivate func isHeldAlone(_ job: SyncJob) -> Bool {
    switch (self, job) {
    case (.unreadable, _), (.rejection, .message), (.rejection, .refresh): true
    default: false
    }
  }
}
