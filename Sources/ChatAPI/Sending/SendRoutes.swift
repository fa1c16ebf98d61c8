import ChatCache
import ChatModel
import JSON
import MicroHTTP

/// Sending a message: durable here when it is answered, sent upstream afterwards (B36).
enum SendRoutes {
  static func routes(_ sending: Sending) -> [Route] {
    [
      Route(.post, "/v1/channels/{channel_url}/messages", operation: "sendMessage", body: Viewing.body) {
        request in
        try Parameters(request).end()
        let asked = try Viewing.parse(request) { try SendRequest($0) }
        let name = try RequestName(request, inBody: asked.requestID)
        return try sending.reading.admitted(request) { caller in
          try sending.reading.inChannel(request, caller, needsJoined: true) { url, caller in
            try Send(sending, request, caller, url, asked, name).answer()
          }
        }
      }
    ]
  }
}

/// One request to send a message.
private struct Send {
  let sending: Sending
  let request: Request
  let caller: Caller
  let url: ChannelURL
  let asked: SendRequest
  let name: RequestName

  init(
    _ sending: Sending, _ request: Request, _ caller: Caller, _ url: ChannelURL, _ asked: SendRequest,
    _ name: RequestName
  ) {
    self.sending = sending
    self.request = request
    self.caller = caller
    self.url = url
    self.asked = asked
    self.name = name
  }

  func answer() throws -> Outcome {
    // What was asked before is answered whatever else changed, so nothing is looked for.
    guard let parent = asked.parent.flatMap({ MessageRef($0) }), try !isKnown() else {
      return try accept(parent: nil)
    }
    return try MessageSearch(sending, request, caller, url).find(parent) { target in
      guard case .confirmed(let id) = target else { throw Problem(SendingDenial.unsent) }
      return try accept(parent: id)
    }
  }

  private func isKnown() throws -> Bool {
    guard name.isGiven else { return false }
    return try sending.reading.read { reader in
      guard let key = try reader.userKey(of: caller.user) else { return false }
      return try reader.standing(of: name.id, of: key) != nil
    }
  }

  private func accept(parent: Int64?) throws -> Outcome {
    let isAdmin = caller.scopes.contains(.admin)
    let needsAdmin = asked.kind == .admin
    let unsent = asked.unsent(name, in: url, parent: parent, caller)
    let (user, url, policy) = (caller.user, url, sending.policy)
    let progress = SendProgress(sending, request, caller, url, name.id)
    try progress.subscribe()
    let writing = Sending.Writing(request: request, caller: caller, url: url, name: name.id)
    do {
      return try sending.commit(
        writing,
        { writer in
          let (_, place) = try Sending.lane(writer.reader, user, url)
          let isNew = try writer.reader.standing(of: unsent.requestID, of: place.user) == nil
          if isNew, needsAdmin, !isAdmin { throw SendingDenial.notAllowed(.adminOnly) }
          var drawn = unsent
          drawn.lifetime = policy.pendingLifetime
          drawn.content.body = try writer.reader.unsentBody(
            unsent.content.params, unsent.requestID, of: user, in: url, at: try writer.outboxMoment())
          return try writer.accept(drawn, of: user, in: url, policy)
        }, failed: { progress.unsubscribe() }
      ) { accepted in
        switch accepted {
        case .mismatch, .noTarget:
          progress.unsubscribe()
          throw Problem.idempotencyMismatch
        case .replay: progress.isReplay = true
        case .row, .changed: break
        }
        return try progress.answer()
      }
    } catch {
      progress.unsubscribe()
      throw error
    }
  }
}
