import SQLite
import Testing

@testable import Origin

@Suite struct FaultTests {
  private func set(_ wire: Wire, _ fault: String) throws {
    _ = try wire.call("PUT", "/_faults", #"{"seed":7,"faults":[{\#(fault),"count":1}]}"#)
  }

  @Test(
    "cut_upload cuts a form after so many bytes, and nothing is stored; the next one is whole",
    arguments: [5, 20, 1000])
  func cutUpload(bytes: Int) throws {
    let wire = try Wire()
    _ = try wire.call(
      "PUT", "/_faults",
      #"{"faults":[{"kind":"cut_upload","path":"/v3/storage/file","bytes":\#(bytes),"count":1}]}"#)
    let parts: [(String, String?, String?, String)] = [("file", "a.txt", "text/plain", "0123456789")]
    #expect(wire.upload("/v3/storage/file", parts) == nil)
    let sent = try #require(wire.upload("/v3/storage/file", parts))
    let url = try #require(Value(stored: sent.body)["url"]?.string)
    let path = try #require(url.firstRange(of: "/files/")).lowerBound
    #expect(wire.exchange("GET", String(url[path...]))?.body == "0123456789")
    #expect(
      try wire.origin.store.read { db, _ in try db.first("SELECT count(*) FROM upload") { $0.int(0) } } == 1)
  }

  @Test("dark: the request is taken and not answered; the next one is")
  func dark() throws {
    let wire = try Wire()
    try set(wire, #""kind":"dark""#)
    #expect(wire.exchange("GET", "/v3/users", seconds: 1) == nil)
    #expect(wire.exchange("GET", "/v3/users")?.status == 200)
  }

  @Test("refuse: the connection is cut before anything is done")
  func refuse() throws {
    let wire = try Wire()
    try set(wire, #""kind":"refuse""#)
    let body = #"{"message_type":"MESG","user_id":"alice","message":"lost"}"#
    #expect(wire.exchange("POST", "/v3/group_channels/general/messages", body) == nil)
    #expect(try wire.get("/v3/group_channels/general/messages/total_count")["total"] == .integer(0))
  }

  @Test("delay: the answer comes, and not before its time")
  func delay() throws {
    let wire = try Wire()
    try set(wire, #""kind":"delay","milliseconds":300"#)
    let clock = ContinuousClock()
    let began = clock.now
    #expect(wire.exchange("GET", "/v3/users")?.status == 200)
    #expect(clock.now - began >= .milliseconds(300))
  }

  @Test("status: 503, and 429 with its code and Retry-After")
  func statuses() throws {
    let wire = try Wire()
    try set(wire, #""kind":"status","status":503"#)
    #expect(wire.exchange("GET", "/v3/users")?.status == 503)
    try set(wire, #""kind":"status","status":429,"retry_after":3"#)
    let limited = try #require(wire.exchange("GET", "/v3/users"))
    #expect(limited.status == 429)
    #expect(limited.head.contains("Retry-After: 3"))
    #expect(limited.body.contains("500910"))
  }

  @Test("html: a page of HTML with 502")
  func html() throws {
    let wire = try Wire()
    try set(wire, #""kind":"html""#)
    let answer = try #require(wire.exchange("GET", "/v3/users"))
    #expect(answer.status == 502 && answer.body.hasPrefix("<html>"))
    #expect(answer.head.contains("text/html"))
  }

  @Test("lose_reply: the work is done and the answer never comes")
  func loseReply() throws {
    let wire = try Wire()
    try set(wire, #""kind":"lose_reply""#)
    let body = #"{"message_type":"MESG","user_id":"alice","message":"done"}"#
    #expect(wire.exchange("POST", "/v3/group_channels/general/messages", body, seconds: 1) == nil)
    #expect(try wire.get("/v3/group_channels/general/messages/total_count")["total"] == .integer(1))
  }

  @Test("cut_page: a list has half of what was asked for, and goes on from there")
  func cutPage() throws {
    let wire = try Wire()
    let ids = try (0..<10).map { try wire.send("general", "m\($0)") }
    let path = "/v3/group_channels/general/messages?message_ts=0&prev_limit=0&next_limit=8"
    try set(wire, #""kind":"cut_page""#)
    #expect(
      try wire.get(path)["messages"]?.items.compactMap { $0["message_id"]?.integer } == Array(ids[..<4]))
    #expect(try wire.get(path)["messages"]?.items.count == 8)
    try set(wire, #""kind":"cut_page""#)
    let users = try wire.get("/v3/users?limit=4")
    #expect(users["users"]?.items.count == 2)
    let next = try #require(users["next"]?.string)
    #expect(try wire.get("/v3/users?limit=4&token=\(next)")["users"]?.items.count == 2)
  }

  @Test("cut_body: the JSON of an answer ends in the middle")
  func cutBody() throws {
    let wire = try Wire()
    let whole = try #require(wire.exchange("GET", "/v3/users"))
    try set(wire, #""kind":"cut_body""#)
    let cut = try #require(wire.exchange("GET", "/v3/users"))
    #expect(cut.status == 200 && cut.body.utf8.count == whole.body.utf8.count / 2)
    #expect(whole.body.hasPrefix(cut.body))
  }

  @Test("deny_changelogs and forget_tokens hit changelogs alone")
  func changelogs() throws {
    let wire = try Wire()
    let path = "/v3/group_channels/general/messages/changelogs"
    try set(wire, #""kind":"deny_changelogs""#)
    #expect(wire.exchange("GET", "/v3/users")?.status == 200)
    #expect(wire.exchange("GET", path + "?change_ts=0")?.status == 403)
    try set(wire, #""kind":"forget_tokens""#)
    #expect(wire.exchange("GET", path + "?change_ts=0")?.status == 200)
    #expect(try wire.get(path + "?token=1")["code"] == .integer(400109))
    #expect(wire.exchange("GET", path + "?token=1")?.status == 200)
    try set(wire, #""kind":"forget_tokens""#)
    #expect(
      try wire.get("/v3/users/alice/my_group_channels/changelogs?token=1")["code"] == .integer(400109))
  }

  @Test("a fault hits only the paths of its pattern, as often as it says")
  func patterns() throws {
    #expect(Fault.matches("*", "/v3/users"))
    #expect(Fault.matches("/v3/*/messages", "/v3/group_channels/a/messages"))
    #expect(!Fault.matches("/v3/*/messages", "/v3/group_channels/a/messages/1"))
    #expect(!Fault.matches("/v3/users", "/v3/users/alice"))
    let wire = try Wire()
    _ = try wire.call(
      "PUT", "/_faults",
      #"{"faults":[{"kind":"status","status":500,"path":"/v3/users/*","count":2}]}"#)
    let statuses = (0..<4).map { _ in wire.exchange("GET", "/v3/users/alice")?.status }
    #expect(statuses == [500, 500, 200, 200])
    #expect(wire.exchange("GET", "/v3/users")?.status == 200)
  }

  @Test("a probability strikes its share, the same requests for the same seed")
  func probability() throws {
    let wire = try Wire()
    func strikes(_ seed: Int) throws -> [Bool] {
      _ = try wire.call(
        "PUT", "/_faults", #"{"seed":\#(seed),"faults":[{"kind":"status","probability":0.3}]}"#)
      return (0..<200).map { _ in wire.exchange("GET", "/v3/users/alice")?.status == 500 }
    }
    let first = try strikes(5)
    #expect((30...90).contains(first.count { $0 }))
    #expect(try strikes(5) == first)
    #expect(try strikes(6) != first)
  }

  @Test("the desk shows what is set, refuses what it does not know, and forgets on DELETE")
  func desk() throws {
    let wire = try Wire()
    let wanted = #"{"faults":[{"count":5,"kind":"dark","path":"/v3/x"}]}"#
    #expect(wire.exchange("PUT", "/_faults", wanted)?.body == wanted)
    #expect(wire.exchange("GET", "/_faults")?.body == wanted)
    #expect(try wire.call("PUT", "/_faults", #"{"faults":[{"kind":"fire"}]}"#)["code"] == .integer(400111))
    #expect(wire.exchange("GET", "/_faults")?.body == wanted)
    _ = try wire.call("DELETE", "/_faults")
    #expect(wire.exchange("GET", "/_faults")?.body == #"{"faults":[]}"#)
  }

  @Test("rate limits: headers count down, the next is a 429 that says when, and the window passes")
  func rateLimits() throws {
    let wire = try Wire()
    _ = try wire.call(
      "PUT", "/_faults",
      #"{"rate_limits":[{"path":"/v3/*/messages","method":"POST","requests":2,"seconds":1}]}"#)
    let path = "/v3/group_channels/general/messages"
    let body = #"{"message_type":"MESG","user_id":"alice","message":"hi"}"#
    let answers = try (0..<3).map { _ in try #require(wire.exchange("POST", path, body)) }
    #expect(answers.map(\.status) == [200, 200, 429])
    #expect(answers.map { $0.header("X-RateLimit-Limit") } == ["2;w=1", "2;w=1", "2;w=1"])
    #expect(answers.map { $0.header("X-RateLimit-Remaining") } == ["1", "0", "0"])
    #expect(answers[2].header("X-RateLimit-RetryAfter") == "1" && answers[2].header("Retry-After") == "1")
    #expect(try #require(answers[2].header("X-RateLimit-Reset").flatMap { Int64($0) }) > 1_500_000_000)
    #expect(Value(stored: answers[2].body)["code"] == .integer(500910))
    #expect(wire.exchange("GET", path + "?message_ts=0")?.header("X-RateLimit-Limit") == nil)
    let isOpen = { wire.exchange("POST", path, body)?.status == 200 }
    let deadline = ContinuousClock.now + .seconds(10)
    while !isOpen(), ContinuousClock.now < deadline {}
    #expect(ContinuousClock.now < deadline)
  }

  @Test("cut off, every request finds its connection cut, until the network is back")
  func cutOff() throws {
    let wire = try Wire()
    wire.origin.isCutOff = true
    #expect(wire.exchange("GET", "/v3/users") == nil)
    wire.origin.isCutOff = false
    #expect(wire.exchange("GET", "/v3/users")?.status == 200)
  }
}
