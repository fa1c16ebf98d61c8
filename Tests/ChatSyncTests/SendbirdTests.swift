import ChatCache
import ChatModel
import Platform
import Testing

@testable import ChatSync

@Suite(.timeLimit(.minutes(5)))
struct SendbirdTests {
  private let general = ChannelURL("general/1")

  /// Uses an adapter against a server with one answer. Also returns the request that the server got.
  private func ask<Result>(
    status: String = "200 OK", headers: String = "", _ body: String,
    _ use: (SendbirdUpstream) async throws -> Result
  ) async throws -> (Result, String) {
    let server = RawServer { _ in
      .text("HTTP/1.1 \(status)\r\nContent-Length: \(body.utf8.count)\r\n\(headers)\r\n\(body)")
    }
    let client = HTTPClient()
    defer {
      client.close()
      server.close()
    }
    let configuration = SendbirdUpstream.Configuration(
      base: "http://127.0.0.1:\(server.port)/v3/", token: "secret")
    let result = try await use(SendbirdUpstream(configuration, client: client))
    return (result, server.requests.withLock { $0.joined() })
  }

  private func failure(status: String = "200 OK", headers: String = "", _ body: String) async
    -> UpstreamError?
  {
    do {
      _ = try await ask(status: status, headers: headers, body) {
        try await $0.channel(general, as: nil, .foreground)
      }
      return nil
    } catch { return error as? UpstreamError }
  }

  @Test("B13: a message is asked for whole and becomes the API's message, ids as texts")
  func message() async throws {
    let json = """
      {"messages":[{"message_id":77,"type":"FILE","user":{"user_id":"bob","nickname":"Bob","profile_url":"p"},
      "file":{"url":"u","name":"n","type":"image/png","size":9},"thumbnails":[],"custom_type":"x","data":"",
      "message":"","created_at":1700000000123,"updated_at":0,"req_id":"r1","mention_type":"users",
      "mentioned_users":[{"user_id":"al"}],"parent_message_id":70,"is_reply_to_channel":true,
      "parent_message_info":{"type":"MESG","message":"hi","user":{"user_id":"al"},"ts":1700000000000},
      "reactions":[{"key":"k","user_ids":["al"],"updated_at":1}],"sorted_metaarray":[{"key":"a","value":["b"]}],
      "thread_info":{"reply_count":2,"most_replies":[],"last_replied_at":5,"updated_at":6},"silent":true}]}
      """
    let window = MessageWindow(.newest, older: 100, newer: 0)
    let (page, request) = try await ask(json) { try await $0.messages(in: general, window, .background) }
    #expect(
      request.hasPrefix(
        "GET /v3/group_channels/general%2F1/messages?message_ts=9007199254740991&prev_limit=100"))
    for part in ["include_reply_type=ALL", "with_sorted_meta_array=true", "Api-Token: secret"] {
      #expect(request.contains(part))
    }
    let message = try #require(page.items.first)
    #expect(message.messageID == 77 && message.createdAt == 1_700_000_000_123 && message.kind == .file)
    #expect(message.sender == "bob" && message.customType == "x" && message.requestID == "r1")
    #expect(message.parentID == 70 && message.parentAt == 1_700_000_000_000)
    #expect(message.isSilent && message.isReplyToChannel && message.mentions == .users(["al"]))
    let body = String(decoding: message.body, as: UTF8.self)
    #expect(body.hasPrefix(#""message_id":"77","request_id":"r1","position":"#))
    #expect(body.contains(#""file":{"url":"u","name":"n","mime":"image/png","size":9,"thumbnails":[]}"#))
    #expect(body.contains(#""sender":{"user_id":"bob","nickname":"Bob","profile_url":"p"}"#))
    #expect(body.contains(#""parent_message_id":"70""#))
    #expect(
      String(decoding: message.reactions ?? [], as: UTF8.self)
        == #"[{"key":"k","user_ids":["al"],"updated_at":1}]"#)
    #expect(String(decoding: message.threadInfo ?? [], as: UTF8.self).hasPrefix(#"{"reply_count":2"#))
    #expect(
      String(decoding: message.parent ?? [], as: UTF8.self).hasPrefix(#"{"message_id":"70","type":"user""#))
  }

