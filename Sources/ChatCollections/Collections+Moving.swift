import ChatCache
import ChatModel
import Platform

// Load calls and new rows move windows, which are kept within their bound (B22). A window is stored before an
// answer shows it. The client learns of a cut from its next answer.
//
// No call waits for a commit: `then` is called when the window is stored or could not be, on the writer's
// thread, or at once if there is nothing to store.

/// A view whose window is stored.
protocol WindowedView: AnyObject, Sendable {
  associatedtype Window: StorableWindow
  var id: String { get }
  /// Passes the window to `body` under the view's lock.
  func withHeld<Result>(_ body: (inout HeldWindow<Window>) -> Result) -> Result
}

extension MessageCollection: WindowedView {
  func withHeld<Result>(_ body: (inout HeldWindow<LoadedRange>) -> Result) -> Result {
    state.withLock { body(&$0.held) }
  }
}

extension ChannelCollection: WindowedView {
  func withHeld<Result>(_ body: (inout HeldWindow<ChannelWindow>) -> Result) -> Result {
    state.withLock { body(&$0.held) }
  }
}

extension Collections {
  /// Called when a window is stored, or could not be.
  package typealias Stored = @Sendable (Result<Void, any Error>) -> Void

  /// Whether the view's window is stored as it is now: only then may an answer show it.
  package func isStored(_ view: MessageCollection) -> Bool { view.withHeld { $0.isStored } }

  /// Whether the view's window is stored as it is now: only then may an answer show it.
  package func isStored(_ view: ChannelCollection) -> Bool { view.withHeld { $0.isStored } }

  /// Stores how far a view has loaded, and tells the sync worker.
  package func moved(_ view: MessageCollection, then: @escaping Stored) {
    store(view) { [syncRequests] result in
      if case .success = result { syncRequests.moved(view.openView) }
      then(result)
    }
  }

  /// Stores how far a view has loaded.
  package func moved(_ view: ChannelCollection, then: @escaping Stored) { store(view, then) }

  /// Stores a view's window, after cutting its far side if it grew too large. If the cut cannot be stored,
  /// the window stays as it was until the next call, so that reading goes on (B60). Returns whether it was
  /// cut.
  @discardableResult
  package func bound(_ view: MessageCollection, then: @escaping Stored) throws -> Bool {
    var isTrimmed = false
    if view.isPerhapsTooLarge {
      let before = view.range
      if let cut = try cache.read({ try view.cut(before, $0) }) {
        var change = Change(.windowTrimmed, .localWindowTrimmed, channel: view.channel, user: view.user)
        change.collection = view.id
        change.stretch = cut.gone
        view.withHeld { $0.cut(from: before, to: cut.range, because: change) }
        isTrimmed = true
      }
    }
    moved(view, then: then)
    return isTrimmed
  }

  /// Stores a list's window, after cutting its end if it grew too large.
  package func bound(_ view: ChannelCollection, then: @escaping Stored) throws {
    if view.isPerhapsTooLarge {
      let before = view.window
      if let cut = try cache.read({ try view.cut($0, before) }) {
        let change = view.trimmed(cut.gone)
        view.withHeld { $0.cut(from: before, to: cut.window, because: change) }
      }
    }
    store(view, then)
  }

  private func store(_ view: some WindowedView, _ then: @escaping Stored) {
    let (isStored, write) = view.withHeld { held in held.isStored ? (true, nil) : (false, held.ask(then)) }
    if isStored { return then(.success(())) }
    if let write { commit(write, of: view) }
  }

  private func commit<View: WindowedView>(_ write: HeldWindow<View.Window>.Write, of view: View) {
    let id = view.id
    cache.accept { writer in
      for change in write.changes { try writer.append(change) }
      try writer.setLoaded(write.window.stored, of: id)
    } finish: { [self] result in
      var failure: (any Error)?
      if case .failure(let error) = result {
        failure = error
        Log.line(.warning, "collection_not_stored", ["id": .text(id), "reason": .text("\(error)")])
      }
      let ended = view.withHeld { $0.ended(failure) }
      for then in ended.served { then(ended.outcome) }
      if let next = ended.next { commit(next, of: view) }
    }
  }

  /// Removes the failed and canceled messages of the view's user and channel, or only the one with that
  /// request id. `then` gets the request ids of the removed ones (B44).
  package func removeFailed(
    of view: MessageCollection, named name: String?,
    then: @escaping @Sendable (Result<[RequestID], any Error>) -> Void
  ) {
    let laneKey = OutboxLaneKey(user: view.user, channel: view.url)
    cache.accept({ try $0.removeFailed(in: laneKey, named: name) }, finish: then)
  }
}
