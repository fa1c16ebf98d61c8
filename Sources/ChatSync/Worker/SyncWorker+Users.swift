import ChatCache
import ChatModel

// The jobs for one user: acknowledgement, first listing and sweep, changes of the channels.
extension SyncWorker {
  /// The channels in a page of a listing.
  static let channelPage = 100

  func askAbout(_ user: UserID) async throws -> Outcome {
    let record = try await upstream.user(user, .open)
    guard record.isActive else {
      throw UpstreamError.rejection(code: 400300, message: "the user is deactivated")
    }
    try await store.acknowledge(user)
    return .acknowledged
  }

  /// Lists one page. The changelog will start at the first page's time, so that no change is lost in between
  /// (B11).
  func list(_ user: UserID, after: String?) async throws -> Outcome {
    let startedAt = clock.wallMilliseconds()
    let mark = store.mark()
    let isAwaited = plan.withoutSlot.contains(.list(user, after: after))
    let importance: Importance = isAwaited ? .listing : .background
    var page: UpstreamPage<ChannelRecord>
    do {
      page = try await upstream.channels(
        of: user, order: .creation, limit: SyncWorker.channelPage, after: after, importance)
      // An empty page ends the list, so it is requested twice.
      if page.items.isEmpty, page.unreadable == 0 {
        page = try await upstream.channels(
          of: user, order: .creation, limit: SyncWorker.channelPage, after: after, importance)
      }
    } catch {
      guard after != nil, let denial = error as? UpstreamError, denial.deniesToken, !denial.isNotFound else {
        throw error
      }
      return .tokenLost
    }
    if after == nil || sweeps[user] == nil {
      guard after == nil else { return .tokenLost }
      sweeps[user] = Sweep(
        number: startedAt, mark: mark,
        since: min(page.at ?? startedAt, startedAt) - SyncWorker.clockSlack)
    }
    try await askAgain(page.unreadableNames.map { ChannelURL($0) }, page.items, of: user)
    let asked = ChannelRecord.Asked(sequence: mark)
    let found = try await store.store(
      try await withStates(page.items, of: user, asked, importance), of: user,
      .listing(sweep: sweeps[user]?.number ?? startedAt))
    for activity in found { try meet(activity.url, as: user) }
    if after == nil, page.next == nil { try noteCrowds(page.items, toldTo: user) }
    guard page.next == nil, let sweep = sweeps[user],
      try await store.endListing(of: user, begunAt: sweep.mark, ifMetBy: sweep.number)
    else { return .listed(next: page.next, channels: found) }
    return .allListed(found, isOnePage: after == nil && page.tellsAll)
  }

  /// How far the upstream's clock may differ from the times that it wrote into rows, in ms.
  static let clockSlack: Int64 = 60_000

  /// Asks about each channel that no page of the sweep contained, before it is removed: a page may have been
  /// cut.
  func endSweep(_ user: UserID) async throws -> Outcome {
    guard let sweep = sweeps[user] else { return .tokenLost }
    for url in try store.unmet(by: sweep.number, of: user) where try await isGone(user, from: url) {
      try await endMembership(of: user, in: url, .channelRefresh)
    }
    try await store.endListing(of: user, begunAt: sweep.mark)
    return .done
  }

  func channelChanges(_ user: UserID) async throws -> Outcome {
    let since: ChangesSince
    if let token = try store.channelToken(of: user) {
      since = .token(token)
    } else if let sweep = sweeps[user] {
      since = .time(sweep.since)
    } else {
      return .tokenLost
    }
    let changes: UpstreamChanges<ChannelRecord, ChannelURL>
    let asked = ChannelRecord.Asked(sequence: store.mark())
    do {
      changes = try await askForChanges(of: user, since: since)
    } catch {
      guard let error = error as? UpstreamError else { throw error }
      if error.deniesCapability, plan.capabilities[.channelChangelog] != true {
        return .lacks(.channelChangelog)
      }
      if case .token = since, error.deniesToken { return .tokenLost }
      return try await refused(.channelChangelog, error) {
        guard try await self.upstream.user(user, .open).isActive else { throw error }
      }
    }
    await learn(.channelChangelog, isOffered: true)
    // The notes are stored before the changelog's token, so that a stop in between loses none.
    try await askAgain(changes.unreadableNames, changes.updated, of: user)
    // A changelog that has more pages but no new token would be read for ever.
    let isStuck = changes.hasMore && (changes.next == nil || since == changes.next.map { .token($0) })
    if changes.isNothing(since: since) { return isStuck ? .tokenLost : .changed([], hasMore: false) }
    let found = try await store.store(
      try await withStates(changes.updated, of: user, asked), of: user,
      .changelog(deleted: changes.deleted, next: changes.next, asked: asked))
    for activity in found { try meet(activity.url, as: user) }
    for url in changes.deleted { lookAgain(at: url) }
    if isStuck { return .tokenLost }
    return .changed(found, hasMore: changes.hasMore)
  }

