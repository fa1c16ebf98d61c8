import ChatCache
import ChatModel
import MicroHTTP
import Platform

/// The message that a change is about.
enum MessageTarget: Sendable, Equatable {
  /// A message that the upstream has.
  case confirmed(Int64)
  /// An unsent message of the caller.
  case unsent(RequestID)

  /// The target at this moment: an unsent message may have been sent since. Throws if it was removed.
  func now(_ reader: CacheReader, _ laneKey: OutboxLaneKey) throws -> MessageTarget {
    let now = try confirmed(reader, laneKey)
    if case .unsent(let name) = now, try reader.unsentMessage(name.text, in: laneKey) == nil {
      throw SendingDenial.messageNotFound
    }
    return now
  }

  /// The sent message, if an unsent one was sent since; otherwise the same target.
  func confirmed(_ reader: CacheReader, _ laneKey: OutboxLaneKey) throws -> MessageTarget {
    guard case .unsent(let name) = self, try reader.unsentMessage(name.text, in: laneKey) == nil,
      let status = try reader.status(of: name, of: laneKey.user), status.isMessage, let sent = status.message
    else { return self }
    return .confirmed(sent)
  }
}

/// Looks for the message that a request names: in the cache, then upstream.
struct MessageSearch {
  private let sending: Sending
  private let request: Request
  private let caller: Caller
  private let url: ChannelURL

  init(_ sending: Sending, _ request: Request, _ caller: Caller, _ url: ChannelURL) {
    self.sending = sending
    self.request = request
    self.caller = caller
    self.url = url
  }

  /// Runs `then` with the message, if the caller may see it; otherwise throws a 404 or the upstream's
  /// failure.
  func find(_ ref: MessageRef?, then: @escaping (MessageTarget) throws -> Outcome) throws -> Outcome {
    guard let ref else { throw Problem.messageNotFound }
    return try find(ref, nil, then)
  }

  /// `fetched`: the result of asking the upstream; nil: it was not asked.
  private func find(
    _ ref: MessageRef, _ fetched: SyncOutcome?, _ then: @escaping (MessageTarget) throws -> Outcome
  ) throws -> Outcome {
    let (target, isCached) = try look(ref)
    if isCached { return try then(target) }
    guard case .confirmed(let id) = target else { throw Problem.messageNotFound }
    if let fetched { throw Problem.ofMissingMessage(fetched) }
    let (context, within) = (sending.context, RouteContext.firstWordMilliseconds)
    return context.wait(request, of: caller, within: within) {
      context.syncRequests.fetch(
        MessageSyncRequest(url, .message(id)), for: caller.user, within: within, then: $0)
    } then: { outcome in
      try find(ref, outcome ?? .late, then)
    }
  }

  private func look(_ ref: MessageRef) throws -> (target: MessageTarget, isCached: Bool) {
    do {
      return try sending.context.read { reader in
        let (view, laneKey) = try Sending.lane(reader, caller.user, url)
        let id: Int64
        switch ref {
        case .message(let named): id = named
        case .request(let name):
          let target = try MessageTarget.unsent(name).now(reader, laneKey)
          guard case .confirmed(let sent) = target else { return (target, true) }
          id = sent
        }
        if try reader.isHeld(id, in: view) { throw CacheError.rightsUnknown }
        return (.confirmed(id), try reader.message(id, parts: [], in: view) != nil)
      }
    } catch let denial as SendingDenial {
      throw Problem(denial)
    }
  }
}
