import ChatCache
import ChatModel
import JSON
import MicroHTTP
import Platform

/// `/v1/outbox`: the user's unsent messages and changes in all channels, also in those the user has left
/// (B69).
enum OutboxRoutes {
  /// The most rows of one page, and the rows of a page without `limit`.
  static let mostRows: Int64 = 200
  private static let usualRows: Int64 = 100

  static func routes(_ sending: Sending) -> [Route] {
    [
      Route(.get, "/v1/outbox", operation: "listUnsent") { try list(sending, $0) },
      Route(.get, "/v1/outbox/{request_id}", operation: "getUnsent") { request in
        try Parameters(request).end()
        return try sending.context.admitted(request) { caller in
          let row = try sending.context.read { reader -> UnsentRow? in
            guard let id = RequestID(request.parameter(0)), let key = try reader.userKey(of: caller.user)
            else { return nil }
            return try reader.unsentRow(id, of: key)
          }
          guard let row else { throw Problem.unsentNotFound }
          return .respond(CollectionContext.answer(UnsentObject.json(row)))
        }
      },
      Route(.delete, "/v1/outbox/{request_id}", operation: "removeUnsent") { request in
        try Parameters(request).end()
        return try sending.context.admitted(request) { try remove(sending, request, $0) }
      },
      Route(.post, "/v1/outbox/{request_id}/resend", operation: "resendUnsent") { request in
        try Parameters(request).end()
        return try sending.context.admitted(request) { try resend(sending, request, $0) }
      },
      Route(.get, "/v1/admin/outbox", operation: "listAllUnsent") { try listAll(sending.context, $0) },
    ]
  }

  private static func list(_ sending: Sending, _ request: Request) throws -> Outcome {
    var parameters = Parameters(request)
    let limit = Int(parameters.number("limit", 1...mostRows) ?? usualRows)
    let after = parameters.number("after", 0 ... .max) ?? 0
    var filter = UnsentFilter()
    filter.channel = parameters.name("channel_url", atMost: ChatModel.Limits.channelURLCharacters).map {
      ChannelURL($0)
    }
    filter.status = parameters.word("status", OutboxRow.Status.self)
    try parameters.end()
    let wanted = filter
    return try sending.context.admitted(request) { caller in
      let rows = try sending.context.read { reader -> [UnsentRow] in
        guard let key = try reader.userKey(of: caller.user) else { return [] }
        return try reader.unsentRows(of: key, wanted, after: after, limit: limit + 1)
      }
      let shown = rows.prefix(limit)
      let next = rows.count > limit ? shown.last.map { String($0.row.id) } : nil
      var json = JSONWriter(capacity: 1024)
      json.beginPage(next: next) { json in
        for row in shown { UnsentObject.write(row, into: &json) }
      }
      json.endObject()
      var response = CollectionContext.answer(json.finish())
      response.link(next: next, request)
      return .respond(response)
    }
  }

  /// The channel and lane of the caller's unsent row that the path names.
  private static func laneKey(
    _ sending: Sending, _ request: Request, _ caller: Caller
  ) throws -> (id: RequestID, laneKey: OutboxLaneKey) {
    let found = try sending.context.read { reader -> (RequestID, OutboxLaneKey)? in
      guard let id = RequestID(request.parameter(0)), let key = try reader.userKey(of: caller.user),
        let laneKey = try reader.unsentLane(of: id, of: key)
      else { return nil }
      return (id, laneKey)
    }
    guard let found else { throw Problem.unsentNotFound }
    return found
  }

  private static func remove(_ sending: Sending, _ request: Request, _ caller: Caller) throws -> Outcome {
    let (id, laneKey) = try laneKey(sending, request, caller)
    let writing = Sending.Writing(request: request, caller: caller, url: laneKey.channel, name: nil)
    return try sending.commit(writing) { writer -> UnsentRow? in
      switch try writer.takeBack(id, in: laneKey) {
      case .removed: return nil
      case .canceled: return try writer.reader.unsentRow(id, of: laneKey.user)
      case .underWay:
        throw Problem(
          409, "under_way",
          detail: "This change is being sent and cannot be stopped: ask for its state later.")
      case nil: throw Problem.unsentNotFound
      }
    } then: { row in
      guard let row else { return .respond(.empty(204)) }
      return .respond(CollectionContext.answer(UnsentObject.json(row), status: 202))
    }
  }

  private static func resend(_ sending: Sending, _ request: Request, _ caller: Caller) throws -> Outcome {
    let (id, laneKey) = try laneKey(sending, request, caller)
    return try sending.context.inChannel(request, caller, named: laneKey.channel) { _, caller in
      try resend(id, in: laneKey, sending, request, caller)
    }
  }