  func topChannels(_ user: UserID, _ importance: Importance = .open) async throws -> Outcome {
    let asked = ChannelRecord.Asked(sequence: store.mark())
    let page = try await upstream.channels(
      of: user, order: .lastMessage, limit: SyncWorker.channelPage, after: nil, importance)
    let found = try await store.store(try await withStates(page.items, of: user, asked), of: user, .top)
    for activity in found { try meet(activity.url, as: user) }
    // Fields that its channels lack come with the next first page.
    try await askAgain(page.unreadableNames.map { ChannelURL($0) }, [], of: user)
    if importance == .open, page.next == nil, page.unreadable == 0 {
      try await confirmAbsent(user, besides: Set(page.items.map(\.url)))
    }
    return .changed(found, hasMore: false)
  }

  /// If a listed channel lacks the user's own view and the cache has no membership, asks whether the user
  /// joined or is only invited. The list alone proves no rights.
  private func withStates(
    _ records: [ChannelRecord], of user: UserID, _ asked: ChannelRecord.Asked,
    _ importance: Importance = .background
  ) async throws -> [ChannelRecord] {
    var records = records
    for index in records.indices { records[index].asked = asked }
    for index in records.indices where records[index].membership?.state == nil {
      let url = records[index].url
      guard records[index].membership != nil, try !store.isConnectedMember(user, of: url) else {
        continue
      }
      do {
        records[index].membership?.state = try await upstream.memberState(user, of: url, importance)
      } catch {
        guard error.isUnreadableUpstream else { throw error }
      }
    }
    return records
  }

  /// The page was the user's whole list. Asks about each stored channel that it lacks before the channel is
  /// removed, without waiting for a sweep.
  private func confirmAbsent(_ user: UserID, besides listed: Set<ChannelURL>) async throws {
    for url in try store.unmet(by: .max, of: user) where !listed.contains(url) {
      guard try await isGone(user, from: url) else { continue }
      try await endMembership(of: user, in: url, .channelRefresh)
    }
  }

  /// Whether the upstream says that the user is no member. An answer that cannot be read does not say so, and
  /// keeps no other channel waiting.
  func isGone(
    _ user: UserID, from url: ChannelURL, _ importance: Importance = .background
  ) async throws -> Bool {
    do { return try await !upstream.isMember(user, of: url, importance) } catch {
      guard error.isUnreadableUpstream else { throw error }
      return false
    }
  }

  /// Stores webhook notes for channels that could not be read in a list, or came without the fields that only
  /// the user sees. Each is then fetched alone until it has them (B35).
  private func askAgain(
    _ unreadable: [ChannelURL], _ records: [ChannelRecord], of user: UserID
  ) async throws {
    memberViews.note(records)
    let untold = memberViews.areExpected ? records.filter(\.lacksMemberView).map(\.url) : []
    guard !unreadable.isEmpty || !untold.isEmpty else { return }
    let notes = (unreadable + untold).map {
      Webhook.Note(kind: .channel, channel: $0, source: .channelRefresh, users: [user])
    }
    try take(try await store.note(notes))
  }

  /// Tells the plan the coverage of a channel that a connected user is in, and takes up webhook notes that
  /// were stored while no connected user was in it.
  func know(_ url: ChannelURL) throws {
    guard plan.channels[url]?.isOfNobody ?? true, let line = try store.line(of: url),
      try !store.connectedMembers(of: url, atMost: 1).isEmpty
    else { return }
    plan.know(
      url, isPrefetched: line.isPrefetched(plan.pace.prefetchMessages), isUnverified: line.unverified != nil,
      lastMessageAt: 0, now: now)
    plan.attend(url, now: now)
    try take(try store.webhookNotes(in: url))
  }

