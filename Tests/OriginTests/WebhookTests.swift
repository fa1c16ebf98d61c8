import Testing

@testable import Origin

@Suite struct WebhookTests {
  private static let messages = "/v3/group_channels/general/messages"

  /// A server with a webhook receiver, after the two webhooks of the server's own creation.
  private func told(failures: Int = 0) throws -> (Wire, WebhookReceiver, Int) {
    let receiver = try WebhookReceiver(failures: failures)
    let wire = try Wire(webhookURL: receiver.url)
    let made = receiver.deliveries(failures + 1).count
    return (wire, receiver, made)
  }

  private func fault(_ wire: Wire, _ fault: String) throws {
    _ = try wire.call(
      "PUT", "/_faults", #"{"faults":[{\#(fault),"path":"\#(WebhookTests.messages)","count":1}]}"#)
  }

  @Test("what happens is told in order, signed over the raw body")
  func delivered() throws {
    let (wire, receiver, made) = try told()
    let id = try wire.send("general", "שלום 👋")
    let path = "\(WebhookTests.messages)/\(id)"
    _ = try wire.call("PUT", path, #"{"message_type":"MESG","message":"bye"}"#)
    _ = try wire.call("POST", "\(path)/reactions", #"{"user_id":"bob","reaction":"like"}"#)
    _ = try wire.call("DELETE", "\(path)/reactions?user_id=bob&reaction=like")
    _ = try wire.call("DELETE", path)
    _ = try wire.call("PUT", WebhookTests.messages + "/mark_as_read", #"{"user_id":"bob"}"#)
    _ = try wire.call("PUT", "/v3/group_channels/general", #"{"name":"all"}"#)
    _ = try wire.call("PUT", "/v3/group_channels/general/freeze", #"{"freeze":true}"#)
    _ = try wire.call("POST", "/v3/group_channels/general/invite", #"{"user_ids":["carol"]}"#)
    _ = try wire.call("PUT", "/v3/group_channels/general/leave", #"{"user_ids":["carol"]}"#)
    _ = try wire.call("DELETE", "/v3/group_channels/general")
    let came = receiver.deliveries(made + 12)
    #expect(
      came.map { $0.category.split(separator: ":").last.map(String.init) ?? "" } == [
        "create", "message_send", "message_update", "reaction_add", "reaction_delete", "message_delete",
        "message_read", "changed", "freeze_unfreeze", "invite", "join", "leave", "remove",
      ])
    for delivery in came { #expect(delivery.signature == Webhooks.signature(delivery.body, key: "origin")) }
    let sent = Value(stored: came[1].body)
    #expect(sent["channel"]?["channel_url"] == .string("general"))
    #expect(
      sent["payload"]?["message_id"] == .integer(id) && sent["payload"]?["message"] == .string("שלום 👋"))
    #expect(sent["sender"]?["user_id"] == .string("alice") && sent["type"] == .string("MESG"))
    let changed = Value(stored: came[7].body)["changes"]?.items.first
    #expect(changed?["key"] == .string("name") && changed?["new"] == .string("all"))
    #expect(Value(stored: came[9].body)["invitees"]?.items.first?["user_id"] == .string("carol"))
  }

  @Test("one that is not taken comes up to three times, and the next one after it")
  func retried() throws {
    let (wire, receiver, made) = try told(failures: 2)
    #expect(made == 3)
    _ = try wire.send("general", "after")
    let came = receiver.deliveries(4)
    #expect(came.map(\.category).prefix(3).allSatisfy { $0 == "group_channel:create" })
    #expect(Set(came.prefix(3).map(\.body)).count == 1 && came.last?.text == "after")
  }

  @Test("one that is not taken does not hold up those of other channels")
  func others() throws {
    let receiver = try WebhookReceiver(refused: "stuck")
    let wire = try Wire(webhookURL: receiver.url)
    let made = receiver.deliveries(1).count
    _ = try wire.send("general", "stuck")
    for index in 0..<10 {
      _ = try wire.call("POST", "/v3/group_channels", #"{"channel_url":"c\#(index)","user_ids":["bob"]}"#)
    }
    let came = receiver.deliveries(made + 13).dropFirst(made)
    let tries = came.indices.filter { came[$0].text == "stuck" }
    #expect(tries.count == 3 && came.count == 13)
    #expect((tries.last ?? 0) - (tries.first ?? 0) > 4, "others come between its tries")
  }

  @Test("after three tries one is given up")
  func givenUp() throws {
    let receiver = try WebhookReceiver(failures: 3)
    let wire = try Wire(webhookURL: receiver.url)
    _ = try wire.send("general", "next")
    let came = receiver.deliveries(4)
    #expect(came.count == 4 && came.last?.text == "next")
  }

  @Test("drop_webhook: one does not come, the next does")
  func dropped() throws {
    let (wire, receiver, made) = try told()
    try fault(wire, #""kind":"drop_webhook""#)
    _ = try wire.send("general", "unheard")
    _ = try wire.send("general", "heard")
    #expect(receiver.deliveries(made + 1).dropFirst(made).map(\.text) == ["heard"])
  }

  @Test("duplicate_webhook: one comes twice")
  func duplicated() throws {
    let (wire, receiver, made) = try told()
    try fault(wire, #""kind":"duplicate_webhook""#)
    _ = try wire.send("general", "echo")
    _ = try wire.send("general", "once")
    #expect(receiver.deliveries(made + 3).dropFirst(made).map(\.text) == ["echo", "echo", "once"])
  }

  @Test("shuffle_webhook: one comes after its successor, or when its time is over")
  func shuffled() throws {
    let (wire, receiver, made) = try told()
    try fault(wire, #""kind":"shuffle_webhook","milliseconds":60000"#)
    for text in ["first", "second", "third"] { _ = try wire.send("general", text) }
    #expect(receiver.deliveries(made + 3).dropFirst(made).map(\.text) == ["second", "first", "third"])
    try fault(wire, #""kind":"shuffle_webhook","milliseconds":50"#)
    _ = try wire.send("general", "alone")
    #expect(receiver.deliveries(made + 4).last?.text == "alone")
  }

  @Test("cut off, nothing is told")
  func cutOff() throws {
    let (wire, receiver, made) = try told()
    wire.origin.isCutOff = true
    let said = Value.object(["user_id": .string("bob"), "message": .string("unheard")])
    _ = try wire.origin.run(
      Arguments(path: ["channel_url": "general"], query: [:], body: said, parts: []), path: "inside",
      base: "",
      .write(Messages.send))
    wire.origin.isCutOff = false
    _ = try wire.send("general", "back")
    #expect(receiver.deliveries(made + 1).dropFirst(made).map(\.text) == ["back"])
  }

  @Test("the signature is HMAC-SHA256 in lower-case hex (RFC 4231, case 2)")
  func signature() {
    #expect(
      Webhooks.signature("what do ya want for nothing?", key: "Jefe")
        == "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843")
  }
}
