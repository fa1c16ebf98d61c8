import ChatCache
import ChatModel
import JSON
import MicroHTTP

/// Sends a message. The answer comes when the message is durable here; the upstream gets it afterwards (B36).
enum SendRoutes {
  static func routes(_ sending: Sending) -> [Route] {
    [
      Route(
        .post, "/v1/channels/{channel_url}/messages", operation: "sendMessage",
        body: .upload(limit: UploadLimit.formBytes, orCollected: 256 * 1024) { request in
          try UploadHead.admit(sending, request, isNew: true)
        }
      ) { request in
        try Parameters(request).end()
        let received = try (request.form as? UploadForm)?.whole()
        let asked = try asked(request, received)
        let name = try RequestName(request, inBody: asked.requestID)
        return try sending.context.admitted(request) { caller in
          try sending.context.inChannel(request, caller, needsJoined: true) { url, caller in
            try Send(sending, request, caller, url, asked, name, received?.incoming).answer()
          }
        }
      }
    ]
  }

  /// The fields of the body, or of the form's `params`.
  private static func asked(_ request: Request, _ received: ReceivedFile?) throws -> SendRequest {
    guard let received else { return try CollectionContext.parse(request) { try SendRequest($0) } }
    let params = request.parts?.first { $0.name == "params" }?.value ?? Array("{}".utf8)
    return try params.withUnsafeBytes { bytes in
      try CollectionContext.parse(bytes, "params") { try SendRequest($0, received) }
    }
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
  let file: IncomingFile?

  init(
    _ sending: Sending, _ request: Request, _ caller: Caller, _ url: ChannelURL, _ asked: SendRequest,
    _ name: RequestName, _ file: IncomingFile?
  ) {
    self.file = file
    self.sending = sending
    self.request = request
    self.caller = caller
    self.url = url
    self.asked = asked
    self.name = name
  }

  func answer() throws -> Outcome {
    // A repeated request gets its first answer, even if the parent was deleted since: no need to find it.
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
    return try sending.context.read { reader in
      guard let key = try reader.userKey(of: caller.user) else { return false }
      return try reader.status(of: name.id, of: key) != nil
    }
  }

  private func accept(parent: Int64?) throws -> Outcome {
    let (user, url, policy) = (caller.user, url, sending.policy)
    // The hash of a file is known when its bytes are on the disk.
    let makeUnsent: @Sendable () -> UnsentRequest = { [asked, name, caller, file] in
      asked.unsent(name, in: url, parent: parent, file?.spooled, caller, lifetime: policy.pendingLifetime)
    }
    let unsent = file == nil ? makeUnsent() : nil
    let progress = SendProgress(sending, request, caller, url, name.id)
    try progress.subscribe()
    var writing = Sending.Writing(request: request, caller: caller, url: url, name: name.id)
    writing.file = file
    do {
      return try sending.commit(
        writing,
        { try $0.accept(unsent ?? makeUnsent(), of: user, in: url, policy) },
        keepsFile: { if case .row = $0 { true } else { false } }, failed: { progress.unsubscribe() }
      ) { accepted in
        switch accepted {
        case .mismatch, .noTarget:
          progress.unsubscribe()
          throw Problem.idempotencyMismatch
        case .replay: progress.isReplay = true
        case .row(_, let message) where !message.isEmpty: return try progress.answer(accepted: message)
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
