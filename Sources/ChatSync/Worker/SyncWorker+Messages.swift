import ChatCache
import ChatModel
import Platform

// The jobs in one channel: changelog, newest end, prefetch, verification, gaps.
extension SyncWorker {
  /// Pages of a message changelog followed in one job.
  static let changelogPages = 3

  /// Asks for edits and deletes first, then for the newest messages (B30).
  func check(_ url: ChannelURL) async throws -> Outcome { try await look(at: url, asksForChanges: true) }

  /// Lists the new messages that webhooks told of (B34). Edits and deletes have webhooks of their own, and
  /// the channel's next check asks for those that were missed.
  func news(in url: ChannelURL) async throws -> Outcome { try await look(at: url, asksForChanges: false) }

  /// The channel's webhook notes are settled if this succeeds, and stay otherwise.
  private func look(at url: ChannelURL, asksForChanges: Bool) async throws -> Outcome {
    let pending = pendingNotes[url] ?? PendingNotes()
    let isMissed = pending.isMissed && asksForChanges
    let notes = try pending.isRealtime || isMissed ? store.webhookNotes(in: url) : []
    pendingNotes[url]?.isRealtime = false
    if isMissed { pendingNotes[url]?.isMissed = false }
    var isSettled = false
    defer {
      if !isSettled, pending.isRealtime { pendingNotes[url, default: PendingNotes()].isRealtime = true }
      if !isSettled, isMissed { pendingNotes[url, default: PendingNotes()].isMissed = true }
    }
    let news = pending.isRealtime ? notes.filter { $0.kind == .newest } : []
    let outcome = try await list(
      url, news, asksForChanges: asksForChanges, isRealtime: pending.isRealtime, isMissed: isMissed)
    if case .lacks = outcome { return outcome }
    try await settle(news, in: url)
    for note in notes where isMissed && note.kind == .missed { try await store.settled(note) }
    isSettled = true
    return outcome
  }

  /// Settles the notes that are left after the listing. A message that it lacked is first asked for by its
  /// id (B34). If that message is refused or cannot be read, it gets a note of its own, which is tried again
  /// alone and holds up neither the channel nor its other messages (B35).
  private func settle(_ notes: [Webhook.Note], in url: ChannelURL) async throws {
    guard !notes.isEmpty else { return }
    let left = try store.webhookNotes(in: url)
    let lacking = Set(try store.unknown(notes.map(\.messageID), in: url))
    for note in notes where left.contains(note) {
      if lacking.contains(note.messageID), note.messageID != 0 {
        do {
          try await fetchMessage(note.messageID, in: url, note.source, .open)
        } catch let error as UpstreamError {
          guard error.concernsOneItem else { throw error }
          let note = Webhook.Note(
            kind: .message, channel: url, messageID: note.messageID, source: note.source)
          try take(try await store.note([note]))
        }
      }
      try await store.settled(note)
    }
  }

  /// Lists from the newest end; a check lists what changed before that, and what new views show after it.
  private func list(
    _ url: ChannelURL, _ news: [Webhook.Note], asksForChanges: Bool, isRealtime: Bool, isMissed: Bool
  ) async throws -> Outcome {
    let views = asksForChanges ? (unanswered[url] ?? TextMap()).map(\.name) : []
    do {
      guard let line = try store.line(of: url) else { return .channelGone }
      let changes = asksForChanges ? try await readableChanges(url, line) : .done
      if case .lacks = changes { return changes }
      // Without a changelog, changes that were missed are found by listing all again.
      if isMissed, plan.lacks(.messageChangelog) { try await store.doubt(url) }
      let source: ChangeSource =
        isRealtime ? .messageReceived : line.coveredEnd == nil ? .apiResult : .messageFill
      try await closeNewestEnd(
        url, line, counts: plan.countsMissing(url), source: source, answering: news,
        isCheck: asksForChanges, importance(url))
      if !views.isEmpty { try await joinNewestEnd(url, source) }
      try await listStarts(of: views, in: url)
      try await answer(views, in: url, nil)
      if case .tokenLost = changes { return changes }
      let after = try store.line(of: url)
      if !isRealtime { judgeWebhooks(before: line.newest, after: after?.newest) }
      return .checked(
        isPrefetched: after?.isPrefetched(plan.pace.prefetchMessages) ?? true,
        isInDoubt: after?.unverified != nil)
    } catch {
      guard let error = error as? UpstreamError else { throw error }
      try await answer(views, in: url, error)
      guard error.isNotFound else { throw error }
      return try await confirmGone(url)
    }
  }

