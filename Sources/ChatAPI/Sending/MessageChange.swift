import ChatCache
import ChatModel
import JSON
import MicroHTTP

/// One request to change a message: an edit, a deletion or a reaction.
struct MessageChange {
  /// The change that the client asks for.
  struct Intent: Sendable {
    /// The action's name in the contract.
    let operation: String
    let kind: OutboxRow.Kind
    /// The fields to change, as a JSON object.
    var params = Array("{}".utf8)
    /// A reaction's key.
    var aspect = ""
    /// The length of the new text, in characters.
    var textLength = 0
  }

  /// The outcome of the write.
  private enum Made: Sendable {
    case changed([UInt8]?, isReplay: Bool)
    case refused(code: String, [UInt8]?)
    case removed
    case mismatch
  }

  let sending: Sending
  let request: Request
  let caller: Caller
  let url: ChannelURL
  let intent: Intent
  let name: RequestName

  /// The message, as the path names it.
  private var refText: String { request.parameter(1) }

  func answer() throws -> Outcome {
    let ref = MessageRef(refText)
    if case .message(let id) = ref {
      // Here the request can still wait for the caller's changes.
      try sending.context.read { try Self.requireShown(id, $0, Sending.lane($0, caller.user, url).view) }
    }
    // A repeated request gets its first answer, even if the message was deleted since: no need to find it.
    if let ref, try isKnown() {
      switch ref {
      case .message(let id): return try write(.confirmed(id))
      case .request(let name): return try write(.unsent(name))
      }
    }
    return try MessageSearch(sending, request, caller, url).find(ref) { try write($0) }
  }

  /// The answer shows the message: throws if the caller may not be shown it.
  private static func requireShown(_ id: Int64, _ reader: CacheReader, _ view: ChannelView) throws {
    if try reader.isHeld(id, in: view) { throw CacheError.rightsUnknown }
  }

  private func isKnown() throws -> Bool {
    guard name.isGiven else { return false }
    return try sending.context.read { reader in
      guard let key = try reader.userKey(of: caller.user) else { return false }
      return try reader.status(of: name.id, of: key) != nil
    }
  }

  private func write(_ target: MessageTarget) throws -> Outcome {
    let asked = unsentRequest
    let condition = request.headerText("If-Match")
    let cursor = sending.context.cache.cursor
    let (user, url, policy, isNamed) = (caller.user, url, sending.policy, name.isGiven)
    let writing = Sending.Writing(request: request, caller: caller, url: url, name: name.id)
    return try sending.commit(writing) { writer -> Made in
      let (view, laneKey) = try Sending.lane(writer.reader, user, url)
      if try writer.reader.status(of: asked.requestID, of: laneKey.user) == nil {
        let now = try target.now(writer.reader, laneKey)
        if let condition {
          try Precondition(condition).check(now, writer.reader, view, laneKey, cursor)
        }
        if case .unsent(let message) = now, asked.kind == .delete {
          if isNamed { try writer.remember(asked, in: laneKey, as: nil) }
          return try MessageChange.takeBack(message, writer, laneKey)
        }
        return try MessageChange.accept(asked, now, writer, user, laneKey, policy)
      }
      return try MessageChange.accept(asked, target, writer, user, laneKey, policy)
    } then: { made in
      // The caller's right is checked again after the wait.
      _ = try sending.context.gate.caller(of: request)
      return .respond(try response(made))
    }
  }

  private var unsentRequest: UnsentRequest {
    var asked = UnsentRequest(
      requestID: name.id, kind: intent.kind, content: OutboxContent(params: intent.params, body: []),
      contentHash: ContentHash.of(intent.operation, [url.text, refText, intent.aspect], intent.params))
    asked.aspect = intent.aspect
    asked.textLength = intent.textLength
    asked.isAdmin = caller.scopes.contains(.admin)
    asked.lifetime = sending.policy.pendingLifetime
    return asked
  }

