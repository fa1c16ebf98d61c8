import ChatCache
import ChatModel
import Origin
import Platform
import Testing

@testable import ChatSync

/// The upstream's writing calls over real sockets: against the fake server, and against the stand-in.
@Suite(.timeLimit(.minutes(2)))
struct SendingTests {
  private let alice = UserID("alice")
  private let general = ChannelURL("general")

  private func message(_ request: String, _ params: String, in url: ChannelURL? = nil) -> OutgoingMessage {
    OutgoingMessage(
      requestID: RequestID(request)!, user: alice, channel: url ?? general, params: Array(params.utf8))
  }

  private func newest(_ upstream: SendbirdUpstream) async throws -> [MessageRecord] {
    try await upstream.messages(in: general, MessageWindow(.newest, older: 50, newer: 0), .open).items
  }

  private func text(_ bytes: [UInt8]?) -> String { String(decoding: bytes ?? [], as: UTF8.self) }

  /// Runs `body` with an upstream that speaks to the server at `base`.
  private func use(
    _ base: String, token: String = "origin", _ body: (SendbirdUpstream) async throws -> Void
  ) async throws {
    let client = HTTPClient()
    defer { client.close() }
    try await body(SendbirdUpstream(.init(base: base, token: token), client: client))
  }

  /// Runs `body` with an upstream at a server that always gives `answer`. Returns the requests that the
  /// server got.
  private func withServer(
    _ answer: RawServer.Answer, _ body: (SendbirdUpstream) async throws -> Void
  ) async throws -> [String] {
    let server = RawServer { _ in answer }
    defer { server.close() }
    try await use("http://127.0.0.1:\(server.port)", body)
    return server.requests.withLock { $0 }
  }

  private func error(_ body: () async throws -> Void) async -> UpstreamError? {
    do { try await body() } catch { return error as? UpstreamError }
    return nil
  }