  /// The changelog's outcome. If it cannot be read, its token stays, the newest messages do not wait (B35),
  /// and the next check reads it again.
  private func readableChanges(_ url: ChannelURL, _ line: ChannelLine) async throws -> Outcome {
    do { return try await messageChanges(url, line) } catch {
      guard error.isUnreadableUpstream else { throw error }
      return .done
    }
  }

  /// The changelog since the stored token (B31). More than 250 changes, or a refused token, put all
  /// coverage in doubt.
  private func messageChanges(_ url: ChannelURL, _ line: ChannelLine) async throws -> Outcome {
    guard !plan.lacks(.messageChangelog), var since = line.changes else { return .done }
    var count = 0
    for page in 1...SyncWorker.changelogPages {
      let askedAt = store.mark()
      let changes: UpstreamChanges<MessageRecord, Int64>
      do {
        changes = try await upstream.messageChanges(in: url, since: since, importance(url))
      } catch {
        guard let error = error as? UpstreamError else { throw error }
        if error.deniesCapability, plan.capabilities[.messageChangelog] != true {
          return .lacks(.messageChangelog)
        }
        guard case .token = since, error.deniesToken else {
          return try await refused(.messageChangelog, error) {
            _ = try await self.upstream.messages(
              in: url, MessageWindow(.newest, older: 1, newer: 0), self.importance(url))
          }
        }
        try await store.doubt(url)
        return .tokenLost
      }
      await learn(.messageChangelog, isOffered: true)
      count += changes.updated.count + changes.deleted.count
      if !changes.unreadableNames.isEmpty {
        // Noted before the changelog's new token is stored, so that a stop in between loses none.
        let notes = changes.unreadableNames.map {
          Webhook.Note(kind: .message, channel: url, messageID: $0, source: .messageUpdated)
        }
        try take(try await store.note(notes))
      }
      if !changes.isNothing(since: since),
        try await store.store(changes, in: url, .messageChangelog, askedAt: askedAt)
      {
        plan.settle(url, now: now)
      }
      guard changes.hasMore, let next = changes.next, since != .token(next) else { break }
      since = .token(next)
      if count > Limits.changelogChanges || page == SyncWorker.changelogPages {
        try await store.doubt(url)
        return .tokenLost
      }
    }
    return .done
  }

  /// The outcome after the upstream refused a call that it may not offer (B32). If `control`, another call
  /// with the same key, succeeds, the refusal is no fault of the link, the key or the user. The third time
  /// the call counts as not offered.
  func refused(
    _ capability: Capability, _ error: UpstreamError, _ control: () async throws -> Void
  ) async throws -> Outcome {
    let refusal = error
    guard refusal.isRefusal else { throw refusal }
    do { try await control() } catch { throw refusal }
    Log.line(
      .info, "upstream_call_refused",
      ["capability": .text(capability.rawValue), "reason": .text(error.description)])
    return plan.refused(capability, now: now) ? .lacks(capability) : .refused(capability)
  }

