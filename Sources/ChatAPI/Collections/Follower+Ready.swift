import ChatCache
import ChatCollections
import MicroHTTP
import Platform

// Nothing is told of a view before its window is stored (B22): a poll parks until then, a stream waits.

extension Follower {
  /// Whether the views may be answered: their windows are stored, and no larger than they may be. Making a
  /// window smaller is tried once; if that cannot be stored, the view is answered as it is (B60).
  var isReady: Bool {
    let collections = context.collections
    for target in targets {
      switch target {
      case .messages(let view):
        guard hasMadeReady ? collections.isStored(view) : collections.isReady(view) else { return false }
      case .channels(let view):
        guard hasMadeReady ? collections.isStored(view) : collections.isReady(view) else { return false }
      }
    }
    return true
  }

  /// Stores the views' windows before anything is told of them. `then` is called once, when all are durable
  /// or could not be stored.
  func makeReady(then: @escaping Collections.Stored) throws {
    hasMadeReady = true
    Follower.makeReady(Array(targets), context.collections, isMany: targets.count > 1, then: then)
  }

  /// Runs `body` with the views that `find` finds. Views that were opened before the cache was cleared begin
  /// anew first (B58), and are found again. If their channels are unknown since, the upstream is asked for
  /// them (B1).
  static func ofThisLog(
    _ context: CollectionContext, _ request: Request, _ caller: Caller,
    _ find: @escaping () throws -> [Target], then body: @escaping ([Target]) throws -> Outcome
  ) throws -> Outcome {
    let (targets, collections) = (try context.run(find), context.collections)
    let old = targets.filter { target in
      switch target {
      case .messages(let view): !collections.isOfThisLog(view)
      case .channels(let view): !collections.isOfThisLog(view)
      }
    }
    guard !old.isEmpty else { return try body(targets) }
    let views = old.compactMap {
      if case .messages(let view) = $0 { view } else { nil as MessageCollection? }
    }
    return try inChannels(of: views[...], context.route, request, caller, isMany: targets.count > 1) {
      try DurableWrite<Void>().answer(
        request, submit: { Follower.makeReady(targets, collections, isMany: targets.count > 1, then: $0) }
      ) { try body(context.run(find)) }
    }
  }

  /// Runs `body` if the caller is in the channels of all these views; they are looked for one by one.
  /// `isMany`: a problem names the view whose channel is lost, so that the client goes on without it.
  private static func inChannels(
    of views: ArraySlice<MessageCollection>, _ route: RouteContext, _ request: Request, _ caller: Caller,
    isMany: Bool, _ body: @escaping () throws -> Outcome
  ) throws -> Outcome {
    guard let view = views.first else { return try body() }
    let change: (any Error) -> any Error = { error in
      guard isMany, let problem = error as? Problem, problem.code == Problem.channelNotFound.code else {
        return error
      }
      return Problem.collectionNotFound(view.id)
    }
    do {
      return try route.acrossClears {
        try route.inChannel(request, caller, named: view.url) { _, caller in
          try inChannels(of: views.dropFirst(), route, request, caller, isMany: isMany, body)
        }
      }.mapErrors(change)
    } catch { throw change(error) }
  }

  /// `isMany`: see `inChannels`.
  private static func makeReady(
    _ targets: [Target], _ collections: Collections, isMany: Bool, then: @escaping Collections.Stored
  ) {
    let left = Guarded((count: targets.count, failure: nil as (any Error)?))
    let one: @Sendable (String, (any Error)?) -> Void = { id, error in
      var error = error
      if isMany, case ViewError.channelNotFound? = error { error = Problem.collectionNotFound(id) }
      let (isLast, failure) = left.withLock { left in
        left.count -= 1
        left.failure = left.failure ?? error
        return (left.count == 0, left.failure)
      }
      if isLast { then(failure.map { .failure($0) } ?? .success(())) }
    }
    for target in targets {
      do {
        switch target {
        case .messages(let view): try collections.makeReady(view) { one(view.id, $0.failure) }
        case .channels(let view): try collections.makeReady(view) { one(view.id, $0.failure) }
        }
      } catch { one(target.id, error) }
    }
  }
}

extension Result {
  /// The error of a failure; nil for a success.
  fileprivate var failure: Failure? { if case .failure(let error) = self { error } else { nil } }
}
