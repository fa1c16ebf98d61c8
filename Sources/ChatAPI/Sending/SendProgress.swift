import ChatCache
import ChatCollections
import ChatModel
import MicroHTTP
import Platform

/// Answers one accepted send: as it stands, or when it has ended (`Prefer: wait`). Changes in its channel
/// wake the waiting request.
final class SendProgress {
  private let sending: Sending
  private let request: Request
  private let caller: Caller
  private let url: ChannelURL
  private let id: RequestID
  private let preferences: Preferences
  private var ticket: ChangeSubscriptions.Ticket?
  private lazy var rights = RightsWait(request.makeWaiter())
  /// Whether this request id was sent before with the same content.
  var isReplay = false

  init(_ sending: Sending, _ request: Request, _ caller: Caller, _ url: ChannelURL, _ id: RequestID) {
    self.sending = sending
    self.request = request
    self.caller = caller
    self.url = url
    self.id = id
    preferences = Preferences(request)
  }

  private enum State {
    case unsent(UnsentMessage)
    case sent(Int64, object: [UInt8]?)
    /// The message is sent. It is not shown before the caller's changes are known (B1).
    case notShown
    case gone

    /// Whether the send goes on, or its message may soon be shown.
    var isUnderWay: Bool {
      switch self {
      case .unsent(let message): message.status == .pending
      case .notShown: true
      case .sent, .gone: false
      }
    }
  }

  /// Subscribes to the lane's events before anything is stored. If too many requests wait already, this one
  /// does not wait, and is answered as soon as it is durable.
  func subscribe() throws {
    guard let wait = preferences.wait, wait > 0 else { return }
    let view = try sending.context.read { try Sending.lane($0, caller.user, url).view }
    let topics = ChangeSubscriptions.Topics(of: view.user, channels: [view.channel])
    ticket = sending.subscriptions.subscribe(request.makeWaiter(), to: topics)
  }

  /// Ends the subscription.
  func unsubscribe() {
    if let ticket { sending.subscriptions.unsubscribe(ticket) }
    ticket = nil
  }

  /// Answers: at once, or when the send has ended or the time is over.
  func answer() throws -> Outcome {
    let wait = ticket == nil ? 0 : UInt64(preferences.wait ?? 0)
    let end = Clock.system.monotonicNanoseconds() + wait * 1_000_000_000
    do { return try held(until: end) } catch {
      unsubscribe()
      throw error
    }
  }

  /// Answers a request whose message was just accepted. A client that does not wait gets the message as it
  /// was stored, without a read.
  func answer(accepted message: [UInt8]) throws -> Outcome {
    guard ticket == nil else { return try answer() }
    return .respond(decorated(Sending.answer(message, status: 202)))
  }

  private func held(until end: UInt64) throws -> Outcome {
    let state = try state()
    let now = Clock.system.monotonicNanoseconds()
    guard state.isUnderWay, now < end, !request.isServerStopping else {
      unsubscribe()
      return try answer(state)
    }
    if case .notShown = state { rights.await(of: caller.user, request, sending.context.syncRequests) }
    return .park(
      Parking(request.makeWaiter(), milliseconds: Int((end - now) / 1_000_000) + 1) { [self] wake in
        if case .hungUp = wake {
          unsubscribe()
          return .respond(.empty(204))
        }
        do {
          // The caller's right is checked again after the wait.
          _ = try sending.context.gate.caller(of: request)
          return try held(until: wake == .woken ? end : 0)
        } catch {
          unsubscribe()
          throw error
        }
      })
  }

  /// How the send stands. It was accepted, so this does not need the channel: everything may have been
  /// cleared since, or the caller may have left.
  private func state() throws -> State {
    try sending.context.read { reader in
      guard let user = try reader.userKey(of: caller.user) else { return .gone }
      let laneKey = OutboxLaneKey(user: user, channel: url)
      if let message = try reader.unsentMessage(id.text, in: laneKey) { return .unsent(message) }
      guard let sent = try reader.status(of: id, of: user)?.message else { return .gone }
      guard let view = try reader.view(of: url, for: user), view.isJoined else {
        return .sent(sent, object: nil)
      }
      if try reader.isHeld(sent, in: view) { return .notShown }
      return .sent(sent, object: try reader.message(sent, parts: Sending.parts, in: view)?.array)
    }
  }

  private func answer(_ state: State) throws -> Outcome {
    switch state {
    case .unsent(let message) where message.status == .failed:
      throw marked(.notSent(code: message.errorCode ?? "", message: message.object))
    case .unsent(let message): return .respond(decorated(Sending.answer(message.object, status: 202)))
    case .sent(_, let object?): return .respond(decorated(Sending.answer(object, status: 201)))
    case .sent(let sent, nil): return try find(sent)
    case .notShown: throw marked(.sentNotShown)
    case .gone: throw marked(.messageGone)
    }
  }

  /// Answers about a sent message that is not in the cache, because it was evicted, cleared or deleted. No
  /// problem may let the client send it again under another id.
  private func find(_ sent: Int64) throws -> Outcome {
    let change: (any Error) -> any Error = { [self] error in
      guard let problem = error as? Problem else { return error }
      let isGone = [Problem.messageNotFound, .channelNotFound, .notJoined].contains {
        $0.code == problem.code
      }
      return marked(isGone ? .messageGone : problem.isOfUnknownRights ? .sentNotShown : problem)
    }
    do {
      return try MessageSearch(sending, request, caller, url).find(.message(sent)) { [self] _ in
        let state = try self.state()
        if case .notShown = state { throw Problem.sentNotShown }
        guard case .sent(_, let object?) = state else { throw Problem.messageNotFound }
        return .respond(decorated(Sending.answer(object, status: 201)))
      }.mapErrors(change)
    } catch {
      throw change(error)
    }
  }

  private func marked(_ problem: Problem) -> Problem {
    var marked = problem.naming(id)
    if isReplay { marked.headers.append(("Idempotency-Replayed", "true")) }
    if let wait = preferences.wait { marked.headers.append(("Preference-Applied", "wait=\(wait)")) }
    return marked
  }

  private func decorated(_ response: consuming Response) -> Response {
    response.add("Location", Sending.location(of: id, in: url))
    if isReplay { response.add("Idempotency-Replayed", "true") }
    preferences.apply(to: &response)
    return response
  }
}