  /// Lists from the newest end until the covered end is met, or is known to be far away (B25, B28, B29).
  func closeNewestEnd(
    _ url: ChannelURL, _ line: ChannelLine, counts: Bool, source: ChangeSource,
    answering news: [Webhook.Note] = [], isCheck: Bool = true, _ importance: Importance
  ) async throws {
    if let end = line.evictedEnd, importance == .background,
      try await listNews(after: end, in: url, source, answering: news)
    {
      return
    }
    // A webhook that names no message may tell of an edit.
    let told = Set(isCheck ? [] : news.map(\.messageID))
    var check = GapCheck(
      covered: line.coveredEnd, counts: counts && (line.reachedEnd || line.newest == nil),
      told: told.contains(0) ? [] : told)
    var listings: [MessageListing] = []
    var context = context(source)
    context.answers = news
    while true {
      switch check.step() {
      case .list(let window):
        do {
          let listing = try await list(url, window, importance)
          listings.append(listing)
          check.received(
            window, listing.rows.map(\.position), lacksParents: listing.lacksParents(after: line.coveredEnd))
        } catch {
          guard case .message = window.anchor, error.isNotFoundUpstream, check.anchorIsGone() else {
            throw error
          }
        }
      case .finish(let verdict):
        if case .huge(let missing) = verdict { context.hugeMissing = missing }
        try await keep(check.keep.map { listings[$0] }, in: url, context)
        return
      }
    }
  }

  /// Lists once more if a message was sent while the newest page was listed: it stands alone behind a gap,
  /// and new views would show it alone.
  private func joinNewestEnd(_ url: ChannelURL, _ source: ChangeSource) async throws {
    guard let line = try store.line(of: url), line.isBelowGap else { return }
    try await closeNewestEnd(url, line, counts: plan.countsMissing(url), source: source, importance(url))
  }

  /// In a channel whose messages were all evicted, lists only newer ones (B33). False: these are more than a
  /// page, or the message at `end` is gone upstream.
  private func listNews(
    after end: Position, in url: ChannelURL, _ source: ChangeSource, answering news: [Webhook.Note]
  ) async throws -> Bool {
    var window = MessageWindow(.message(end), older: 0, newer: GapCheck.pageRows)
    window.includesAnchor = false
    do {
      let listing = try await list(url, window, .background)
      guard listing.rows.count < GapCheck.pageRows else { return false }
      var context = context(source)
      context.answers = news
      try await keep([listing], in: url, context)
      return true
    } catch {
      guard error.isNotFoundUpstream else { throw error }
      return false
    }
  }

  /// The context in which listings requested from now on are stored.
  func context(_ source: ChangeSource, fills gap: Int64? = nil) -> ListingContext {
    var context = ListingContext(source: source, generation: plan.link.generation)
    context.fillsGap = gap
    context.listsReplies = plan.capabilities[.replyListing] == true
    return context
  }

  private func importance(_ url: ChannelURL) -> Importance { plan.isOpen(url) ? .open : .background }

  func list(
    _ url: ChannelURL, _ window: MessageWindow, _ importance: Importance
  ) async throws -> MessageListing {
    let (page, askedAt) = try await page(of: url, window, importance)
    try await askForUnreadable(page.unreadableNames, in: url)
    noteUnreadable(page, in: url)
    if let lists = ReplyListing.shown(by: page.items, of: window, known: plan.capabilities[.replyListing]) {
      await learn(.replyListing, isOffered: lists)
    }
    return MessageListing(
      window: window, rows: page.items, isWhole: page.unreadable == 0, isEndRead: page.isEndRead,
      breaks: page.breaks, askedAt: askedAt)
  }

  /// Remembers the messages before which an item could not be read, and the first message of such a page,
  /// which its limit may have cut, until a page without unreadable items shows them.
  private func noteUnreadable(_ page: UpstreamPage<MessageRecord>, in url: ChannelURL) {
    var beside = besideUnreadable.removeValue(forKey: url) ?? []
    if page.unreadable == 0 { for item in page.items { beside.remove(item.position) } }
    let ends = page.breaks.isEmpty ? [] : [0] + page.breaks
    for index in ends where index < page.items.count { beside.insert(page.items[index].position) }
    if !beside.isEmpty, beside.count <= SyncWorker.mostBesideUnreadable { besideUnreadable[url] = beside }
  }

