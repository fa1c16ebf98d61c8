import ChatCache
import ChatModel
import JSON
import MicroHTTP

/// Resends a channel's failed messages, one or all, and removes them (B44).
enum UnsentMessageRoutes {
  static func routes(_ sending: Sending) -> [Route] {
    [
      Route(
        .post, "/v1/channels/{channel_url}/messages/{message_ref}/resend", operation: "resendMessage",
        body: .upload(limit: UploadLimit.formBytes) { request in
          try UploadHead.admit(sending, request, isNew: false)
        }
      ) { request in
        try Parameters(request).end()
        let received = try (request.form as? UploadForm)?.whole()
        return try inChannel(sending, request) { url, caller in
          try MessageSearch(sending, request, caller, url).find(MessageRef(request.parameter(1))) { target in
            guard case .unsent(let name) = target else { throw Problem.notResendable }
            return try resend(sending, request, caller, url, name, received)
          }
        }
      },
      Route(
        .post, "/v1/channels/{channel_url}/messages/resend", operation: "resendFailedMessages"
      ) { request in
        try Parameters(request).end()
        return try inChannel(sending, request) { url, caller in
          try resendAll(sending, request, caller, url)
        }
      },
      Route(.delete, "/v1/channels/{channel_url}/messages", operation: "removeFailedMessages") { request in
        var parameters = Parameters(request)
        if parameters.text("status") != "failed" { parameters.fault("status", "Give failed.") }
        try parameters.end()
        return try inChannel(sending, request) { url, caller in
          try removeAll(sending, request, caller, url)
        }
      },
    ]
  }

  private static func inChannel(
    _ sending: Sending, _ request: Request, _ body: @escaping (ChannelURL, Caller) throws -> Outcome
  ) throws -> Outcome {
    try sending.context.admitted(request) { caller in
      try sending.context.inChannel(request, caller, needsJoined: true, body)
    }
  }

  private static func resend(
    _ sending: Sending, _ request: Request, _ caller: Caller, _ url: ChannelURL, _ name: RequestID,
    _ received: ReceivedFile?
  ) throws -> Outcome {
    let progress = SendProgress(sending, request, caller, url, name)
    try progress.subscribe()
    let isAdmin = caller.scopes.contains(.admin)
    let (user, policy, spool) = (caller.user, sending.policy, sending.context.cache.spool)
    var writing = Sending.Writing(request: request, caller: caller, url: url, name: nil)
    writing.file = received?.incoming
    do {
      return try sending.commit(
        writing,
        { writer -> Bool in
          let (_, laneKey) = try Sending.lane(writer.reader, user, url)
          let isResent = try writer.resend(name, of: user, in: laneKey, isAdmin: isAdmin, policy)
          guard let isResent else { throw SendingDenial.messageNotFound }
          guard isResent else { throw Problem.notResendable }
          let upload = try writer.reader.upload(of: name, in: laneKey)
          let isMissing = upload.map { $0.url == nil && spool.path(of: $0.file) == nil } ?? false
          if let received {
            let file = SentFile(received.incoming.spooled, name: received.name, mime: received.mime)
            guard upload != nil else { throw Problem.invalid("file", "This message has none: leave it out.") }
            let outcome = try writer.replaceFile(of: name, in: laneKey, by: file, isMissing: isMissing)
            guard outcome != .isOther else { throw Problem.fileMissing }
            return outcome == .replaced
          }
          if isMissing { throw Problem.fileMissing }
          return false
        }, keepsFile: { $0 }, failed: { progress.unsubscribe() }, then: { _ in try progress.answer() })
    } catch {
      progress.unsubscribe()
      throw error
    }
  }

  private static func resendAll(
    _ sending: Sending, _ request: Request, _ caller: Caller, _ url: ChannelURL
  ) throws -> Outcome {
    let isAdmin = caller.scopes.contains(.admin)
    let (user, policy) = (caller.user, sending.policy)
    return try sending.commit(Sending.Writing(request: request, caller: caller, url: url, name: nil)) {
      writer in
      let (_, laneKey) = try Sending.lane(writer.reader, user, url)
      return try writer.resendFailed(of: user, in: laneKey, isAdmin: isAdmin, policy)
    } then: { count in
      var json = JSONWriter()
      json.beginObject()
      json.field("resent", count)
      json.endObject()
      return .respond(CollectionContext.answer(json.finish(), status: 202))
    }
  }

  private static func removeAll(
    _ sending: Sending, _ request: Request, _ caller: Caller, _ url: ChannelURL
  ) throws -> Outcome {
    let user = caller.user
    return try sending.commit(Sending.Writing(request: request, caller: caller, url: url, name: nil)) {
      writer in
      let (_, laneKey) = try Sending.lane(writer.reader, user, url)
      return try writer.removeFailed(in: laneKey)
    } then: { removed in
      answer(removed: removed)
    }
  }

  /// Names the requests of the messages that were removed.
  static func answer(removed: [RequestID]) -> Outcome {
    var json = JSONWriter()
    json.beginObject()
    json.name("request_ids")
    json.beginArray()
    for id in removed { json.value(id.text) }
    json.endArray()
    json.endObject()
    return .respond(CollectionContext.answer(json.finish()))
  }
}
