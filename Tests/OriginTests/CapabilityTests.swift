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