  private static func takeBack(
    _ message: RequestID, _ writer: CacheWriter, _ laneKey: OutboxLaneKey
  ) throws -> Made {
    switch try writer.takeBack(message, in: laneKey) {
    case .removed: return .removed
    case .canceled, .underWay:
      return .changed(try writer.reader.unsentMessage(message.text, in: laneKey)?.object, isReplay: false)
    case nil: throw SendingDenial.messageNotFound
    }
  }

  private static func accept(
    _ request: UnsentRequest, _ target: MessageTarget, _ writer: CacheWriter, _ user: UserID,
    _ laneKey: OutboxLaneKey, _ policy: OutboxPolicy
  ) throws -> Made {
    var asked = request
    switch target {
    case .confirmed(let id): asked.target = id
    case .unsent(let message):
      let isNew = try writer.reader.status(of: request.requestID, of: laneKey.user) == nil
      if isNew, request.kind == .reaction { throw SendingDenial.unsent }
      asked.unsentTarget = message
    }
    let accepted = try writer.accept(asked, of: user, in: laneKey.channel, policy)
    switch accepted {
    case .mismatch: return .mismatch
    case .noTarget: throw SendingDenial.messageNotFound
    case .row, .changed: return .changed(try object(target, writer.reader, user, laneKey), isReplay: false)
    case .replay(let status):
      // An edit that was merged into an unsent message knows it only by its request id.
      let shown =
        try status.message.map { MessageTarget.confirmed($0) } ?? target.confirmed(writer.reader, laneKey)
      let object = try object(shown, writer.reader, user, laneKey)
      if status.end == "dropped", let code = status.errorCode { return .refused(code: code, object) }
      return .changed(object, isReplay: true)
    }
  }

  /// The message as the caller sees it now, with its pending changes.
  private static func object(
    _ target: MessageTarget, _ reader: CacheReader, _ user: UserID, _ laneKey: OutboxLaneKey
  ) throws -> [UInt8]? {
    switch target {
    case .unsent(let name): return try reader.unsentMessage(name.text, in: laneKey)?.object
    case .confirmed(let id):
      let (view, _) = try Sending.lane(reader, user, laneKey.channel)
      try requireShown(id, reader, view)
      return try reader.message(id, parts: Sending.parts, in: view)?.array
    }
  }

  private func response(_ made: Made) throws -> Response {
    switch made {
    case .removed: return .empty(204)
    case .mismatch: throw Problem.idempotencyMismatch
    case .refused(let code, let object):
      var problem = Problem.notSent(code: code, message: object)
      problem.headers.append(("Idempotency-Replayed", "true"))
      throw problem
    case .changed(nil, let isReplay) where intent.kind == .delete:
      var response = Response.empty(204)
      if isReplay { response.add("Idempotency-Replayed", "true") }
      return response
    case .changed(nil, _): throw Problem.messageNotFound
    case .changed(let object?, let isReplay):
      var response = Sending.answer(object, status: 202)
      if isReplay { response.add("Idempotency-Replayed", "true") }
      return response
    }
  }
}

/// The header `If-Match` (RFC 9110): the change is made only if the tag that the client read is still
/// current.
private struct Precondition {
  private let header: String

  init(_ header: String) { self.header = header }

  func check(
    _ target: MessageTarget, _ reader: CacheReader, _ view: ChannelView, _ laneKey: OutboxLaneKey,
    _ cursor: EventCursor
  ) throws {
    let tag: EntityTag
    switch target {
    case .confirmed: tag = EntityTag(cursor, view)
    case .unsent(let name):
      guard let message = try reader.unsentMessage(name.text, in: laneKey) else {
        throw SendingDenial.messageNotFound
      }
      tag = EntityTag(cursor, view, of: message)
    }
    let text = tag.text
    let isMet = header.split(separator: ",").contains { part in
      let part = String(part.drop { $0 == " " }.reversed().drop { $0 == " " }.reversed())
      return part == "*" || part == text
    }
    guard isMet else {
      throw Problem(
        412, "precondition_failed", detail: "The message or its channel changed: read it again, then decide.")
    }
  }
}
