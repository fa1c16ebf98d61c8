import ChatCollections
import ChatModel
import MicroHTTP

/// One kind of view, as its operations meet it: found by its name among the caller's own, followed, disposed
/// of.
struct OpenViews<View: Sendable>: Sendable {
  let viewing: Viewing
  /// The path below which they are.
  let path: String
  let find: @Sendable (Collections, _ name: String, UserID) throws -> View
  let target: @Sendable (View) -> Follower.Target
  let forget: @Sendable (Collections, View) throws -> Void

  /// Runs `body` with the view that the request names.
  func with(
    _ request: Request, _ body: @escaping (View, Caller) throws -> Outcome
  ) throws -> Outcome {
    try viewing.reading.admitted(request) { caller in
      try body(try view(request.parameter(0), caller), caller)
    }
  }

  private func view(_ name: String, _ caller: Caller) throws -> View {
    try viewing.run { try find(viewing.collections, name, caller.user) }
  }

  /// Answers a poll of one view, or opens a stream (B51).
  func follow(_ request: Request) throws -> Outcome {
    var parameters = Parameters(request)
    let poll = PollParameters(request, &parameters)
    _ = parameters.text("ticket")
    try parameters.end()
    return try viewing.reading.admitted(request) { caller in
      let name = request.parameter(0)
      if let ended = try viewing.ended(poll, [name], request, caller, again: "\(path)/\(name)") {
        return ended
      }
      let target = target(try view(name, caller))
      return try Poll.answer(
        Followed(viewing: viewing, caller: caller, targets: [target], hasUserFeed: false), request, poll)
    }
  }

  /// Forgets a view (B22).
  func dispose(_ request: Request) throws -> Outcome {
    try Parameters(request).end()
    return try with(request) { view, _ in
      try viewing.run { try forget(viewing.collections, view) }
      return .respond(.empty(204))
    }
  }
}
