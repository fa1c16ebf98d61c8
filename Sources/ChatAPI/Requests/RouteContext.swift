import ChatCache
import ChatModel
import MicroHTTP
import Platform

/// The services that every operation for users needs.
package final class RouteContext: Sendable {
  /// The cache that answers are read from.
  let cache: Cache
  /// The port to the sync worker.
  let syncRequests: any SyncRequests
  /// Checks tokens and names callers.
  let gate: Gate
  /// The 304 answers.
  let notModified: NotModified

  /// Collects the services, and stores used tickets in `cache`.
  package init(cache: Cache, syncRequests: any SyncRequests, gate: Gate) {
    self.cache = cache
    self.syncRequests = syncRequests
    self.gate = gate
    notModified = NotModified(vary: gate.vary)
    gate.tickets.keep(in: cache)
  }

  /// How long a request waits for the upstream's answer about an unknown user or channel (ms).
  static let firstWordMilliseconds = 5_000

  /// Checks the caller and runs `body`. Parks first while the upstream is asked about an unknown user (B2),
  /// and at a ticket's first use until that use is stored (B51).
  func admitted(
    _ request: Request, scope: Scopes = .chat, _ body: @escaping (Caller) throws -> Outcome
  ) throws -> Outcome {
    let caller = try gate.caller(of: request, scope: scope)
    cache.noteConnection()
    let body = { [self] caller in
      try acrossClears { try withRights(request, caller, scope, body) }
    }
    switch syncRequests.seen(caller.user) {
    case .admitted: return try remembered(request, caller, body)
    case .refused(let error): throw Problem(error)
    case .undecided:
      let within = RouteContext.firstWordMilliseconds
      return wait(request, of: caller, scope: scope, within: within) {
        syncRequests.admit(caller.user, within: within, then: $0)
      } then: { [self] outcome in
        switch outcome {
        case .success: return try remembered(request, caller, body)
        case .failure(let error): throw Problem(error)
        case nil: throw Problem(.unreachable(.unreachable, retryAfter: 1000))
        }
      }
    }
  }

  /// Runs `body`. If everything was cleared meanwhile, a channel that is not found may just not be listed
  /// again yet: the client is told to ask again (B58).
  func acrossClears(_ body: () throws -> Outcome) throws -> Outcome {
    let epoch = cache.cursor.epoch
    return try RouteContext.run(body) { [cache] error in
      RouteContext.changed(error) { problem in
        guard problem.code == Problem.channelNotFound.code,
          try cache.read({ try !$0.isOf(epoch: epoch) })
        else { return problem }
        return Problem(.notSynced(retryAfter: 1000))
      }
    }
  }

  /// Runs `body`, and changes the error that it throws now or when the request goes on.
  private static func run(
    _ body: () throws -> Outcome, changing change: @escaping (any Error) -> any Error
  ) throws -> Outcome {
    do { return try body().mapErrors(change) } catch { throw change(error) }
  }

  /// The error with its problem changed. It stays as it is if it is no problem, or if `change` throws.
  private static func changed(_ error: any Error, _ change: (Problem) throws -> Problem) -> any Error {
    guard let problem = error as? Problem else { return error }
    do { return try change(problem) } catch { return error }
  }

  /// Runs `body`. If it meets news while the caller's changes are not known, waits for them and runs it again
  /// (B1). `end`: when that is over (monotonic ns); nil: this is the first run.
  private func withRights(
    _ request: Request, _ caller: Caller, _ scope: Scopes, until end: UInt64? = nil,
    _ body: @escaping (Caller) throws -> Outcome
  ) throws -> Outcome {
    do { return try body(caller) } catch let problem as Problem where problem.isOfUnknownRights {
      let preferences = Preferences(request)
      let wait = preferences.mode == .never ? 0 : preferences.milliseconds
      let now = Clock.system.monotonicNanoseconds()
      let end = end ?? now + UInt64(wait) * 1_000_000
      guard now < end, !request.isServerStopping,
        syncRequests.connection(of: caller.user).isBeingUpdated
      else { throw problem }
      let left = Int((end - now) / 1_000_000) + 1
      return self.wait(request, of: caller, scope: scope, within: left) { then in
        syncRequests.awaitChanges(of: caller.user, within: left) { then(()) }
      } then: { [self] (_: Void?) in
        try withRights(request, caller, scope, until: end, body)
      }
    }
  }

  /// Like `admitted`, and for operators too. An operator's token without the scope `chat` names no chat user,
  /// so the upstream is not asked about its user. `scope`: what any other token needs.
  func operated(
    _ request: Request, scope: Scopes, _ body: @escaping (Caller) throws -> Outcome
  ) throws -> Outcome {
    let caller = try gate.caller(of: request, scope: [])
    guard caller.isOperatorAlone else { return try admitted(request, scope: scope, body) }
    cache.noteConnection()
    return try body(caller)
  }

  /// Stores the first use of the request's ticket, if that is not stored yet, then runs `body`.
  private func remembered(
    _ request: Request, _ caller: Caller, _ body: @escaping (Caller) throws -> Outcome
  ) throws -> Outcome {
    guard gate.tickets.hasUnstored else { return try body(caller) }
    let waiter = request.makeWaiter()
    guard gate.storeTicket(of: request, then: { waiter.wake() }) else { return try body(caller) }
    return hold(request, of: caller, milliseconds: RouteContext.firstWordMilliseconds) { _ in try body(caller)
    }
  }

  /// Runs `body` with the url of a channel that the caller may see: `named`, or the path's. An unknown
  /// channel is looked for upstream while the user's channels are not all listed (B1).
  func inChannel(
    _ request: Request, _ caller: Caller, named: ChannelURL? = nil, needsJoined: Bool = false,
    _ body: @escaping (ChannelURL, Caller) throws -> Outcome
  ) throws -> Outcome {
    let url = try named ?? RouteContext.channelURL(request)
    let body = { [self] url, caller in try acrossRemovals(in: url) { try body(url, caller) } }
    if let isJoined = try isJoined(caller.user, in: url) {
      guard isJoined || !needsJoined else { throw Problem.notJoined }
      return try body(url, caller)
    }
    let within = RouteContext.firstWordMilliseconds
    return wait(request, of: caller, within: within) {
      syncRequests.find(url, as: caller.user, within: within, then: $0)
    } then: { [self] outcome in
      switch outcome {
      case .success:
        // Checked even if it was not found: by now it may have been listed.
        guard let isJoined = try isJoined(caller.user, in: url) else { throw Problem.channelNotFound }
        guard isJoined || !needsJoined else { throw Problem.notJoined }
        return try body(url, caller)
      case .failure(let error): throw Problem(error)
      case nil: throw Problem(.notSynced(retryAfter: 1000))
      }
    }
  }

  /// Runs `body`. If messages of the channel were cleared or evicted meanwhile, one that is not found may
  /// just not be cached any more: the client is told to ask again (B58).
  private func acrossRemovals(in url: ChannelURL, _ body: () throws -> Outcome) throws -> Outcome {
    let mark = cache.cursor.sequence
    return try RouteContext.run(body) { [cache] error in
      RouteContext.changed(error) { problem in
        guard problem.detail == Problem.messageNotFound.detail,
          try cache.read({ try $0.hasRemovedMessages(of: url, since: mark) })
        else { return problem }
        var later = Problem.removedMeanwhile
        later.members = problem.members
        return later
      }
    }
  }

  private func isJoined(_ user: UserID, in url: ChannelURL) throws -> Bool? {
    try read { reader -> Bool? in
      guard let key = try reader.userKey(of: user) else { return nil }
      return try reader.isJoined(key, in: url)
    }
  }

  private static func channelURL(_ request: Request) throws -> ChannelURL {
    let text = request.parameter(0)
    guard !text.isEmpty, text.unicodeScalars.count <= ChatModel.Limits.channelURLCharacters else {
      throw Problem.channelNotFound
    }
    return ChannelURL(text)
  }

  /// Reads the cache; its failures become problems.
  func read<Result: ~Copyable>(_ body: (CacheReader) throws -> Result) throws -> Result {
    try mapped { try cache.read(body) }
  }

  /// Runs `body`; failures of the cache become problems.
  func mapped<Result: ~Copyable>(_ body: () throws -> Result) throws -> Result {
    do { return try body() } catch let error as CacheError { throw Problem(error) }
  }

  /// The cursor that names a sequence of the event log.
  func cursor(at sequence: Int64) -> EventCursor {
    let now = cache.cursor
    return EventCursor(epoch: now.epoch, run: now.run, sequence: sequence)
  }
}