  /// Fetches the channel as the users whom its webhook notes name, and one other; as every connected member
  /// if the channel may be gone (B10, B34).
  func refresh(_ url: ChannelURL) async throws -> Outcome {
    let hadNobody = try store.connectedMembers(of: url, atMost: 1).isEmpty
    // Read before the notes, so that news in between does not count as settled.
    let news = try store.memberList(of: url).news
    // The notes and their users stay until all is done. A webhook that comes meanwhile makes a new one (B34).
    let notes = try store.webhookNotes(in: url).filter { $0.kind == .channel }
    let users = Array(Set(notes.flatMap(\.users)))
    // Without a note, one is settled that the plan heard of too late. Polls may rely on this refresh for
    // members and read positions nevertheless (`refreshMembers`), so it asks as one member.
    let source = notes.lazy.map(\.source).first { $0 != .read } ?? .read
    let named = users.filter { user in
      plan.status(of: user).map { $0.phase != .stopped && $0.phase != .closed } ?? false
    }
    // An answer about one member that cannot be read, or a refusal, does not stop the others. The refresh is
    // repeated (B35).
    var failure: UpstreamError?
    var hasLeft = false
    for user in try asked(of: url, source, named) {
      do {
        hasLeft = try await !refresh(url, as: user, isNamed: named.contains(user), source, news)
      } catch let error as UpstreamError {
        guard error.concernsOneItem else { throw error }
        failure = error
      }
    }
    try await endMemberships(of: stopped(among: users), in: url, source)
    if let failure { throw failure }
    // For reads one member is asked for. If that one has left, the next one is.
    if hasLeft, source == .read { return try await refresh(url) }
    for note in notes {
      // A read adds and removes no member, so its note leaves the member list as it is.
      if note.source != .read { try await settleMembers(of: url, news, note) }
      try await store.settled(note)
    }
    guard try !store.connectedMembers(of: url, atMost: 1).isEmpty else { return .channelGone }
    // The webhook made the plan believe that somebody was there before. So it has not taken up what waits.
    if hadNobody { plan.hasNobody(url) }
    try know(url)
    // A poll may have found the first to come before this refresh began.
    try take(try store.webhookNotes(in: url).filter { $0.kind == .missed })
    return .done
  }

  /// Those of the users who are disconnected.
  private func stopped(among users: [UserID]) -> [UserID] {
    users.filter { plan.status(of: $0)?.phase == .stopped }
  }

  /// Ends the memberships of disconnected users who left the channel. Nothing is fetched for such a user, who
  /// may still read what is cached (B4).
  private func endMemberships(of users: [UserID], in url: ChannelURL, _ source: ChangeSource) async throws {
    for user in users where try await isGone(user, from: url, .open) {
      try await endMembership(of: user, in: url, source)
    }
  }

  /// The users as whom the channel is fetched. Any one of them gets the shared fields; each user whom a note
  /// names gets that user's own view (B34). If the channel may be gone, it is fetched as every member.
  private func asked(of url: ChannelURL, _ source: ChangeSource, _ named: [UserID]) throws -> [UserID] {
    if source == .channelDeleted { return Array(Set(try store.connectedMembers(of: url)).union(named)) }
    if source == .read {
      let readers = try named.filter { try store.isConnectedMember($0, of: url) }
      return readers.isEmpty ? try store.connectedMembers(of: url, atMost: 1) : readers
    }
    let some = try store.connectedMembers(of: url, atMost: named.count + 1)
    return named + some.filter { !named.contains($0) }.prefix(1)
  }

  /// Fetches the channel as the user. False: the user has left it.
  private func refresh(
    _ url: ChannelURL, as user: UserID, isNamed: Bool, _ source: ChangeSource, _ memberNews: Int64
  ) async throws -> Bool {
    let origin = ChannelOrigin.refresh(source)
    do {
      let asked = ChannelRecord.Asked(sequence: store.mark(), memberNews: memberNews)
      let record = try await upstream.channel(url, as: user, .open)
      if try await isLeft(record, by: user, isNamed: isNamed && source != .read) {
        try await endMembership(of: user, in: url, origin.sourceBesideReads)
        return false
      }
      _ = try await store.store(try await withStates([record], of: user, asked), of: user, origin)
      memberViews.note([record], isAlone: true)
      if isNamed, record.lacksMemberView, memberViews.areExpected {
        throw UpstreamError.unreadable(reason: "the channel lacks the fields that only the user sees")
      }
    } catch {
      guard error.isNotFoundUpstream else { throw error }
      try await endMembership(of: user, in: url, .channelDeleted)
    }
    return true
  }

  /// Whether the user left the channel, which was fetched alone as the user. A server may send the channel
  /// without the state to somebody who left. If a webhook named the user, the member is asked for then: the
  /// user must not read until the next poll what comes after the leaving (B1).
  private func isLeft(_ record: ChannelRecord, by user: UserID, isNamed: Bool) async throws -> Bool {
    if let state = record.membership?.state { return state == .outside }
    guard isNamed else { return false }
    return try await isGone(user, from: record.url, .open)
  }
}

extension UpstreamPage<ChannelRecord> {
  /// Whether the page, if it is the only one, tells as much as a poll: a server that fails may send an empty
  /// one, or leave out what the user is in a channel.
  fileprivate var tellsAll: Bool {
    !items.isEmpty && unreadable == 0 && items.allSatisfy { $0.membership?.state != nil }
  }
}
