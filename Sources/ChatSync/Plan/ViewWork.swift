import ChatCache
import ChatModel

// The jobs for open views and of webhook notes.
extension Plan {
  /// The jobs for views and webhook notes, in order of importance. A doubt has only turns of its own.
  private enum ViewJob {
    /// Listings that webhooks asked for: of open channels, and of others.
    case news, otherNews
    /// Checks of channels with new views, and of other open channels. While webhooks work the latter find
    /// little.
    case first, poll
    /// Messages and channels that webhooks named.
    case named
    case doubt

    static let turns: [ViewJob] = [.news, .first, .named, .doubt, .news, .poll, .otherNews, .first]
    static let order: [ViewJob] = [.news, .first, .named, .otherNews, .poll]
  }

  /// The next job for views and webhook notes. Each kind has turns of eight, so that none keeps the others
  /// waiting.
  mutating func pickView(now: Int64) -> SyncJob? {
    let turn = ViewJob.turns[viewTurns % ViewJob.turns.count]
    for kind in [turn] + ViewJob.order {
      guard let job = pick(kind, now: now) else { continue }
      viewTurns += 1
      return job
    }
    return nil
  }

  /// The listing of an open channel that webhooks asked for and that waits longest.
  func pickOpenNews(now: Int64) -> SyncJob? { pick(.news, now: now) }

  /// When the next such listing may begin.
  var openNewsDueAt: Int64 {
    [ChannelWork.Kind.news, .notedCheck].compactMap { channels.first($0)?.moment }.min() ?? .max
  }

  private func pick(_ kind: ViewJob, now: Int64) -> SyncJob? {
    switch kind {
    case .news: return pickNoted(.news, .notedCheck, now: now)
    case .first: return first(.firstCheck, now: now).map { .check($0.url) }
    case .named: return pickNamed(now: now)
    case .otherNews:
      return mayBeginInBackground(now: now) ? pickNoted(.otherNews, .otherNotedCheck, now: now) : nil
    case .poll: return first(.openCheck, now: now).map { .check($0.url) }
    case .doubt: return pickDoubt(now: now)
    }
  }

  /// The channel that has waited longest since a webhook told of new messages or of missed changes. Where
  /// clients are told nothing before a check, the check comes at once and lists the new messages, too.
  private func pickNoted(
    _ newsKind: ChannelWork.Kind, _ checkKind: ChannelWork.Kind, now: Int64
  ) -> SyncJob? {
    let (news, missed) = (first(newsKind, now: now), first(checkKind, now: now))
    if let missed, missed.moment < news?.moment ?? .max { return .check(missed.url) }
    guard let url = news?.url, let work = channels[url] else { return nil }
    let isChecked = work.isFirstCheck && work.heldBack.moment(.check, work.checkAt) <= now
    return isChecked ? .check(url) : .news(url)
  }

  /// The message or the channel that a webhook named and that waits longest.
  private func pickNamed(now: Int64) -> SyncJob? {
    let (message, refresh) = (first(.message, now: now), first(.refresh, now: now))
    if let refresh, refresh.moment < message?.moment ?? .max { return .refresh(refresh.url) }
    guard let message, let work = channels[message.url],
      let id = work.messages.first(where: { !work.heldBack.holds(.message($0), now: now) })
    else { return nil }
    return .message(message.url, id: id)
  }

  func pickDoubt(now: Int64) -> SyncJob? { first(.settle, now: now).map { .settle($0.url) } }
}