  @Test("The endpoints: methods, paths and bodies, every segment percent-encoded")
  func endpoints() async throws {
    let url = ChannelURL("a/b")
    let answer = RawServer.ok(#"{"message_id":7,"created_at":1700000000000,"type":"MESG","req_id":"r1"}"#)
    let requests = try await withServer(answer) { upstream in
      let sent = try await upstream.send(message("r1", #"{"type":"user","message":"m"}"#, in: url), .open)
      #expect(sent.messageID == 7 && sent.requestID == "r1")
      let edit = OutgoingEdit(user: alice, kind: .user, params: Array(#"{"message":"n"}"#.utf8))
      _ = try await upstream.edit(message: 7, in: url, edit, .open)
      try await upstream.delete(message: 7, in: url, .open)
      try await upstream.react(to: 7, in: url, as: UserID("a&b"), key: "é&=", isAdded: true, .open)
      try await upstream.react(to: 7, in: url, as: UserID("a&b"), key: "é&=", isAdded: false, .open)
      try await upstream.markAsRead(url, as: alice, .open)
    }
    let messages = "/v3/group_channels/a%2Fb/messages"
    let expected = [
      (
        "POST \(messages)",
        #"{"message_type":"MESG","user_id":"alice","message":"m","dedup_id":"r1","#
          + #""mark_as_read":true}"#
      ),
      ("PUT \(messages)/7", #"{"message_type":"MESG","user_id":"alice","message":"n"}"#),
      ("DELETE \(messages)/7", ""),
      ("POST \(messages)/7/reactions", #"{"user_id":"a&b","reaction":"é&="}"#),
      ("DELETE \(messages)/7/reactions?user_id=a%26b&reaction=%C3%A9%26%3D", ""),
      ("PUT \(messages)/mark_as_read", #"{"user_id":"alice"}"#),
    ]
    #expect(requests.count == expected.count)
    for (request, wanted) in zip(requests, expected) {
      #expect(request.hasPrefix(wanted.0 + " HTTP/1.1\r\n"), "\(request)")
      #expect(request.hasSuffix("\r\n\r\n" + wanted.1), "\(request)")
      #expect(request.contains("Api-Token: origin\r\n"))
    }
  }

  @Test("B39, B40: what an answer to a write means, and that nothing is sent twice for it")
  func outcomes() async throws {
    func outcome(_ answer: RawServer.Answer) async throws -> UpstreamError? {
      var found: UpstreamError?
      let requests = try await withServer(answer) { upstream in
        found = await error { _ = try await upstream.send(message("r1", #"{"type":"user"}"#), .open) }
      }
      #expect(requests.count == 1)
      return found
    }
    func refused(_ status: String, _ body: String, _ headers: String = "") -> RawServer.Answer {
      .text("HTTP/1.1 \(status)\r\nContent-Length: \(body.utf8.count)\r\n\(headers)\r\n\(body)")
    }
    #expect(
      try await outcome(refused("400 Bad", #"{"error":true,"code":900041,"message":"muted"}"#))
        == .rejection(code: 900041, message: "muted"))
    #expect(
      try await outcome(refused("429 Slow", "<html>", "Retry-After: 2\r\n"))
        == .rateLimited(milliseconds: 2_000))
    #expect(
      try await outcome(refused("400 Bad", #"{"error":true,"code":400401,"message":""}"#)) == .unauthorized)
    #expect(try await outcome(refused("403 No", "<html>")) == .unauthorized)
    for unusable in [
      refused("500 E", #"{"error":true,"code":500901,"message":""}"#), refused("502 E", "<html>"),
      RawServer.ok(#"{"message_id":7,"#), RawServer.ok("<html>"), RawServer.ok("{}"), RawServer.ok(""),
    ] {
      switch try await outcome(unusable) {
      case .unusable, .unreadable: continue
      default: Issue.record("\(unusable) leaves no doubt")
      }
    }
    for broken in [
      RawServer.Answer.hangUp, .lastText("HTTP/1.1 200 OK\r\nContent-Length: 90\r\n\r\n{\"message_id\":7"),
      .lastText("HTTP/1.1 2"),
    ] {
      guard case .unreachable(_, mayHaveArrived: true) = try await outcome(broken) else {
        Issue.record("\(broken) does not leave it uncertain")
        continue
      }
    }
  }

  @Test("B39: a write that found nobody has not arrived; one that is refused here is not sent")
  func nothingSent() async throws {
    let server = RawServer { _ in .hangUp }
    server.close()
    try await use("http://127.0.0.1:\(server.port)") { upstream in
      let failure = await error { try await upstream.delete(message: 7, in: general, .open) }
      guard case .unreachable(_, mayHaveArrived: false) = failure else {
        Issue.record("\(String(describing: failure))")
        return
      }
    }
    let requests = try await withServer(.hangUp) { upstream in
      let failure = await error { _ = try await upstream.send(message("r1", "{}"), .open) }
      #expect(failure == .rejection(code: 400111, message: "\"type\" must be user, file or admin."))
    }
    #expect(requests.isEmpty)
  }

  @Test("Against the fake server: a sent message is listed with its request id, edited, and gone")
  func fake() async throws {
    let server = WireServer()
    defer { server.raw.close() }
    server.fake.join(alice, general)
    try await use(server.base) { try await life(on: $0) }
    let isMarked = server.fake.state.withLock { $0.readMarks[general]?[alice] != nil }
    #expect(isMarked)
  }

  @Test("Against the stand-in: a sent message is listed with its request id, edited, and gone")
  func standIn() async throws {
    let origin = try await origin()
    defer { origin.stop() }
    try await use(origin.base) { try await life(on: $0) }
  }

  /// The behaviour in which both servers must agree.
  private func life(on upstream: SendbirdUpstream) async throws {
    let params = #"{"type":"user","message":"hello"}"#
    let sent = try await upstream.send(message("r1", params), .open)
    #expect(sent.requestID == "r1" && sent.sender == "alice" && text(sent.body).contains(#""hello""#))
    let again = try await upstream.send(message("r1", params), .open)
    #expect(again.messageID == sent.messageID, "the request id is the idempotency key")
    var listed = try await newest(upstream)
    #expect(listed.map(\.messageID) == [sent.messageID] && listed[0].requestID == "r1")
    #expect(listed[0].sender == "alice")
    let edit = OutgoingEdit(user: alice, kind: .user, params: Array(#"{"message":"changed"}"#.utf8))
    let edited = try await upstream.edit(message: sent.messageID, in: general, edit, .open)
    #expect(edited.updatedAt > 0 && text(edited.body).contains(#""changed""#))
    listed = try await newest(upstream)
    #expect(text(listed[0].body).contains(#""changed""#))
    func react(_ isAdded: Bool) async -> UpstreamError? {
      await error {
        try await upstream.react(
          to: sent.messageID, in: general, as: alice, key: "👍", isAdded: isAdded, .open)
      }
    }
    #expect(await react(true) == nil)
    guard case .rejection(code: 400202, _) = await react(true) else {
      Issue.record("a second reaction is not rejected")
      return
    }
    #expect(await react(false) == nil)
    #expect(await react(false)?.isNotFound == true)
    try await upstream.markAsRead(general, as: alice, .open)
    try await upstream.delete(message: sent.messageID, in: general, .open)
    let gone = await error { try await upstream.delete(message: sent.messageID, in: general, .open) }
    #expect(gone?.isNotFound == true)
    #expect(try await newest(upstream).isEmpty)
  }

  /// A stand-in with alice in `general`.
  private func origin() async throws -> OriginServer {
    let origin = try OriginServer(OriginServer.Configuration())
    try origin.start()
    let client = HTTPClient()
    defer { client.close() }
    for (path, body) in [
      ("users", #"{"user_id":"alice"}"#), ("users", #"{"user_id":"bob"}"#),
      ("group_channels", #"{"channel_url":"general","user_ids":["alice","bob"]}"#),
    ] {
      let answer = try await client.send(
        HTTPRequest(
          .post, "\(origin.base)/v3/\(path)", headers: ["Api-Token: origin"], body: .json(Array(body.utf8))))
      #expect(answer.status == 200)
    }
    return origin
  }

  @Test("Against the stand-in: every field of every type comes back as it was sent")
  func types() async throws {
    let origin = try await origin()
    defer { origin.stop() }
    try await use(origin.base) { upstream in
      let parent = try await upstream.send(
        message("r1", #"{"type":"user","message":"\"q\" \\ \n é","data":"d","custom_type":"c"}"#), .open)
      #expect(text(parent.body).contains(#""message":"\"q\" \\ \n é","data":"d","custom_type":"c""#))
      let reply = try await upstream.send(
        message(
          "r2",
          #"{"type":"user","message":"m","parent_message_id":"\#(parent.messageID)","is_silent":true,"#
            + #""is_reply_to_channel":true,"mention_type":"users","mentioned_user_ids":["bob"],"#
            + #""metaarray":[{"key":"k","value":["v"]}]}"#), .open)
      #expect(reply.parentID == parent.messageID && reply.isSilent && reply.isReplyToChannel)
      #expect(reply.mentions == .users(["bob"]))
      #expect(text(reply.metaarray) == #"[{"key":"k","value":["v"]}]"#)
      let file = try await upstream.send(
        message(
          "r3",
          #"{"type":"file","file_url":"http://x/a.png","file_name":"a.png","file_mime":"image/png","#
            + #""file_size":9}"#), .open)
      #expect(file.kind == .file)
      #expect(
        text(file.body).contains(
          #""file":{"url":"http://x/a.png","name":"a.png","mime":"image/png","size":9,"thumbnails":[]}"#))
      let admin = try await upstream.send(message("r4", #"{"type":"admin","message":"m"}"#), .open)
      #expect(admin.kind == .admin && admin.sender.isEmpty && admin.requestID == "r4")
      let listed = try await newest(upstream)
      #expect(listed.map(\.requestID) == ["r1", "r2", "r3", "r4"])
      #expect(listed.map(\.body) == [parent, reply, file, admin].map(\.body))
    }
  }
}