  @Test("B13: several files stay several; a poll and an application's own payload are kept as they are")
  func parts() async throws {
    let json = """
      {"messages":[{"message_id":78,"type":"FILE","created_at":1700000000124,"files":[
      {"url":"u1","name":"n1","type":"image/png","size":9,"thumbnails":[{"url":"t"}]},
      {"url":"u2","name":"n2","type":"text/plain","size":10}],
      "poll":{"id":7,"title":"when","options":[{"id":1,"vote_count":2}]},
      "extended_message_payload":{"card":{"rows":[1,2]}}}]}
      """
    let window = MessageWindow(.newest, older: 100, newer: 0)
    let (page, _) = try await ask(json) { try await $0.messages(in: general, window, .background) }
    let body = String(decoding: try #require(page.items.first).body, as: UTF8.self)
    #expect(
      body.contains(
        #""files":[{"url":"u1","name":"n1","mime":"image/png","size":9,"thumbnails":[{"url":"t"}]},"#
          + #"{"url":"u2","name":"n2","mime":"text/plain","size":10,"thumbnails":[]}]"#), "\(body)")
    #expect(body.contains(#""poll":{"id":7,"title":"when","options":[{"id":1,"vote_count":2}]}"#))
    #expect(body.contains(#""extended_payload":{"card":{"rows":[1,2]}}"#))
  }

  @Test("B35: an item that cannot be read is left out and counted, the others stay")
  func isolation() async throws {
    let json = """
      {"messages":[{"message_id":"12","type":"MESG","created_at":1700000000},{"type":"MESG"},7,
      {"message_id":13,"type":"WHAT","created_at":1,"x":{"y":1}}]}
      """
    let (page, _) = try await ask(json) {
      try await $0.messages(in: general, MessageWindow(.time(0), older: 0, newer: 9), .background)
    }
    #expect(page.items.map(\.messageID) == [12, 13])
    #expect(page.items[1].kind == .other, "a type that is not known is kept")
    #expect(
      String(decoding: page.items[1].body, as: UTF8.self).contains(#""raw":{"message_id":13,"type":"WHAT""#))
    #expect(page.items[0].createdAt == 1_700_000_000_000, "seconds become milliseconds")
    #expect(page.unreadable == 2 && page.breaks == [1] && page.isEndRead)
  }

  @Test("B1: a message that names another channel is not stored in the channel that was asked for")
  func foreignMessage() async throws {
    let json = """
      {"messages":[{"message_id":12,"type":"MESG","created_at":1,"channel_url":"general/1"},
      {"message_id":13,"type":"MESG","created_at":2,"channel_url":"secret"},
      {"message_id":14,"type":"MESG","created_at":3}]}
      """
    let (page, _) = try await ask(json) {
      try await $0.messages(in: general, MessageWindow(.time(0), older: 0, newer: 9), .background)
    }
    #expect(page.items.map(\.messageID) == [12, 14])
    #expect(page.unreadable == 1 && page.breaks == [1], "nothing is said of what lies between the two")
  }

  @Test("B11: a channel says only what its answer carried")
  func channel() async throws {
    let json = """
      {"channels":[{"channel_url":"a","name":"A","created_at":1500000000,"freeze":true,"member_count":2,
      "joined_member_count":1,"unread_message_count":3,"unread_mention_count":1,"member_state":"joined",
      "my_role":"operator","hidden_state":"hidden_prevent_auto_unhide","is_muted":"false","user_last_read":9,
      "ts_message_offset":1600000000000,"read_receipt":{"bob":1600000000005},"last_message":null,
      "members":[{"user_id":"bob","nickname":"B","state":"invited","role":""}],"metadata":{"k":"v"}},
      {"channel_url":"b","member_state":"invited","inviter":{"user_id":"bob"},"invited_at":5}],"next":"N","ts":99}
      """
    let (page, request) = try await ask(json) {
      try await $0.channels(of: UserID("al ice"), order: .creation, limit: 100, after: "t=/", .background)
    }
    #expect(
      request.contains(
        "GET /v3/users/al%20ice/my_group_channels?order=chronological&limit=100&hidden_mode=all"))
    #expect(request.contains("token=t%3D%2F"))
    #expect(page.next == "N" && page.items.count == 2)
    let (a, b) = (page.items[0], page.items[1])
    #expect(
      a.createdAt == 1_500_000_000_000 && a.isFrozen == true && a.lastMessage == .none
        && a.readReceipts?.positions == ["bob": 1_600_000_000_005]
    )
    #expect(a.members?.first?.state == .invited && a.metadata == ["k": "v"])
    let mine = try #require(a.membership)
    #expect(
      mine.state == .joined && mine.isOperator == true && mine.isMuted == false && mine.unread == 3
        && mine.mentions == 1)
    #expect(mine.hiddenState == "hidden_prevent_auto_unhide" && mine.floorAt == 1_600_000_000_000)
    #expect(b.lastMessage == .absent && b.members == nil && b.metadata == nil && b.readReceipts == nil)
    #expect(b.membership?.state == .invited && b.membership?.inviter != nil)
    #expect(
      b.name == nil && b.memberCount == nil && !b.isWhole && b.body == Array(#""channel_url":"b""#.utf8))
    #expect(b.membership?.unread == nil && b.membership?.hiddenState == nil && b.membership?.floorAt == nil)
  }

  @Test(
    "B1: an id stays one segment of the path, whatever it holds",
    arguments: [
      ("a/b", "a%2Fb"), ("a?b#c", "a%3Fb%23c"), ("%2E%2E", "%252E%252E"), ("...", "..."), (".a", ".a"),
      ("a/../b", "a%2F..%2Fb"), ("\u{1}\n\0", "%01%0A%00"), ("\u{212A}", "%E2%84%AA"),
      ("a;b&c=d", "a%3Bb%26c%3Dd"),
    ])
  func segments(id: String, path: String) async throws {
    let (_, request) = try await ask(#"{"channel_url":"x","user_id":"x","is_member":true}"#) { upstream in
      _ = try await upstream.user(UserID(id), .open)
      _ = try await upstream.channel(ChannelURL(id), as: nil, .open)
      _ = try await upstream.isMember(UserID(id), of: ChannelURL(id), .open)
    }
    let targets = request.matches(of: #/GET ([^ ?]+)/#).map { String($0.1) }
    #expect(
      targets == [
        "/v3/users/\(path)", "/v3/group_channels/\(path)", "/v3/group_channels/\(path)/members/\(path)",
      ])
  }

  @Test("B1: an id that a path cannot hold does not exist: nothing is asked", arguments: [".", "..", ""])
  func noSegments(id: String) async throws {
    var refusals: [UpstreamError?] = []
    let (_, request) = try await ask("{}") { upstream in
      let asks: [() async throws -> Void] = [
        { _ = try await upstream.user(UserID(id), .open) },
        { _ = try await upstream.channel(ChannelURL(id), as: UserID("al"), .open) },
        { _ = try await upstream.message(1, in: ChannelURL(id), .open) },
        { _ = try await upstream.channels(of: UserID(id), order: .creation, limit: 1, after: nil, .open) },
      ]
      for ask in asks {
        do { try await ask() } catch { refusals.append(error as? UpstreamError) }
      }
      let isMember = try await upstream.isMember(UserID(id), of: ChannelURL("general"), .open)
      #expect(!isMember)
    }
    #expect(request.isEmpty && refusals.count == 4 && refusals.allSatisfy { $0?.isNotFound == true })
  }

  @Test("B1: curl asks for the path as it was written")
  func pathAsIs() async throws {
    let server = RawServer { _ in RawServer.ok("{}") }
    let client = HTTPClient()
    defer {
      client.close()
      server.close()
    }
    _ = try await client.send(HTTPRequest(.get, "http://127.0.0.1:\(server.port)/v3/a/../b/%2E%2E/./c"))
    #expect(server.requests.withLock { $0.joined() }.hasPrefix("GET /v3/a/../b/%2E%2E/./c HTTP/1.1"))
  }

  @Test("B31: a changelog names its token also at the end, and its deletes in both spellings")
  func changes() async throws {
    let json = """
      {"updated":[],"deleted":[{"message_id":4,"deleted_at":9},5],"has_more":false,"next":"T"}
      """
    let (changes, request) = try await ask(json) {
      try await $0.messageChanges(in: general, since: .token(SyncToken("S")), .background)
    }
    #expect(changes.deleted == [4, 5] && !changes.hasMore && changes.next == SyncToken("T"))
    #expect(request.contains("/messages/changelogs?token=S&"))
  }

  @Test("B35: how long the upstream wants silence is read as seconds, as a moment, and never for ever")
  func retryAfter() {
    let now: Int64 = 784_111_770_000
    func wait(_ retryAfter: String?, rateReset: String? = nil) -> Int64 {
      var headers = HTTPResponse.Headers()
      headers.retryAfter = retryAfter
      headers.rateReset = rateReset
      return Envelope.wait(headers, now: now)
    }
    #expect(wait("7") == 7_000 && wait("0") == 0 && wait("1.5") == 1_500)
    #expect(wait("Sun, 06 Nov 1994 08:49:37 GMT") == 7_000)
    #expect(wait("Sun, 06 Nov 1994 08:49:00 GMT") == 0, "a moment that has passed")
    #expect(wait("Mon, 07 Nov 1994 08:49:37 GMT") == Envelope.longestWait)
    #expect(wait("99999999999999999999") == Envelope.longestWait && wait("inf") == Envelope.longestWait)
    for text in ["soon", "", "-3", "nan", "Sun, 99 Nov 1994 08:49:37 GMT"] {
      #expect(wait(text) == 1_000, "\(text)")
    }
    #expect(wait(nil) == 1_000)
    #expect(wait(nil, rateReset: "784111777") == 7_000 && wait(nil, rateReset: "784111777000") == 7_000)
    #expect(wait(nil, rateReset: "4") == 4_000 && wait("soon", rateReset: "4") == 4_000)
    #expect(wait(nil, rateReset: "1e300") == Envelope.longestWait)
  }

  @Test("B40: a rejection is an envelope; waits, refused keys and noise are something else")
  func envelopes() async {
    #expect(
      await failure(status: "400 Bad Request", #"{"error":true,"code":400201,"message":"no"}"#)
        == .rejection(code: 400201, message: "no"))
    #expect(
      await failure(
        status: "429 Too Many", headers: "Retry-After: 7\r\n", #"{"error":true,"code":500910,"message":""}"#)
        == .rateLimited(milliseconds: 7_000))
    #expect(await failure(status: "400 Bad", #"{"error":true,"code":400401,"message":""}"#) == .unauthorized)
    #expect(await failure(status: "403 Forbidden", "<html>no</html>") == .unauthorized)
    #expect(await failure(status: "401 Unauthorized", #"{"message":"who?"}"#) == .unauthorized)
    #expect(
      await failure(status: "429 Too Many", headers: "Retry-After: 3\r\n", "{}")
        == .rateLimited(milliseconds: 3_000))
    #expect(await failure(status: "202 Accepted", "{}") == .unreadable(reason: "status 202"))
    #expect(await failure(status: "404 Not Found", "<html>") == .unreadable(reason: "status 404"))
    #expect(await failure(status: "502 Bad Gateway", "<html>") == .unusable(reason: "status 502"))
    #expect(
      await failure(status: "500 E", #"{"error":true,"code":500901,"message":""}"#)
        == .unusable(reason: "code 500901"))
    #expect(
      await failure(status: "503 Unavailable", headers: "Retry-After: 90\r\n", "<html>")
        == .unusable(reason: "status 503", retryAfter: 90_000))
    #expect(
      await failure(
        status: "500 E", headers: "Retry-After: 5\r\n", #"{"error":true,"code":500901,"message":""}"#)
        == .unusable(reason: "code 500901", retryAfter: 5_000))
    let cut = await failure(#"{"channel_url":"#)
    guard case .unreadable = cut else {
      Issue.record("\(String(describing: cut))")
      return
    }
  }