  /// A channel with more such messages is listed as if it had none.
  private static let mostBesideUnreadable = 1_000

  /// Notes messages that could not be read in a list, so that each is asked for by its id until it can be
  /// read (B35). Each poll lists them again, so messages that are known or noted already are left out.
  private func askForUnreadable(_ names: [String], in url: ChannelURL) async throws {
    let ids = names.compactMap { Int64($0) }
    guard !ids.isEmpty else { return }
    let noted = Set(try store.webhookNotes(in: url).filter { $0.kind == .message }.map(\.messageID))
    let notes = try store.unknown(ids, in: url).filter { !noted.contains($0) }.map {
      Webhook.Note(kind: .message, channel: url, messageID: $0, source: .messageFill)
    }
    guard !notes.isEmpty else { return }
    try take(try await store.note(notes))
  }

  /// The channel is unknown upstream: asks about each connected member before anything is removed.
  private func confirmGone(_ url: ChannelURL) async throws -> Outcome {
    for user in try store.connectedMembers(of: url) {
      guard try await isGone(user, from: url) else { continue }
      try await endMembership(of: user, in: url, .channelDeleted)
    }
    guard try store.connectedMembers(of: url, atMost: 1).isEmpty else {
      throw UpstreamError.rejection(code: 400201, message: "the channel's messages cannot be listed")
    }
    return .channelGone
  }

  /// One message that a webhook named (B34).
  func message(_ id: Int64, in url: ChannelURL) async throws -> Outcome {
    let note = try store.webhookNotes(in: url).first { $0.kind == .message && $0.messageID == id }
    try await fetchMessage(id, in: url, note?.source ?? .messageUpdated, .open)
    if let note { try await store.settled(note) }
    return .done
  }

  /// Asks for one message by its id and stores the answer. Returns whether the upstream has the message; one
  /// that it does not have is deleted here.
  @discardableResult
  func fetchMessage(
    _ id: Int64, in url: ChannelURL, _ source: ChangeSource, _ importance: Importance
  ) async throws -> Bool {
    let askedAt = store.mark()
    do {
      let message = try await upstream.message(id, in: url, importance)
      let isStored = try await store.store(message, in: url, source, askedAt: askedAt)
      // An answer from before a clear is not stored: the client that waits for it asks again (B58).
      if !isStored, importance == .foreground { throw SyncError.notSynced(retryAfter: 1_000) }
      return true
    } catch UpstreamError.unauthorized {
      // If the same key may list the channel, the refusal concerns this message, not the key (B32, B35).
      _ = try await upstream.messages(in: url, MessageWindow(.newest, older: 1, newer: 0), importance)
      throw UpstreamError.rejection(code: 403, message: "the message is refused, its channel is not")
    } catch {
      guard error.isNotFoundUpstream else { throw error }
      try await store.delete(message: id, in: url, .messageDeleted)
      return false
    }
  }

  /// The next page of a channel's newest stretch (B33).
  func prefetch(_ url: ChannelURL) async throws -> Outcome {
    let wanted = plan.pace.prefetchMessages
    guard let line = try store.line(of: url) else { return .channelGone }
    guard !line.isPrefetched(wanted) else { return .prefetched(isComplete: true) }
    // The first channel whose changelog can be requested shows whether the upstream offers one (B32).
    if plan.capabilities[.messageChangelog] == nil, line.changes != nil {
      let changes = try await messageChanges(url, line)
      if case .lacks = changes { return changes }
    }
    do {
      if let oldest = line.oldest, !line.isBelowGap {
        try await storeOlder(than: oldest, in: url, .apiResult)
      } else {
        try await closeNewestEnd(url, line, counts: false, source: .apiResult, .background)
      }
    } catch {
      guard error.isNotFoundUpstream else { throw error }
      return try await confirmGone(url)
    }
    let after = try store.line(of: url)
    // A page that added nothing is not requested again at once, because it would add nothing. The channel's
    // next news begins the prefetch again.
    return .prefetched(isComplete: after == line || after?.isPrefetched(wanted) ?? true)
  }

