import ChatCache
import ChatModel
import Platform

// Opens views, and begins views anew. No call waits for a commit: `then` is called once the view is durable
// and can be found, on the writer's thread.

extension Collections {
  /// Called with a view that is durable, or with the error.
  package typealias Opened<View> = @Sendable (Result<View, any Error>) -> Void

  // MARK: Opening

  /// Counts a view that is being opened. Throws if the user has too many views. The caller calls `endOpening`
  /// later.
  private func beginOpening(_ user: UserID, isReplacing: Bool = false) throws(ViewError) {
    let most = settings.perUser + (isReplacing ? 1 : 0)
    let isWithin = views.withLock { views in
      let mine = views.open.values.count { view in
        switch view {
        case .messages(let messages): messages.userID == user
        case .channels(let channels): channels.userID == user
        }
      }
      guard mine + views.opening[user, default: 0] < most else { return false }
      views.opening[user, default: 0] += 1
      return true
    }
    guard isWithin else { throw ViewError.tooMany(settings.perUser) }
  }

  /// The opening is over: `view` replaces `old` from now on.
  private func endOpening(_ user: UserID, _ view: View?, named name: String, replacing old: String? = nil) {
    views.withLock { views in
      let left = views.opening[user, default: 1] - 1
      views.opening[user] = left > 0 ? left : nil
      guard let view else { return }
      if let old { views.open[old] = nil }
      views.open[name] = view
    }
  }

  /// Opens a view of a channel's messages. `name`: from `name()`. `replacing`: a view that the same commit
  /// disposes of. The caller tells the sync worker of the view when it answers the client.
  package func openMessages(
    _ request: MessageViewRequest, of userID: UserID, named name: String,
    replacing old: MessageCollection? = nil, then: @escaping Opened<MessageCollection>
  ) throws {
    try beginOpening(userID, isReplacing: old != nil)
    let view: MessageCollection
    do { view = try make(request, of: userID, named: name) } catch {
      endOpening(userID, nil, named: name)
      throw error
    }
    let stored = stored(view)
    let range = view.range
    let (oldName, oldChannel) = (old?.id, old?.channel)
    cache.accept { writer in
      if let oldName {
        // If two requests replace the same view at once, the second one fails.
        guard try writer.dispose(collection: oldName, channel: oldChannel) else { throw ViewError.notFound }
      }
      try Collections.requireChannel(of: view, writer.reader)
      try Collections.store(stored, writer)
    } finish: { [self] result in
      guard case .success = result else {
        endOpening(userID, nil, named: name)
        return then(result.map { view })
      }
      view.withHeld { $0.begun(as: range) }
      endOpening(userID, .messages(view), named: view.id, replacing: oldName)
      if let old {
        noteRemoval()
        syncRequests.closed(view: old.id, in: old.url)
        subscriptions.end(old.id)
      }
      then(.success(view))
    }
  }

  /// A view with the first page that the cache has of the channel now.
  private func make(
    _ request: MessageViewRequest, of userID: UserID, named name: String
  ) throws -> MessageCollection {
    let now = cache.clock.wallMilliseconds()
    let url = ChannelURL(request.channelURL)
    let viewContext = viewContext(url)
    let epoch = cache.cursor.epoch
    return try cache.read { reader in
      guard try reader.isOf(epoch: epoch) else { throw ViewError.cleared }
      guard let user = try reader.userKey(of: userID), let channel = try reader.view(of: url, for: user)
      else {
        throw ViewError.channelNotFound
      }
      guard channel.isJoined else { throw ViewError.notJoined }
      let view = MessageCollection(
        id: name, user: user, userID: userID, channel: channel.channel, request: request,
        range: LoadedRange(), accessedAt: now, epoch: epoch, bound: settings.bound,
        isBounded: true)
      view.settle(from: view.range, to: try view.withFirstPage(view.range, reader, channel, viewContext))
      return view
    }
  }

  private func stored(_ view: MessageCollection) -> StoredCollection {
    StoredCollection(
      id: view.id, user: view.user, userID: view.userID, kind: .messages, channel: (view.channel, view.url),
      query: view.request.json, loaded: view.range.stored,
      accessedAt: view.state.withLock { $0.accessedAt })
  }

  /// Opens a view of the user's channels, with its first page.
  package func openChannels(
    _ query: ChannelQuery, of userID: UserID, then: @escaping Opened<ChannelCollection>
  ) throws {
    let name = Collections.name()
    try beginOpening(userID)
    let view: ChannelCollection
    do {
      guard let user = try cache.userKey(of: userID) else { throw ViewError.notFound }
      view = ChannelCollection(
        id: name, user: user, userID: userID, query: query, window: .closed,
        accessedAt: cache.clock.wallMilliseconds(), epoch: cache.cursor.epoch, bound: settings.bound,
        isBounded: true)
      try cache.read { try view.begin($0) }
    } catch {
      endOpening(userID, nil, named: name)
      throw error
    }
    let (stored, window) = (view.stored, view.window)
    cache.accept { writer in
      try Collections.requireUser(of: view, writer.reader)
      try Collections.store(stored, writer)
    } finish: { [self] result in
      guard case .success = result else {
        endOpening(userID, nil, named: name)
        return then(result.map { view })
      }
      view.withHeld { $0.begun(as: window) }
      endOpening(userID, .channels(view), named: name)
      then(.success(view))
    }
  }

