import ChatCache
import ChatModel

// The upstream's first answer moves the window when a client is told of it (B16). A client that reads the
// view again gets a cursor after that answer, and is never told of it. An upstream that refuses for good
// never answers at all. Then the window takes its first page with a change of its own, which tells every
// other client of the view that its window moved (B49).

extension MessageCollection {
  /// Whether the window may be without the first page as the upstream answered it.
  package var mayLackFirstPage: Bool { state.withLock { $0.mayLackFirstPage } }

  /// The window with its first page, if no client was told of that page. Nil: the window has the page, or the
  /// upstream's answer is still to come and will move the window.
  func missedFirstPage(
    _ reader: CacheReader, _ view: ChannelView, _ viewContext: ViewContext
  ) throws -> LoadedRange? {
    let range = range
    guard mayLackFirstPage, try !reader.owesAnswer(id) else { return nil }
    // A window with two open ends has every message.
    guard range.hasPrevious || range.hasNext else {
      state.withLock { $0.mayLackFirstPage = false }
      return nil
    }
    // A window that does not include its starting point any more stays where its client paged to.
    let hasStart = request.positions.map { range.contains($0.lowerBound) } ?? !range.hasNext
    let grown = hasStart ? try withFirstPage(range, reader, view, viewContext) : range
    guard !grown.isStored(as: range) else {
      if grown.hasSeenAnything { state.withLock { $0.mayLackFirstPage = false } }
      return nil
    }
    return grown
  }

  /// Moves the window to its first page, unless it was moved meanwhile. The caller stores it afterwards.
  func takeUp(_ grown: LoadedRange, since before: LoadedRange) {
    var change = Change(.collectionAnswered, .apiResult, channel: channel, user: user)
    change.collection = id
    withHeld { _ = $0.move(from: before, to: grown, because: change) }
  }
}

extension Collections {
  /// Makes a view ready that is to be shown as a whole: with its first page, if no client was told of it.
  package func makeWhole(_ view: MessageCollection, then: @escaping Opened<MessageCollection>) throws {
    guard isOfThisLog(view) else { return try makeReady(view, then: then) }
    let (before, viewContext) = (view.range, viewContext(view.url))
    let grown = try cache.read { reader -> LoadedRange? in
      guard let channel = try reader.view(of: view.url, for: view.user), channel.isJoined else { return nil }
      return try view.missedFirstPage(reader, channel, viewContext)
    }
    guard let grown else { return try makeReady(view, then: then) }
    view.takeUp(grown, since: before)
    try makeReady(view) { result in
      // A move that could not be stored was taken back.
      if view.withHeld({ $0.isStored && $0.now != before }) {
        view.state.withLock { $0.mayLackFirstPage = false }
      }
      then(result)
    }
  }

  /// Whether the view may be shown as a whole.
  package func isWhole(_ view: MessageCollection) -> Bool { isReady(view) && !view.mayLackFirstPage }
}
