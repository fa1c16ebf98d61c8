import ChatCache
import ChatModel
import Platform

/// A stretch of a channel that a client's request found missing (B15).
package struct Wish: Hashable, Sendable {
  /// Where.
  package let channel: ChannelURL
  /// What is missing.
  package let window: MessageWindow

  /// A wish for the messages of `window`.
  package init(channel: ChannelURL, window: MessageWindow) {
    self.channel = channel
    self.window = window
  }
}

// What clients are interested in: pages to read through, views that are open, gaps to fill, doorbells that
// rang.
extension SyncWorker {
  /// Reads under way at once; more are answered from the cache alone.
  static let readsAtOnce = 256

  /// Fetches and stores what a request misses, before background work; identical wishes are one fetch. Nil:
  /// it is in the cache.
  package func read(_ wish: Wish) async -> UpstreamError? {
    if let running = reads[wish] { return await running.value }
    guard plan.link.isOnline || plan.link.state == .unknown else {
      return .unreachable(reason: "the link is offline", mayHaveArrived: false)
    }
    guard reads.count < SyncWorker.readsAtOnce else { return .rateLimited(milliseconds: 1_000) }
    let task = Task { await self.fetch(wish) }
    reads[wish] = task
    plan.isForegroundWaiting = true
    let failure = await task.value
    reads[wish] = nil
    plan.isForegroundWaiting = !reads.isEmpty
    plan.met(failure, now: now)
    turn()
    return failure
  }

  private func fetch(_ wish: Wish) async -> UpstreamError? {
    do {
      let listing = try await listed(wish)
      let context = ListingContext(source: .apiResult, generation: plan.link.generation)
      try await store.store([listing], in: wish.channel, context)
      return nil
    } catch {
      return error as? UpstreamError ?? .unusable(reason: "\(error)")
    }
  }

  /// The wish's listing; where the anchor is gone upstream, its time is as good a place.
  private func listed(_ wish: Wish) async throws -> MessageListing {
    do {
      return try await list(wish.channel, wish.window, .foreground)
    } catch {
      guard case .message(let position) = wish.window.anchor, error.isNotFoundUpstream else { throw error }
      var window = wish.window
      window.anchor = .time(position.createdAt)
      window.includesAnchor = true
      return try await list(wish.channel, window, .foreground)
    }
  }

  /// Asks for a channel the cache does not know, as that user (B1). True if the user is a member.
  package func find(_ url: ChannelURL, as user: UserID) async throws -> Bool {
    let answer = await asked(url, as: user)
    switch answer {
    case .failure(let error):
      plan.met(error, now: now)
      if case .rejection = error { return false }
      throw error
    case .success(let record):
      plan.met(nil, now: now)
      guard let membership = record.membership, membership.state != .none else { return false }
      _ = try await store.store([record], of: user, .refresh(.channelRefresh))
      try know(url)
      turn()
      return true
    }
  }

  private func asked(_ url: ChannelURL, as user: UserID) async -> Result<ChannelRecord, UpstreamError> {
    do {
      return .success(try await upstream.channel(url, as: user, .foreground))
    } catch {
      return .failure(error as? UpstreamError ?? .unusable(reason: "\(error)"))
    }
  }

  /// A view was opened, or moved to or from the newest end. A view that is new is owed one answer (B16).
  package func open(_ view: OpenView, isNew: Bool) {
    let url = view.channel
    if isNew { unanswered[url, default: [:]][view.id] = false }
    plan.open(view, now: now)
    tellOffline(url)
    turn()
  }

  /// While the link is offline nobody waits in vain: the views are told at once, and answered after the
  /// comeback.
  func tellOffline(_ url: ChannelURL) {
    guard case .offline(let reason) = plan.link.state else { return }
    let views = (unanswered[url] ?? [:]).filter { !$0.value }.map(\.key)
    guard !views.isEmpty else { return }
    let failure = UpstreamError.unreachable(reason: reason.rawValue, mayHaveArrived: false)
    Task {
      do { try await self.answer(views, in: url, failure) } catch {
        Log.line(.error, "sync_store_failed", ["errand": "answer", "reason": .text("\(error)")])
      }
    }
  }

  /// A view was disposed of.
  package func close(view id: String, in url: ChannelURL) {
    unanswered[url]?[id] = nil
    if unanswered[url]?.isEmpty ?? false { unanswered[url] = nil }
    plan.close(view: id, in: url)
    turn()
  }

  /// Somebody asks for a gap, or does not any more (B28).
  package func fill(gap: Int64, in url: ChannelURL, isWanted: Bool) {
    if isWanted { plan.fill(gap: gap, in: url) } else { plan.stopFilling(gap: gap, in: url) }
    turn()
  }

  /// Doorbells were noted durably: look at what is due (B34).
  package func rang() throws {
    try takeDoorbells()
    turn()
  }

  func takeDoorbells() throws {
    for bell in try store.dueDoorbells() {
      switch bell.kind {
      case .newest: rung[bell.channel, default: Rung()].isRealtime = true
      case .message: rung[bell.channel, default: Rung()].sources[bell.messageID] = bell.source
      case .channel:
        rung[bell.channel, default: Rung()].refresh = bell.source
        rung[bell.channel]?.users.formUnion(bell.users)
      }
      plan.ring(bell.kind, in: bell.channel, message: bell.messageID, now: now)
    }
  }
}
