import ChatCache
import ChatCollections
import ChatModel
import JSON
import MicroHTTP
import Platform

/// One load call: the page at an edge, fetched where it is missing (B17).
///
/// A page that moves the view's window is answered after the new window is stored, and is read again then. So
/// a client never gets a page that a crash could undo.
final class EdgeLoad {
  private let context: CollectionContext
  private let request: Request
  private let caller: Caller
  private let view: MessageCollection
  private let query: MessagePageQuery
  private let isOlder: Bool
  private let preferences: Preferences
  private let endsAt: UInt64
  private var through: ReadThrough
  private var hasStored = false
  /// Whether the view dropped rows at its other end to make room for this page (B22).
  private var isTrimmed = false
  /// Whether a fetch of missing messages failed.
  private var hasFailed = false

  init(
    _ context: CollectionContext, _ request: Request, _ caller: Caller, _ view: MessageCollection,
    _ query: MessagePageQuery
  ) {
    self.context = context
    self.request = request
    self.caller = caller
    self.view = view
    self.query = query
    if case .before = query.anchor { isOlder = true } else { isOlder = false }
    preferences = Preferences(request)
    through = ReadThrough(preferences.mode, rows: query.limit)
    endsAt = Clock.system.monotonicNanoseconds() + UInt64(preferences.milliseconds) * 1_000_000
  }

  func answer(mayFetch: Bool = true) throws -> Outcome {
    let viewContext = context.collections.viewContext(view.url)
    var wanted: MessageSyncRequest.Stretch?
    var isCutOff = false
    let body = try context.run {
      try context.route.cache.read { reader -> ByteBuffer in
        let page = try view.page(query, reader, viewContext)
        if mayFetch, let stretch = through.next(page.found(query.anchor)) {
          wanted = stretch
          return ByteBuffer()
        }
        let isAway = viewContext.link.isOffline || hasFailed
        isCutOff = isAway && (isOlder ? page.olderGap : page.newerGap) != nil
        return try view.more(
          page, isOlder: isOlder, isCutOff: isCutOff, isTrimmed: isTrimmed, reader, viewContext)
      }
    }
    guard let wanted else {
      // If a smaller window could not be stored, the next request tries again.
      guard context.collections.isStored(view), hasStored || !view.isPerhapsTooLarge else {
        return try store()
      }
      var response = CollectionContext.answer(body)
      preferences.apply(to: &response)
      if isCutOff { response.add("Retry-After", Problem.seconds(viewContext.link.retryAfter ?? 1000)) }
      return .respond(response)
    }
    return park(wanted)
  }

  private func store() throws -> Outcome {
    try DurableWrite<Void>(advice: "Send the request again: the same edge gives the same page.").answer(
      request,
      submit: { [self] finish in
        try context.run {
          isTrimmed = try context.collections.bound(view, then: finish)
        }
      }
    ) { [self] in
      // The caller's right is checked again after the wait.
      _ = try context.route.gate.caller(of: request)
      hasStored = true
      return try answer(mayFetch: false)
    }
  }

  private func park(_ stretch: MessageSyncRequest.Stretch) -> Outcome {
    let now = Clock.system.monotonicNanoseconds()
    let left = endsAt > now ? Int((endsAt - now) / 1_000_000) : 0
    let wanted = MessageSyncRequest(view.url, stretch, thread: view.request.filter.parent)
    return context.route.wait(request, of: caller, within: left) { [self] in
      context.route.syncRequests.fetch(wanted, for: caller.user, within: left, then: $0)
    } then: { [self] outcome in
      // The view may have been disposed of meanwhile, or have begun anew under its name.
      guard try context.run({ try context.collections.messages(view.id, of: caller.user) }) === view else {
        throw Problem(ViewError.foreignEdge(isOlder ? "before" : "after"))
      }
      if case .failed = outcome { hasFailed = true }
      return try answer(mayFetch: outcome == .stored)
    }
  }
}
