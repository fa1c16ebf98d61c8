import Testing

@testable import Origin

@Suite struct CapabilityTests {
  private func set(_ wire: Wire, _ capability: String) throws {
    _ = try wire.call("PUT", "/_faults", #"{"capabilities":{\#(capability)}}"#)
  }

  @Test("without changelogs both are a 403, and nothing else is")
  func changelogs() throws {
    let wire = try Wire()
    try set(wire, #""changelogs":false"#)
    for path in ["/v3/group_channels/general/messages", "/v3/users/alice/my_group_channels"] {
      let answer = try #require(wire.exchange("GET", path + "/changelogs?change_ts=0"))
      #expect(answer.status == 403 && answer.body.contains("400108"))
      #expect(wire.exchange("GET", path + "?message_ts=0")?.status == 200)
    }
    _ = try wire.call("DELETE", "/_faults")
    #expect(wire.exchange("GET", "/v3/users/alice/my_group_channels/changelogs?change_ts=0")?.status == 200)
  }

  @Test("without the listing of replies a window has none, whatever it asks for")
  func replies() throws {
    let wire = try Wire()
    let parent = try wire.send("general", "question")
    let reply = try wire.reply(to: parent, "answer")
    let path = "/v3/group_channels/general/messages?message_ts=0&include_reply_type=all"
    func ids() throws -> [Int64] {
      try wire.get(path)["messages"]?.items.compactMap { $0["message_id"]?.integer } ?? []
    }
    #expect(try ids() == [parent, reply])
    try set(wire, #""reply_listing":false"#)
    #expect(try ids() == [parent])
  }

  @Test("the replies to one message are listed alone, from either end, unless that is not offered")
  func thread() throws {
    let wire = try Wire()
    let parent = try wire.send("general", "question")
    let other = try wire.send("general", "another")
    let replies = try (1...5).map { try wire.reply(to: parent, "answer \($0)") }
    _ = try wire.reply(to: other, "elsewhere")
    func ids(_ window: String) throws -> [Int64] {
      let path = "/v3/group_channels/general/messages?parent_message_id=\(parent)&include_reply_type=ALL&"
      return try wire.get(path + window)["messages"]?.items.compactMap { $0["message_id"]?.integer } ?? []
    }
    #expect(try ids("message_ts=9007199254740991&prev_limit=3&next_limit=0") == replies.suffix(3))
    #expect(try ids("message_ts=0&prev_limit=0&next_limit=200") == replies)
    #expect(
      try ids("message_id=\(replies[2])&prev_limit=1&next_limit=1&include=false") == [replies[1], replies[3]])
    try set(wire, #""thread_listing":false"#)
    #expect(try ids("message_ts=0&prev_limit=0&next_limit=200").contains(other))
  }

  @Test("a repeated dedup_id is the first message, an error, or a second message")
  func duplicates() throws {
    let wire = try Wire()
    let path = "/v3/group_channels/general/messages"
    let body = #"{"message_type":"MESG","user_id":"alice","message":"once","dedup_id":"d"}"#
    let first = try wire.call("POST", path, body)["message_id"]
    #expect(try wire.call("POST", path, body)["message_id"] == first)
    try set(wire, #""dedup":"error""#)
    #expect(try wire.call("POST", path, body)["code"] == .integer(400202))
    try set(wire, #""dedup":"off""#)
    let second = try wire.call("POST", path, body)["message_id"]
    #expect(second?.integer != nil && second != first)
    #expect(try wire.get(path + "/total_count")["total"] == .integer(2))
  }

  @Test("a repeated dedup_id of a file and of an admin message is treated alike")
  func duplicatesOfEveryType() throws {
    let wire = try Wire()
    let path = "/v3/group_channels/general/messages"
    for (count, body) in [
      #"{"message_type":"FILE","user_id":"alice","url":"http://x/a.png","dedup_id":"f"}"#,
      #"{"message_type":"ADMM","message":"news","dedup_id":"n"}"#,
    ].enumerated() {
      _ = try wire.call("DELETE", "/_faults")
      let first = try #require(try wire.call("POST", path, body)["message_id"]?.integer)
      #expect(try wire.call("POST", path, body)["message_id"] == .integer(first))
      try set(wire, #""dedup":"error""#)
      #expect(try wire.code("POST", path, body) == 400202)
      #expect(try wire.get(path + "/total_count")["total"] == .integer(Int64(count * 2 + 1)))
      try set(wire, #""dedup":"off""#)
      #expect(try #require(try wire.call("POST", path, body)["message_id"]?.integer) != first)
    }
  }

  @Test("request_ids: nothing that is answered or told says the req_id")
  func requestIDs() throws {
    let receiver = try WebhookReceiver()
    let wire = try Wire(webhookURL: receiver.url)
    let path = "/v3/group_channels/general/messages"
    func answers(_ id: String) throws -> [String] {
      let body = #"{"message_type":"MESG","user_id":"alice","message":"m","dedup_id":"\#(id)"}"#
      let sent = try wire.call("POST", path, body)
      let message = path + "/\(try #require(sent["message_id"]?.integer))"
      return [
        sent.text, try wire.call("POST", path, body).text,
        try wire.call("PUT", message, #"{"message_type":"MESG","message":"n"}"#).text,
        try wire.get(message).text, try wire.get(path + "?message_ts=0&next_limit=200").text,
        try wire.get(path + "/changelogs?change_ts=0").text,
        try wire.get("/v3/group_channels/general?user_id=alice").text,
        try wire.get("/v3/users/alice/my_group_channels").text,
        try wire.get("/v3/users/alice/my_group_channels/changelogs?change_ts=0").text,
      ]
    }
    for answer in try answers("shown") { #expect(answer.contains(#""req_id":"shown""#), "\(answer)") }
    try set(wire, #""request_ids":false"#)
    for answer in try answers("veiled") {
      #expect(answer.contains(#""message_id""#) && !answer.contains("req_id"), "\(answer)")
      #expect(!answer.contains("veiled"), "\(answer)")
    }
    // The creation of the channel, then twice a message and its edit.
    let told = receiver.deliveries(5)
    #expect(told.count == 5)
    for webhook in told { #expect(!webhook.body.contains("veiled"), "\(webhook.body)") }
  }

  @Test("the same dedup_id of another user, or in another channel, is another message")
  func duplicatesAreNarrow() throws {
    let wire = try Wire()
    _ = try wire.call("POST", "/v3/group_channels", #"{"channel_url":"tea","user_ids":["alice","bob"]}"#)
    var ids: Set<Int64> = []
    for (channel, user) in [("general", "alice"), ("general", "bob"), ("tea", "alice")] {
      let sent = try wire.call(
        "POST", "/v3/group_channels/\(channel)/messages",
        #"{"message_type":"MESG","user_id":"\#(user)","message":"hi","dedup_id":"d"}"#)
      ids.insert(try #require(sent["message_id"]?.integer))
    }
    #expect(ids.count == 3)
  }

  @Test("without separate uploads a file comes with its message or not at all")
  func uploads() throws {
    let wire = try Wire()
    try set(wire, #""uploads":false"#)
    #expect(wire.upload("/v3/storage/file", [("file", "a.txt", "text/plain", "hello")])?.status == 403)
    let parts = [
      ("message_type", nil, nil, "FILE"), ("user_id", nil, nil, "alice"),
      ("file", "a.txt", "text/plain", "hello"),
    ]
    #expect(wire.upload("/v3/group_channels/general/messages", parts)?.status == 200)
  }
}
