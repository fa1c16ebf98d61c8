import ChatCache
import ChatModel
import JSON
import MicroHTTP

/// Changes of messages, and marking as read. The answer comes when the change is durable here; the upstream
/// gets it afterwards (B46).
enum ChangeRoutes {
  static func routes(_ sending: Sending) -> [Route] {
    messages(sending) + reactions(sending) + [read(sending)]
  }

  private static func messages(_ sending: Sending) -> [Route] {
    [
      Route(
        .patch, "/v1/channels/{channel_url}/messages/{message_ref}", operation: "editMessage",
        body: CollectionContext.body
      ) { request in
        try Parameters(request).end()
        let edit = try CollectionContext.parse(request) { try EditRequest($0) }
        let intent = MessageChange.Intent(
          operation: "editMessage", kind: .edit, params: edit.params,
          textLength: edit.content.message?.count ?? 0)
        return try change(sending, request, intent, try RequestName(request, inBody: edit.requestID))
      },
      Route(.delete, "/v1/channels/{channel_url}/messages/{message_ref}", operation: "deleteMessage") {
        request in
        try Parameters(request).end()
        let intent = MessageChange.Intent(operation: "deleteMessage", kind: .delete)
        return try change(sending, request, intent, try RequestName(request))
      },
    ]
  }

  private static func reactions(_ sending: Sending) -> [Route] {
    [
      Route(
        .put, "/v1/channels/{channel_url}/messages/{message_ref}/reactions/{key}", operation: "addReaction"
      ) { request in try react(sending, request, adds: true) },
      Route(
        .delete, "/v1/channels/{channel_url}/messages/{message_ref}/reactions/{key}",
        operation: "removeReaction"
      ) { request in try react(sending, request, adds: false) },
    ]
  }

  private static func react(_ sending: Sending, _ request: Request, adds: Bool) throws -> Outcome {
    try Parameters(request).end()
    let key = request.parameter(2)
    guard (1...SendingLimit.reactionCharacters).contains(key.count) else {
      throw Problem.invalid("key", "Give 1 to \(SendingLimit.reactionCharacters) characters.")
    }
    let intent = MessageChange.Intent(
      operation: adds ? "addReaction" : "removeReaction", kind: .reaction,
      params: Array("{\"add\":\(adds)}".utf8), aspect: key)
    return try change(sending, request, intent, try RequestName(request))
  }

  private static func change(
    _ sending: Sending, _ request: Request, _ intent: MessageChange.Intent, _ name: RequestName
  ) throws -> Outcome {
    try sending.context.admitted(request) { caller in
      try sending.context.inChannel(request, caller, needsJoined: true) { url, caller in
        try MessageChange(
          sending: sending, request: request, caller: caller, url: url, intent: intent, name: name
        ).answer()
      }
    }
  }

  private static func read(_ sending: Sending) -> Route {
    Route(.post, "/v1/channels/{channel_url}/read", operation: "markChannelAsRead") { request in
      try Parameters(request).end()
      let name = try RequestName(request)
      return try sending.context.admitted(request) { caller in
        try sending.context.inChannel(request, caller, needsJoined: true) { url, caller in
          var mark = UnsentRequest(
            requestID: name.id, kind: .read, content: OutboxContent(params: Array("{}".utf8), body: []),
            contentHash: ContentHash.of("markChannelAsRead", [url.text], Array("{}".utf8)))
          mark.lifetime = sending.policy.pendingLifetime
          let (asked, user, policy) = (mark, caller.user, sending.policy)
          let writing = Sending.Writing(request: request, caller: caller, url: url, name: name.id)
          return try sending.commit(writing) { writer in
            let accepted = try writer.accept(asked, of: user, in: url, policy)
            if case .mismatch = accepted { throw Problem.idempotencyMismatch }
            let (view, _) = try Sending.lane(writer.reader, user, url)
            guard let channel = try writer.reader.channel(view)?.array else { throw Problem.channelNotFound }
            if case .replay = accepted { return (channel, true) }
            return (channel, false)
          } then: { channel, isReplay in
            _ = try sending.context.gate.caller(of: request)
            var response = Sending.answer(channel, status: 200)
            if isReplay { response.add("Idempotency-Replayed", "true") }
            return .respond(response)
          }
        }
      }
    }
  }
}
