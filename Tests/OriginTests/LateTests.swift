import Testing

@testable import Origin

/// The fault `late`: the server does the work, but later.
@Suite struct LateTests {
  private static let messages = "/v3/group_channels/general/messages"

  /// A server with a webhook receiver, which has got the webhook of the channel's creation.
  private func told() throws -> (Wire, WebhookReceiver) {
    let receiver = try WebhookReceiver()
    let wire = try Wire(webhookURL: receiver.url)
    #expect(receiver.deliveries(1).count == 1)
    return (wire, receiver)
  }

  private func set(_ wire: Wire, milliseconds: Int, _ more: String = "") throws {
    _ = try wire.call(
      "PUT", "/_faults",
      #"{"faults":[{"kind":"late","path":"/v3/*","milliseconds":\#(milliseconds),"count":1\#(more)}]}"#)
  }

  private func body(_ text: String, by user: String = "alice") -> String {
    #"{"message_type":"MESG","user_id":"\#(user)","message":"\#(text)","dedup_id":"\#(text)"}"#
  }

  private func total(_ wire: Wire) throws -> Int64? {
    try wire.get(LateTests.messages + "/total_count")["total"]?.integer
  }

  @Test("with cut the connection ends at once, and the message is there later")
  func cut() throws {
    let (wire, receiver) = try told()
    try set(wire, milliseconds: 1_500, #","cut":true"#)
    #expect(wire.exchange("POST", LateTests.messages, body("late")) == nil)
    #expect(try total(wire) == 0)
    #expect(receiver.deliveries(2).last?.text == "late")
    #expect(try total(wire) == 1)
  }

  @Test("a client that gave up finds the message there later")
  func gaveUp() throws {
    let (wire, receiver) = try told()
    try set(wire, milliseconds: 2_500)
    #expect(wire.exchange("POST", LateTests.messages, body("late"), seconds: 1) == nil)
    #expect(try total(wire) == 0)
    #expect(receiver.deliveries(2).last?.text == "late")
    #expect(try total(wire) == 1)
  }

  @Test("a client that waits has its answer, or its refusal, when the work is done")
  func waits() throws {
    let wire = try Wire()
    let clock = ContinuousClock()
    let began = clock.now
    try set(wire, milliseconds: 300)
    let sent = try #require(wire.exchange("POST", LateTests.messages, body("late")))
    #expect(sent.status == 200 && Value(stored: sent.body)["message"] == .string("late"))
    #expect(clock.now - began >= .milliseconds(300))
    try set(wire, milliseconds: 50)
    let refused = try #require(wire.exchange("POST", LateTests.messages, body("no", by: "dave")))
    #expect(refused.status == 400 && Value(stored: refused.body)["code"] == .integer(900020))
    try set(wire, milliseconds: 50)
    let other = wire.exchange("POST", LateTests.messages, body("no"), token: "Api-Token: other")
    #expect(Value(stored: try #require(other).body)["code"] == .integer(400401))
    #expect(try total(wire) == 1)
  }

  @Test("what was repeated meanwhile is one message with deduplication, and two without")
  func repeated() throws {
    let (wire, receiver) = try told()
    for (text, mode, count) in [("a", "first", 1), ("b", "off", 3)] {
      func setLate(_ isCut: Bool) throws {
        let fault = #"{"kind":"late","milliseconds":1500,"count":1,"cut":\#(isCut)}"#
        _ = try wire.call(
          "PUT", "/_faults", #"{"faults":[\#(fault)],"capabilities":{"dedup":"\#(mode)"}}"#)
      }
      try setLate(true)
      #expect(wire.exchange("POST", LateTests.messages, body(text)) == nil)
      let again = try #require(try wire.call("POST", LateTests.messages, body(text))["message_id"]?.integer)
      // Late work is done in the order of its times: a message is behind the first.
      try setLate(false)
      let after = #"{"user_id":"bob","reaction":"like"}"#
      #expect(wire.exchange("POST", LateTests.messages + "/\(again)/reactions", after)?.status == 200)
      #expect(try total(wire) == Int64(count))
    }
    #expect(receiver.deliveries(6).map(\.text).filter { !$0.isEmpty } == ["a", "b", "b"])
  }

  @Test("a file that comes late is whole, though its request is over; what was carried out is counted")
  func file() throws {
    let (wire, receiver) = try told()
    try set(wire, milliseconds: 1_500, #","cut":true"#)
    let form = [
      ("message_type", nil, nil, "FILE"), ("user_id", nil, nil, "alice"), ("dedup_id", nil, nil, "d"),
      ("file", "a.txt", "text/plain", "hello"),
    ]
    #expect(wire.upload(LateTests.messages, form) == nil)
    #expect(try wire.get("/_files")["files"]?.items.isEmpty == true)
    #expect(receiver.deliveries(2).count == 2)
    let sent = try #require(wire.upload(LateTests.messages, form))
    let url = try #require(Value(stored: sent.body)["file"]?["url"]?.string)
    let name = try #require(url.split(separator: "/").last)
    #expect(wire.exchange("GET", "/files/\(name)")?.body == "hello")
    #expect(wire.upload("/v3/storage/file", [("file", "b.txt", "text/plain", "x")])?.status == 200)
    let counted =
      #"{"files":[{"name":"a.txt","uploads":0,"sends":2,"late":1},"#
      + #"{"name":"b.txt","uploads":1,"sends":0,"late":0}]}"#
    #expect(wire.exchange("GET", "/_files")?.body == counted)
  }

  @Test("what only reads is not late")
  func others() throws {
    let wire = try Wire()
    try set(wire, milliseconds: 600_000)
    #expect(wire.exchange("GET", "/v3/users")?.status == 200)
    #expect(wire.exchange("POST", LateTests.messages, body("late"), seconds: 1) == nil)
  }

  @Test("the end of the server does not wait for late work")
  func end() throws {
    let wire = try Wire()
    try set(wire, milliseconds: 600_000, #","cut":true"#)
    #expect(wire.exchange("POST", LateTests.messages, body("never")) == nil)
    let clock = ContinuousClock()
    let began = clock.now
    wire.origin.stop()
    #expect(clock.now - began < .seconds(60))
  }
}
