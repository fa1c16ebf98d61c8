import ChatCache
import ChatModel
import JSON
import MicroHTTP
import Platform

/// A message as a path names it: by its message_id, or by `request_id:` and the id that its sender chose.
enum MessageRef {
  case message(Int64)
  case request(RequestID)

  /// Nil: the text is neither.
  init?(_ text: String) {
    let prefix = "request_id:"
    if text.hasPrefix(prefix) {
      guard let request = RequestID(String(text.dropFirst(prefix.count))) else { return nil }
      self = .request(request)
    } else {
      guard let id = Digits.messageID(text) else { return nil }
      self = .message(id)
    }
  }
}

/// One request for a message: from the cache or, if it is not there, from the upstream. A request_id names
/// one of the caller's own messages: the unsent one, or the message that it became.
final class MessageRequest {
  private let context: RouteContext
  private let request: Request
  private let url: ChannelURL
  private let caller: Caller
  private let parts: MessageQuery.Parts
  private let preferences: Preferences
  private var status = CacheStatus.hit

  init(
    _ context: RouteContext, _ request: Request, _ url: ChannelURL, _ caller: Caller,
    _ parts: MessageQuery.Parts
  ) {
    self.context = context
    self.request = request
    self.url = url
    self.caller = caller
    self.parts = parts
    preferences = Preferences(request)
  }

  func answer() throws -> Outcome {
    switch MessageRef(request.parameter(1)) {
    case .message(let id): return try answer(id)
    case .request(let name): return try answer(name)
    case nil: throw Problem.messageNotFound
    }
  }

  private func answer(_ name: RequestID) throws -> Outcome {
    let cursor = context.cache.cursor
    var sent: Int64?
    let response = try context.read { reader -> Response? in
      let view = try view(reader)
      let laneKey = OutboxLaneKey(user: view.user, channel: url)
      if let unsent = try reader.unsentMessage(name.text, in: laneKey) {
        let tag = EntityTag(cursor, view, of: unsent)
        var body = ByteBuffer(capacity: unsent.object.count)
        unsent.object.withUnsafeBytes { body.append($0) }
        return respond(body, tag)
      }
      let status = try reader.status(of: name, of: view.user)
      sent = status?.isMessage ?? false ? status?.message : nil
      return nil
    }
    if let response { return .respond(response) }
    guard let sent else { throw Problem.messageNotFound }
    return try answer(sent)
  }

  /// `fetched`: the result of asking the upstream; nil: it was not asked.
  private func answer(_ id: Int64, _ fetched: SyncOutcome? = nil) throws -> Outcome {
    let isWanted = preferences.mode == .always && fetched == nil
    if !isWanted, let response = try look(id) { return .respond(response) }
    if let fetched { throw Problem.ofMissingMessage(fetched) }
    guard preferences.mode != .never else { throw Problem.notCached }
    let within = preferences.milliseconds
    return context.wait(request, of: caller, within: within) { [self] in
      context.syncRequests.fetch(
        MessageSyncRequest(url, .message(id)), for: caller.user, within: within, then: $0)
    } then: { [self] outcome in
      status = CacheStatus(outcome)
      return try answer(id, outcome ?? .late)
    }
  }

  private func view(_ reader: CacheReader) throws -> ChannelView {
    guard let key = try reader.userKey(of: caller.user), let view = try reader.view(of: url, for: key) else {
      throw Problem.channelNotFound
    }
    guard view.isJoined else { throw Problem.notJoined }
    return view
  }

  private func look(_ id: Int64) throws -> Response? {
    let cursor = context.cache.cursor
    return try context.read { reader in
      let view = try view(reader)
      guard let object = try reader.message(id, parts: parts, in: view) else {
        if status != .hit || preferences.mode == .never, view.heldAt != nil { throw Problem.rightsUnknown }
        return nil
      }
      let tag = EntityTag(cursor, view)
      return respond(object, tag)
    }
  }

  private func respond(_ object: consuming ByteBuffer, _ tag: EntityTag) -> Response {
    if tag.isKnown(to: request) { return context.notModified.answer(tag, status, preferences) }
    var response = Response.json(object)
    response.describe(tag, status, preferences, vary: context.gate.vary)
    return response
  }
}
