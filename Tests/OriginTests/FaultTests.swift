import Testing

@testable import Origin

@Suite struct FaultTests {
  private func set(_ wire: Wire, _ fault: String) throws {
    _ = try wire.call("PUT", "/_faults", #"{"seed":7,"faults":[{\#(fault),"count":1}]}"#)
  }

  @Test("dark: the request is taken and not answered; the next one is")
  func dark() throws {
    let wire = try Wire()
    try set(wire, #""kind":"dark""#)
    #expect(wire.exchange("GET", "/v3/users", seconds: 1) == nil)
    #expect(wire.exchange("GET", "/v3/users")?.status == 200)
  }

  @Test("statuses: 503, and 429 with its code and Retry-After")
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

  @Test("refused, HTML garbage, delayed and cut answers")
  func answers() throws {
    let wire = try Wire()
    try set(wire, #""kind":"refuse""#)
    #expect(wire.exchange("GET", "/v3/users") == nil)
    try set(wire, #""kind":"html""#)
    #expect(wire.exchange("GET", "/v3/users")?.body.hasPrefix("<html>") == true)
    try set(wire, #""kind":"delay","milliseconds":1500"#)
    #expect(wire.exchange("GET", "/v3/users", seconds: 1) == nil)
    // The delayed request still goes on, and would take a fault that is set now: another server.
    let other = try Wire()
    try set(other, #""kind":"cut_body""#)
    #expect(other.exchange("GET", "/v3/users")?.body.hasSuffix("}") == false)
  }

  @Test("changelogs: denied, their tokens forgotten, and switched off")
  func changelogs() throws {
    let wire = try Wire()
    let path = "/v3/group_channels/general/messages/changelogs"
    try set(wire, #""kind":"deny_changelogs""#)
    #expect(wire.exchange("GET", path + "?change_ts=0")?.status == 403)
    try set(wire, #""kind":"forget_tokens""#)
    #expect(wire.exchange("GET", path + "?change_ts=0")?.status == 200)
    #expect(try wire.get(path + "?token=1")["code"] == .integer(400109))
    _ = try wire.call("PUT", "/_faults", #"{"capabilities":{"changelogs":false}}"#)
    #expect(wire.exchange("GET", path + "?change_ts=0")?.status == 403)
    _ = try wire.call("DELETE", "/_faults")
    #expect(wire.exchange("GET", path + "?change_ts=0")?.status == 200)
  }

  @Test("a fault hits only the paths of its pattern")
  func patterns() {
    #expect(Fault.matches("*", "/v3/users"))
    #expect(Fault.matches("/v3/*/messages", "/v3/group_channels/a/messages"))
    #expect(!Fault.matches("/v3/*/messages", "/v3/group_channels/a/messages/1"))
    #expect(!Fault.matches("/v3/users", "/v3/users/alice"))
  }

  @Test("the signature is HMAC-SHA256 in lower-case hex (RFC 4231, case 2)")
  func signature() {
    #expect(
      Webhooks.signature("what do ya want for nothing?", key: "Jefe")
        == "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843")
  }
}
