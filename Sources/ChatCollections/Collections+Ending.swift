import ChatCache
import ChatModel
import Platform

// Ends views: at a client's request, or because they are idle. No call waits for a commit.

extension Collections {
  /// Forgets a view; `then` is called when that is durable, on the writer's thread. `isWanted` is called in
  /// the commit: if it returns false, the view stays and `then` gets `ViewError.notFound`.
  package func dispose(
    _ view: MessageCollection, if isWanted: @escaping @Sendable () -> Bool = { true }, then: @escaping Stored
  ) {
    let (id, channel) = (view.id, view.channel)
    cache.accept {
      guard isWanted() else { throw ViewError.notFound }
      try $0.dispose(collection: id, channel: channel)
    } finish: { [self] result in
      if case .success = result {
        forget(id)
        syncRequests.closed(view: id, in: view.url)
      }
      then(result)
    }
  }

  /// Forgets a view; `then` is called when that is durable, on the writer's thread. `isWanted`: as above.
  package func dispose(
    _ view: ChannelCollection, if isWanted: @escaping @Sendable () -> Bool = { true }, then: @escaping Stored
  ) {
    let id = view.id
    cache.accept {
      guard isWanted() else { throw ViewError.notFound }
      try $0.dispose(collection: id, channel: nil)
    } finish: { [self] result in
      if case .success = result { forget(id) }
      then(result)
    }
  }

  /// Forgets a view that its client does not know, because its opening failed or the client left. The view is
  /// gone at once. If its row cannot be removed, the next start opens the view, and it becomes idle.
  package func abandon(_ view: MessageCollection) {
    forget(view.id)
    syncRequests.closed(view: view.id, in: view.url)
    removeRow(view.id, channel: view.channel)
  }

  /// Forgets a view that its client does not know.
  package func abandon(_ view: ChannelCollection) {
    forget(view.id)
    removeRow(view.id, channel: nil)
  }

  private func forget(_ id: String) {
    remove(id)
    subscriptions.end(id)
  }

  /// Removes the row of a view that has ended. Does not wait for the commit.
  func removeRow(_ id: String, channel: ChannelKey?) {
    cache.accept {
      try $0.dispose(collection: id, channel: channel)
    } finish: {
      Collections.noteDisposal($0)
    }
  }

  /// Forgets the idle views (B22). Does not wait for the commits.
  package func disposeIdle() {
    let limit = cache.clock.wallMilliseconds() - settings.idleMilliseconds
    noteAccess()
    for view in views.withLock({ Array($0.open.values) }) {
      // Its client may ask for it again before the commit.
      switch view {
      case .messages(let messages):
        let isIdle = { @Sendable in messages.state.withLock { $0.accessedAt } < limit }
        if isIdle() { dispose(messages, if: isIdle, then: Collections.noteDisposal) }
      case .channels(let channels):
        let isIdle = { @Sendable in channels.state.withLock { $0.accessedAt } < limit }
        if isIdle() { dispose(channels, if: isIdle, then: Collections.noteDisposal) }
      }
    }
  }

  private static func noteDisposal<Made>(_ result: Result<Made, any Error>) {
    switch result {
    case .success, .failure(ViewError.notFound): return
    case .failure(let error):
      Log.line(.warning, "collection_not_disposed", ["reason": .text("\(error)")])
    }
  }

  /// Stores when views were last requested, for those requested since the last call.
  private func noteAccess() {
    var times = TextMap<Int64>()
    for (id, view) in views.withLock({ $0.open }) {
      switch view {
      case .messages(let messages): times[id] = messages.state.withLock { $0.accessedAt }
      case .channels(let channels): times[id] = channels.state.withLock { $0.accessedAt }
      }
    }
    let known = noted.withLock { noted in
      defer { noted = times }
      return noted
    }
    var changed = TextMap<Int64>()
    for (id, time) in times where known[id] != time { changed[id] = time }
    guard !changed.isEmpty else { return }
    let all = changed
    cache.write({ try $0.setAccessed(all) }) { result in
      if case .failure(let error) = result {
        Log.line(.warning, "collection_access_not_stored", ["reason": .text("\(error)")])
      }
    }
  }
}
