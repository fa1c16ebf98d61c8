import ChatCollections
import ChatModel
import MicroHTTP
import Platform

/// The operations that both kinds of views share: find the view by its id among the caller's own, make it
/// ready, follow it, dispose of it.
struct OpenViews<View: Sendable>: Sendable {
  let context: CollectionContext
  /// The path of these views. A request appends a view's id.
  let path: String
  let find: @Sendable (Collections, _ name: String, UserID) throws -> View
  /// Whether the view may be answered; `makeReady` stores what is missing for that.
  let isReady: @Sendable (Collections, View) -> Bool
  let makeReady: @Sendable (Collections, View, @escaping Collections.Opened<View>) throws -> Void
  let target: @Sendable (View) -> Follower.Target
  let forget: @Sendable (Collections, View, @escaping Collections.Stored) -> Void
  /// The channel that the view shows; nil: a list.
  var channel: @Sendable (View) -> ChannelURL? = { _ in nil }

  /// Finds the view that the request names, stores what must be stored before it is answered, runs `body`.
  func with(
    _ request: Request, _ body: @escaping (View, Caller) throws -> Outcome
  ) throws -> Outcome {
    try context.route.admitted(request) { caller in
      let view = try view(request.parameter(0), caller)
      guard let url = channel(view), !isReady(context.collections, view) else {
        return try ready(view, request) { try body($0, caller) }
      }
      // After the cache was cleared, the channel may be unknown: then the upstream is asked for it (B1).
      return try context.route.inChannel(request, caller, named: url, needsJoined: true) { _, caller in
        try ready(view, request) { try body($0, caller) }
      }
    }
  }

  /// Stores what has to be stored of the view, then runs `body` with it.
  func ready(
    _ view: View, _ request: Request, _ body: @escaping (View) throws -> Outcome
  ) throws -> Outcome {
    let collections = context.collections
    guard !isReady(collections, view) else { return try body(view) }
    return try DurableWrite<View>().answer(
      request, submit: { finish in try context.run { try makeReady(collections, view, finish) } }
    ) { [context] view in
      // The caller's right is checked again after the wait.
      _ = try context.route.gate.caller(of: request)
      return try body(view)
    }
  }

  /// Answers the view as it is now. A view that grew too large is made smaller first.
  func show(
    _ request: Request, isPerhapsTooLarge: @escaping (View) -> Bool,
    _ snapshot: @escaping (View) throws -> ByteBuffer
  ) throws -> Outcome {
    try Parameters(request).end()
    return try with(request) { view, _ in
      let body = try snapshot(view)
      guard isPerhapsTooLarge(view) else { return .respond(CollectionContext.answer(body)) }
      return try ready(view, request) { .respond(CollectionContext.answer(try snapshot($0))) }
    }
  }

  private func view(_ name: String, _ caller: Caller) throws -> View {
    try context.run { try find(context.collections, name, caller.user) }
  }

  /// Answers a poll of one view, or opens a stream (B51).
  func follow(_ request: Request) throws -> Outcome {
    var parameters = Parameters(request)
    let poll = PollParameters(request, &parameters)
    _ = parameters.text("ticket")
    try parameters.end()
    return try context.route.admitted(request) { caller in
      let name = request.parameter(0)
      if let ended = try context.ended(poll, [name], request, caller) { return ended }
      let find = { [target(try view(name, caller))] }
      return try Follower.ofThisLog(context, request, caller, find) { targets in
        try Poll.answer(
          Followed(context: context, caller: caller, targets: targets, hasUserFeed: false), request, poll)
      }
    }
  }

  /// Disposes of the view that the request names (B22).
  func dispose(_ request: Request) throws -> Outcome {
    try Parameters(request).end()
    return try context.route.admitted(request) { caller in
      let view = try view(request.parameter(0), caller)
      let write = DurableWrite<Void>(advice: "Send the request again: a 404 then says that the view is gone.")
      return try write.answer(request, submit: { forget(context.collections, view, $0) }) {
        .respond(.empty(204))
      }
    }
  }
}