  private static func resend(
    _ id: RequestID, in laneKey: OutboxLaneKey, _ sending: Sending, _ request: Request, _ caller: Caller
  ) throws -> Outcome {
    let isAdmin = caller.scopes.contains(.admin)
    let (user, policy, spool) = (caller.user, sending.policy, sending.context.cache.spool)
    let writing = Sending.Writing(request: request, caller: caller, url: laneKey.channel, name: nil)
    return try sending.commit(writing) { writer -> UnsentRow in
      let upload = try writer.reader.upload(of: id, in: laneKey)
      if let upload, upload.url == nil, spool.path(of: upload.file) == nil { throw Problem.fileMissing }
      let isResent = try writer.resend(id, of: user, in: laneKey, isAdmin: isAdmin, policy)
      guard let isResent, let row = try writer.reader.unsentRow(id, of: laneKey.user) else {
        throw Problem.unsentNotFound
      }
      guard isResent else { throw Problem.notResendable }
      return row
    } then: { row in
      .respond(CollectionContext.answer(UnsentObject.json(row), status: 202))
    }
  }

  private static func listAll(_ context: RouteContext, _ request: Request) throws -> Outcome {
    var parameters = Parameters(request)
    let after = parameters.text("after") ?? ""
    let limit = Int(parameters.number("limit", 1...1000) ?? 100)
    let status = parameters.word("status", OutboxRow.Status.self)
    try parameters.end()
    _ = try context.gate.caller(of: request, scope: .admin)
    let users = try context.read { try $0.outboxes(status: status, after: after, limit: limit + 1) }
    let shown = users.prefix(limit)
    let next = users.count > limit ? shown.last?.user.text : nil
    let now = context.cache.clock.wallMilliseconds()
    var json = JSONWriter()
    json.beginPage(next: next) { json in
      for outbox in shown {
        json.beginObject()
        json.field("user_id", outbox.user.text)
        json.field("pending", outbox.pending)
        json.field("failed", outbox.failed)
        json.field("canceled", outbox.canceled)
        json.name("oldest_accepted_at")
        if let moment = outbox.oldestAcceptedAt { json.value(moment) } else { json.null() }
        json.field("oldest_age_ms", max(0, now - (outbox.oldestAcceptedAt ?? now)))
        json.endObject()
      }
    }
    json.endObject()
    var response = CollectionContext.answer(json.finish())
    response.link(next: next, request)
    return .respond(response)
  }
}

/// An unsent row as JSON.
enum UnsentObject {
  static func json(_ row: UnsentRow) -> ByteBuffer {
    var json = JSONWriter(capacity: 512)
    write(row, into: &json)
    return json.finish()
  }

  static func write(_ unsent: UnsentRow, into json: inout JSONWriter) {
    let row = unsent.row
    json.beginObject()
    json.field("request_id", row.requestID.text)
    json.field("channel_url", unsent.channel.text)
    json.field("kind", row.kind.rawValue)
    json.field("state", row.state.rawValue)
    json.field("status", row.status.rawValue)
    if let message = unsent.message {
      json.name("message")
      message.withUnsafeBytes { json.splice($0) }
    } else {
      writeChange(unsent, into: &json)
    }
    json.field("accepted_at", row.acceptedAt)
    json.field("expires_at", row.expiresAt)
    json.name("next_try_at")
    let isTried = (row.state == .waiting || row.state == .uncertain) && unsent.blockedBy == nil
    if isTried { json.value(row.nextTryAt) } else { json.null() }
    json.field("attempts", row.attempts)
    json.name("blocked_by")
    if let blocker = unsent.blockedBy { json.value(blocker.text) } else { json.null() }
    if let code = row.errorCode {
      json.name("error")
      json.beginObject()
      json.field("code", code)
      json.endObject()
    }
    json.endObject()
  }

  private static func writeChange(_ unsent: UnsentRow, into json: inout JSONWriter) {
    if let target = unsent.row.target {
      json.name("message_id")
      json.value(quoting: target)
    }
    if let follows = unsent.follows { json.field("follows", follows.text) }
    switch unsent.row.kind {
    case .edit:
      json.name("changes")
      unsent.params.withUnsafeBytes { json.splice($0) }
    case .reaction:
      json.field("key", unsent.row.aspect)
      json.name("changes")
      unsent.params.withUnsafeBytes { json.splice($0) }
    case .message, .file, .delete, .read: break
    }
  }
}