  /// Throws if the user left the channel, or everything was cleared, since the view was made.
  private static func requireChannel(of view: MessageCollection, _ reader: CacheReader) throws {
    guard try reader.isOf(epoch: view.epoch) else { throw ViewError.cleared }
    guard try reader.view(of: view.url, for: view.user)?.channel == view.channel else {
      throw ViewError.channelNotFound
    }
  }

  /// Throws if the user was removed since the list was made.
  private static func requireUser(of view: ChannelCollection, _ reader: CacheReader) throws {
    guard try reader.userKey(of: view.userID) == view.user else { throw ViewError.notFound }
  }

  // MARK: Being ready

  /// Whether the view belongs to this log: everything was not cleared since it was opened (B58).
  package func isOfThisLog(_ view: MessageCollection) -> Bool { view.epoch == cache.cursor.epoch }

  /// Whether the view belongs to this log: everything was not cleared since it was opened (B58).
  package func isOfThisLog(_ view: ChannelCollection) -> Bool {
    view.state.withLock { $0.epoch } == cache.cursor.epoch
  }

  /// Whether the view may be answered: it belongs to this log, its window is stored and within its
  /// bound.
  package func isReady(_ view: MessageCollection) -> Bool {
    isOfThisLog(view) && view.withHeld { $0.isStored && $0.isBounded }
  }

  /// Whether the view may be answered: it belongs to this log, its window is stored and within its
  /// bound.
  package func isReady(_ view: ChannelCollection) -> Bool {
    let epoch = cache.cursor.epoch
    return view.state.withLock { $0.epoch == epoch && $0.held.isStored && $0.isBounded }
  }

  /// Makes a view ready. `then` gets the view, or another one if it began anew. The view exceeds its bound if
  /// a cut could not be stored.
  package func makeReady(_ view: MessageCollection, then: @escaping Opened<MessageCollection>) throws {
    guard isOfThisLog(view) else { return try beginAnew(view, then) }
    try bound(view) { result in then(result.map { view }) }
  }

  /// Makes a view ready.
  package func makeReady(_ view: ChannelCollection, then: @escaping Opened<ChannelCollection>) throws {
    let epoch = cache.cursor.epoch
    guard view.state.withLock({ $0.epoch }) != epoch else {
      return try bound(view) { result in then(result.map { view }) }
    }
    let (stored, window) = (view.stored, view.window)
    cache.accept { writer in
      try Collections.requireUser(of: view, writer.reader)
      try Collections.store(stored, writer)
    } finish: { [self] result in
      if case .success = result {
        view.state.withLock { state in
          state.epoch = epoch
          state.held.begun(as: window)
        }
        endIfDisposed(view.id, channel: nil)
      }
      then(result.map { view })
    }
  }

  /// Everything was cleared since the view was opened (B58): a new view with the same id replaces it, in the
  /// channel as it is cached now.
  private func beginAnew(_ view: MessageCollection, _ then: @escaping Opened<MessageCollection>) throws {
    let anew = try make(view.request, of: view.userID, named: view.id)
    let (stored, range) = (stored(anew), anew.range)
    cache.accept { writer in
      try Collections.requireChannel(of: anew, writer.reader)
      // If two requests begin the same view anew, the first one counts.
      guard try !writer.reader.hasBegunAnew(stored.id) else { return }
      try Collections.store(stored, writer)
    } finish: { [self] result in
      guard case .success = result else { return then(result.map { anew }) }
      anew.withHeld { $0.begun(as: range) }
      let present = views.withLock { views -> MessageCollection? in
        guard case .messages(let known)? = views.open[view.id] else { return nil }
        guard known === view else { return known }
        views.open[view.id] = .messages(anew)
        return anew
      }
      guard let present else {
        endIfDisposed(view.id, channel: anew.channel)
        return then(.failure(ViewError.notFound))
      }
      if present === anew {
        noteRemoval()
        syncRequests.opened(anew.openView, isOwedAnswer: true)
      }
      then(.success(present))
    }
  }

  /// Removes a row that was stored for a view that was disposed of meanwhile.
  private func endIfDisposed(_ id: String, channel: ChannelKey?) {
    if views.withLock({ $0.open[id] == nil }) { removeRow(id, channel: channel) }
  }
}

extension Collections {
  /// Stores a view. Throws if its user or channel is gone because everything was cleared meanwhile (B58).
  fileprivate static func store(_ view: StoredCollection, _ writer: CacheWriter) throws {
    guard try writer.reader.holdsGround(of: view) else {
      throw view.channel == nil ? ViewError.notFound : ViewError.channelNotFound
    }
    try writer.open(view)
  }
}