  private func storeOlder(than position: Position, in url: ChannelURL, _ source: ChangeSource) async throws {
    let listings = try await listed(url, .older(than: position, rows: GapCheck.pageRows), .background)
    try await keep(listings, in: url, context(source))
  }

  /// Lists a page of the newest stretch in doubt, from its newer end (B31).
  func verify(_ url: ChannelURL) async throws -> Outcome {
    guard let line = try store.line(of: url) else { return .channelGone }
    guard let doubt = line.unverified else {
      if plan.lacks(.messageChangelog), plan.isOpen(url) { try await listAgain(url, line) }
      return .progressed(isComplete: true)
    }
    // Messages below may have been evicted (B33): lists the stretch's rows and one more, which shows its end.
    let rows = line.isAboveEvicted ? min(line.unverifiedRows + 1, GapCheck.pageRows) : GapCheck.pageRows
    let stretch = MessageSyncRequest.Stretch.older(than: doubt.upperBound.next, rows: rows)
    let listings = try await listed(url, stretch, .background)
    try await keep(listings, in: url, context(.messageChangelog))
    let after = try store.line(of: url)?.unverified
    // A listing that settled nothing is not repeated at once. The channel's next check finds the doubt.
    return .progressed(isComplete: after == nil || after == doubt)
  }

  /// The most pages that are listed again without a message changelog.
  static let pagesListedAgain = 6

  /// Lists the newest pages of an open channel again. Without a changelog this is how edits and deletes are
  /// found (B32). Each page begins below the oldest position that the page before covered, not below its
  /// oldest row: a page that was cut proves nothing about the millisecond of the cut. If the beginning of the
  /// channel is known, the last page is the empty one that proves it.
  private func listAgain(_ url: ChannelURL, _ line: ChannelLine) async throws {
    var listings = [
      try await list(url, MessageWindow(.newest, older: GapCheck.pageRows, newer: 0), .open)
    ]
    for page in 1...SyncWorker.pagesListedAgain {
      try await keep(listings, in: url, context(.apiResult))
      let last = listings[listings.count - 1]
      guard let first = last.rows.map(\.position).min(), page < SyncWorker.pagesListedAgain else { return }
      if !line.reachesBeginning, first <= line.oldest ?? .end { return }
      let low = last.window.listing(last.rows.map(\.position)).claim?.lowerBound ?? first
      listings = try await listed(url, .older(than: low, rows: GapCheck.pageRows), .open)
    }
  }

  /// Lists a page of a gap from its older end (B28), or from its newer end if it reaches the beginning.
  func fill(_ gap: Int64, in url: ChannelURL) async throws -> Outcome {
    guard let range = try store.line(of: url)?.gaps[gap] else { return .progressed(isComplete: true) }
    let rows = GapCheck.pageRows
    let stretch: MessageSyncRequest.Stretch =
      range.lowerBound == .start
      ? .older(than: range.upperBound.next, rows: rows) : .newer(than: range.lowerBound.previous, rows: rows)
    do {
      let listings = try await listed(url, stretch, .background)
      try await keep(listings, in: url, context(.messageFill, fills: gap))
    } catch UpstreamError.rejection(let code, let message) {
      try await store.endFill(gap, in: url)
      throw UpstreamError.rejection(code: code, message: message)
    }
    guard let left = try store.line(of: url)?.gaps[gap] else { return .progressed(isComplete: true) }
    // More messages in one millisecond than a page holds: asking again would bring the same.
    guard left == range else { return .progressed(isComplete: false) }
    try await store.endFill(gap, in: url)
    return .progressed(isComplete: true)
  }
}
