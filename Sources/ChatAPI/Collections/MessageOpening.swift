import ChatCache
import ChatCollections
import ChatModel
import JSON
import MicroHTTP
import Platform

/// Opens a chat view: answers at once from the cache, or holds the request until the upstream has answered
/// (B16).
///
/// A view that its client never hears of, since the opening failed or the client left, is disposed of.
final class MessageOpening {
  private let context: CollectionContext
  private let request: Request
  private let caller: Caller
  private let asked: MessageViewRequest
  /// The view that the client opens anew; opening disposes of it in the same commit.
  private let replaced: MessageCollection?
  private let preferences: Preferences
  private var ticket: ChangeSubscriptions.Ticket?
  /// Whether a wait for the caller's changes has begun.
  private var isAwaitingChanges = false

  init(
    _ context: CollectionContext, _ request: Request, _ caller: Caller, _ asked: MessageViewRequest,
    replacing replaced: MessageCollection? = nil
  ) {
    self.context = context
    self.request = request
    self.caller = caller
    self.asked = asked
    self.replaced = replaced
    preferences = Preferences(request)
  }

  func answer() throws -> Outcome {
    let name = Collections.name()
    guard let wait = preferences.wait, wait > 0 else {
      return try open(name) { [self] view in
        let opened = context.route.cache.cursor
        // The cursor is taken before the worker is asked: its changes then are events after the cursor.
        let body = try MessageCollectionRoutes.snapshot(context, view, at: opened)
        context.route.syncRequests.opened(view.openView, isOwedAnswer: true)
        return respond(view, body)
      }
    }
    // The request subscribes first: if too many requests are parked, no view is opened (B54).
    try subscribe(name)
    do {
      return try open(name) { [self] view in
        let opened = context.route.cache.cursor
        context.route.syncRequests.opened(view.openView, isOwedAnswer: true)
        let end = Clock.system.monotonicNanoseconds() + UInt64(wait) * 1_000_000_000
        return try held(view, since: opened, until: end)
      }
    } catch {
      unsubscribe()
      throw error
    }
  }

  /// Opens the view, and goes on when it is durable.
  private func open(
    _ name: String, _ then: @escaping (MessageCollection) throws -> Outcome
  ) throws -> Outcome {
    let collections = context.collections
    let write = DurableWrite<MessageCollection>(
      advice: "Open another view: one that nobody asks for is disposed of.",
      unheard: { collections.abandon($0) })
    return try write.answer(
      request,
      submit: { [self] finish in
        try context.run {
          try collections.openMessages(
            asked, of: caller.user, named: name, replacing: replaced, then: finish)
        }
      }, failed: { [self] in unsubscribe() }
    ) { [self] view in
      try ending(view) {
        // The caller's right is checked again after the wait.
        _ = try context.route.gate.caller(of: request)
        return try then(view)
      }
    }
  }

  private func subscribe(_ name: String) throws {
    let url = ChannelURL(asked.channelURL)
    let keys = try context.route.read { reader -> (UserKey, ChannelKey)? in
      guard let user = try reader.userKey(of: caller.user) else { return nil }
      return try reader.view(of: url, for: user).map { (user, $0.channel) }
    }
    guard let (user, channel) = keys else { throw Problem.channelNotFound }
    // The channel too: a membership that is lost ends the wait.
    let topics = ChangeSubscriptions.Topics(of: user, channels: [channel], collections: [name])
    let waiter = request.makeWaiter()
    ticket = context.collections.subscriptions.subscribe(waiter, to: topics)
    guard ticket != nil else { throw Problem.tooManyParked }
  }

  private func unsubscribe() {
    if let ticket { context.collections.subscriptions.unsubscribe(ticket) }
    ticket = nil
  }

  /// Runs `body`. If it throws, ends the subscription and disposes of the view.
  private func ending(_ view: MessageCollection, _ body: () throws -> Outcome) throws -> Outcome {
    do { return try body() } catch {
      giveUp(view)
      throw error
    }
  }

  private func giveUp(_ view: MessageCollection) {
    unsubscribe()
    context.collections.abandon(view)
  }

  private func held(_ view: MessageCollection, since: EventCursor, until end: UInt64) throws -> Outcome {
    do { return try heldNow(view, since: since, until: end) } catch let problem as Problem
      where problem.isOfUnknownRights
    {
      // The upstream's answer is there, and whether the caller is still in the channel is not known (B1).
      let now = Clock.system.monotonicNanoseconds()
      guard now < end, !request.isServerStopping else {
        unsubscribe()
        return respond(view, try MessageCollectionRoutes.snapshot(context, view, at: since))
      }
      if !isAwaitingChanges {
        isAwaitingChanges = true
        let waiter = request.makeWaiter()
        let left = Int((end - now) / 1_000_000) + 1
        context.route.syncRequests.awaitChanges(of: caller.user, within: left) { waiter.wake() }
      }
      return hold(view, since: since, until: end)
    }
  }

  private func heldNow(_ view: MessageCollection, since: EventCursor, until end: UInt64) throws -> Outcome {
    let cursor = context.route.cache.cursor
    var viewContext = context.collections.viewContext(view.url)
    viewContext.head = cursor.sequence
    let result = try context.run {
      try context.route.cache.read { try view.firstAnswer($0, since: since.sequence, viewContext) }
    }
    let now = Clock.system.monotonicNanoseconds()
    if result != nil || now >= end || request.isServerStopping {
      unsubscribe()
      guard result == nil || context.collections.isStored(view) else {
        return try store(view) { [self] in try held(view, since: since, until: end) }
      }
      return respond(
        view,
        try MessageCollectionRoutes.snapshot(
          context, view, apiResult: result, at: result == nil ? since : cursor))
    }
    return hold(view, since: since, until: end)
  }

  /// Holds the request until it is woken, or until `end`.
  private func hold(_ view: MessageCollection, since: EventCursor, until end: UInt64) -> Outcome {
    let now = Clock.system.monotonicNanoseconds()
    let left = now < end ? Int((end - now) / 1_000_000) + 1 : 1
    return context.route.hold(
      request, of: caller, milliseconds: left, refused: { [self] in giveUp(view) }
    ) { [self] wake in
      if case .hungUp = wake {
        giveUp(view)
        return .respond(.empty(204))
      }
      return try ending(view) { try held(view, since: since, until: wake == .woken ? end : 0) }
    }
  }

  /// Stores the window that the upstream's answer moved, before the client is told.
  private func store(_ view: MessageCollection, _ then: @escaping () throws -> Outcome) throws -> Outcome {
    let collections = context.collections
    let write = DurableWrite<Void>(advice: "Open another view: one that nobody asks for is disposed of.")
    return try write.answer(
      request, submit: { collections.moved(view, then: $0) }, failed: { [self] in giveUp(view) }
    ) { [self] in
      try ending(view) {
        _ = try context.route.gate.caller(of: request)
        return try then()
      }
    }
  }

  private func respond(_ view: MessageCollection, _ body: consuming ByteBuffer) -> Outcome {
    var response = CollectionContext.answer(body, status: 201)
    response.add("Location", "\(MessageCollectionRoutes.path)/\(view.id)")
    preferences.apply(to: &response)
    return .respond(response)
  }
}
