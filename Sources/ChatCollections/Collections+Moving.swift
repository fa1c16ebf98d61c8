import ChatCache
import ChatModel
import Platform

// Windows move by load calls and by what comes, and are kept within their bound (B22). The client is told of
// a bound with its next answer.

extension Collections {
  /// Remembers what a view has loaded, and tells the sync worker.
  package func moved(_ view: MessageCollection) throws {
    let (id, loaded) = (view.id, view.range.stored)
    try cache.accept { try $0.setLoaded(loaded, of: id) }
    interest.moved(view.openView)
  }

  /// Remembers what a view has loaded.
  package func moved(_ view: ChannelCollection) throws {
    let (id, loaded) = (view.id, view.window.stored)
    try cache.accept { try $0.setLoaded(loaded, of: id) }
  }

  /// Lets go of a window's far side where it grew too large.
  package func bound(_ view: MessageCollection, growsNewer: Bool) throws {
    guard view.isPerhapsTooLarge else { return }
    let before = view.range
    guard let cut = try cache.read({ try view.cut(before, $0, growsNewer: growsNewer) }),
      view.move(from: before, to: cut.range, isCut: true)
    else { return }
    var change = Change(.windowTrimmed, .localWindowTrimmed, channel: view.channel, user: view.user)
    change.collection = view.id
    change.stretch = cut.gone
    guard keep(cut.range.stored, of: view.id, because: change) else {
      _ = view.move(from: cut.range, to: before, isCut: false)
      return
    }
    interest.moved(view.openView)
  }

  /// Lets go of a list's end where it grew too large.
  package func bound(_ view: ChannelCollection) throws {
    guard view.isPerhapsTooLarge else { return }
    let before = view.window
    guard let cut = try cache.read({ try view.cut($0, before) }),
      view.move(from: before, to: cut.window, isCut: true)
    else { return }
    if !keep(cut.window.stored, of: view.id, because: view.trimmed(cut.gone)) {
      _ = view.move(from: cut.window, to: before, isCut: false)
    }
  }

  /// Stores a window that was cut, with the event that says so. False where it could not be: reading goes on
  /// without (B60), and the window stays as it was until the next time.
  private func keep(_ loaded: [UInt8], of id: String, because change: Change) -> Bool {
    do {
      try cache.accept {
        _ = try $0.append(change)
        try $0.setLoaded(loaded, of: id)
      }
      return true
    } catch {
      Log.line(.warning, "collection_not_bounded", ["id": .text(id), "reason": .text("\(error)")])
      return false
    }
  }

  /// Removes the view's failed and canceled messages, or the one of that name; answers their names (B44).
  package func removeFailed(of view: MessageCollection, named name: String?) throws -> [String] {
    let place = OutboxPlace(user: view.user, channel: view.url)
    return try cache.accept { writer in
      var removed: [String] = []
      try writer.changeLane(place) { lane in
        var notices: [OutboxLane.Notice] = []
        for row in lane.rows where row.kind.isMessage && (name.map { $0 == row.requestID.text } ?? true) {
          let outcome = lane.remove(row.id, now: writer.now)
          notices += outcome.notices
          if outcome.isRemoved { removed.append(row.requestID.text) }
        }
        return notices
      }
      return removed
    }
  }
}