  @Test("B34: a webhook is a note of what to ask, and never a row")
  func webhooks() throws {
    func deliver(_ json: String) throws -> [Webhook.Note] {
      try Array(json.utf8).withUnsafeBytes(Webhook.notes)
    }
    let sent = try deliver(
      #"{"category":"group_channel:message_send","channel":{"channel_url":"a"},"payload":{"message_id":5}}"#)
    #expect(sent.map(\.kind) == [.newest] && sent[0].messageID == 5 && sent[0].source == .messageReceived)
    let edited = try deliver(
      #"{"category":"group_channel:message_update","channel":{"channel_url":"a"},"payload":{"message_id":5}}"#
    )
    #expect(edited.map(\.kind) == [.message] && edited[0].messageID == 5)
    let joined = try deliver(
      #"{"category":"group_channel:join","channel":{"channel_url":"a"},"users":[{"user_id":"bob"}]}"#)
    #expect(joined.map(\.kind) == [.channel] && joined[0].users == [UserID("bob")])
    let left = try deliver(
      """
      {"category":"group_channel:leave","channel":{"channel_url":"a"},"users":[{"user_id":"bob"}],
       "members":[{"user_id":"alice"},{"user_id":"carol"}]}
      """)
    #expect(left.map(\.kind) == [.channel] && left[0].users == [UserID("bob")], "not those who stayed")
    #expect(try deliver(#"{"category":"open_channel:enter","channel":{"channel_url":"a"}}"#).isEmpty)
    #expect(try deliver(#"{"category":"group_channel:message_send"}"#).isEmpty)
    for text in ["nonsense", "", "[]", #"["category"]"#, #""group_channel:message_send""#, "7", "null", "{"] {
      #expect(throws: Webhook.Fault(field: nil), "\(text)") { try deliver(text) }
    }
    for text in ["{}", #"{"category":7}"#, #"{"category":null}"#, #"{"Category":"group_channel:create"}"#] {
      #expect(throws: Webhook.Fault(field: "category"), "\(text)") { try deliver(text) }
    }
  }
}
