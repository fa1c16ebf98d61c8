import ChatCache
import ChatModel
import TestSupport
import Testing

@testable import ChatAPI

/// Sending over HTTP (B36, B37): the answers, the stored rows, and the users who get events.
@Suite(.timeLimit(.minutes(5))) struct SendTests {
  private static let path = "/v1/channels/general/messages"

  @Test(
    "B36: a send is answered with the pending message, where it is, and is in the outbox; who sends is told")
  func accepted() throws {
    let world = try CollectionWorld.forSending()
    defer { world.stop() }
    let answer = world.send("r-1", #","custom_type":"x","mentioned_user_ids":["bob"],"is_silent":true"#)
    #expect(answer.status == 202 && answer.text("sending_status") == "pending")
    #expect(answer["Location"] == Self.path + "/request_id:r-1" && answer["Idempotency-Replayed"] == nil)
    #expect(answer.text("request_id") == "r-1" && answer.text("message_id").isEmpty)
    #expect(answer.text("sender", "user_id") == "alice" && answer.text("params", "custom_type") == "x")
    let rows = try world.rows()
    #expect(rows.map(\.requestID.text) == ["r-1"] && rows.map(\.state) == [.waiting])
    #expect(world.syncRequests.calls.contains(.accepted(UserID("alice"), ChannelURL("general"))))
    let found = world.ask(try #require(answer["Location"]))
    #expect(found.status == 200 && found.text("request_id") == "r-1")
  }

  @Test("B37: a send without a name gets one; the header names it bare or quoted, and agrees with the body")
  func names() throws {
    let world = try CollectionWorld.forSending()
    defer { world.stop() }
    let body = #"{"message":"hi"}"#
    let made = world.post(Self.path, body)
    #expect(made.status == 202 && RequestID(made.text("request_id")) != nil)
    #expect(made.text("request_id") != world.post(Self.path, body).text("request_id"))
    for header in ["k-1", "\"k-2\"", " k-3 "] {
      let answer = world.ask(
        Self.path, method: "POST", body: body, extra: ["Idempotency-Key": header])
      #expect(answer.status == 202)
    }
    let agreeing = world.ask(
      Self.path, method: "POST", body: #"{"message":"hi","request_id":"k-4"}"#,
      extra: ["Idempotency-Key": "\"k-4\""])
    #expect(agreeing.status == 202)
    #expect(try world.rows().map(\.requestID.text).suffix(4) == ["k-1", "k-2", "k-3", "k-4"])
    for header in ["k-5", "\"k", "a b", String(repeating: "k", count: 81)] {
      let answer = world.ask(
        Self.path, method: "POST", body: #"{"message":"hi","request_id":"other"}"#,
        extra: ["Idempotency-Key": header])
      #expect(answer.status == 400 && answer.body.contains("Idempotency-Key"), "\(header)")
    }
    #expect(try world.rows().count == 6)
  }

  @Test("B37: the same again is answered with its present state, in whatever order its fields come")
  func replayed() throws {
    let world = try CollectionWorld.forSending()
    defer { world.stop() }
    let first = world.send("r", #","data":"d","metaarray":[{"key":"k","value":["1"]}]"#)
    #expect(first.status == 202)
    let told = world.told
    let again = world.ask(
      Self.path, method: "POST",
      body: #"{"metaarray":[{"value":["1"],"key":"k"}],"data":"d","type":"user","message":"hi"}"#,
      extra: ["Idempotency-Key": "r"])
    #expect(again.status == 202 && again["Idempotency-Replayed"] == "true" && again.body == first.body)
    let other = world.send("r", #","data":"other""#)
    #expect(other.status == 422 && other.text("code") == "idempotency_mismatch")
    #expect(try world.rows().count == 1 && told >= 1)
    try world.refuse("r")
    let failed = world.send("r", #","data":"d","metaarray":[{"key":"k","value":["1"]}]"#)
    #expect(failed.status == 422 && failed.text("code") == "upstream_rejected")
    #expect(failed["Idempotency-Replayed"] == "true" && failed.body.contains(#""upstream":{"code":900100}"#))
    #expect(failed.text("message", "sending_status") == "failed")
  }

  @Test("B37: what became a message is answered as that message, also when its row is gone")
  func replayedAfterSuccess() throws {
    let world = try CollectionWorld.forSending()
    defer { world.stop() }
    _ = world.send("r")
    try world.put(9, from: "alice", answering: "r")
    #expect(try world.rows().isEmpty)
    let again = world.send("r")
    #expect(again.status == 201 && again.text("message_id") == "9" && again["Idempotency-Replayed"] == "true")
    #expect(try world.rows().isEmpty, "nothing is sent again")
  }

  @Test("B37: what became a message that was deleted since is said to be done, and nothing is sent again")
  func replayedAfterDeletion() throws {
    let world = try CollectionWorld.forSending()
    defer { world.stop() }
    _ = world.send("r")
    try world.put(9, from: "alice", answering: "r")
    try world.delete(9, in: "general")
    let again = world.send("r")
    #expect(
      again.status == 404 && again.text("code") == "message_not_found" && again.text("request_id") == "r")
    #expect(again["Idempotency-Replayed"] == "true" && again.text("detail").contains("do not repeat it"))
    #expect(try world.rows().isEmpty)
    let other = world.send("p", #","parent_message_id":"77""#)
    #expect(other.status == 404 && other["Idempotency-Replayed"] == nil, "that was never done")
  }

  @Test(
    "B37, B58: what was under way when all was cleared by force, and arrived, is answered as that message")
  func replayedAfterClearing() throws {
    let world = try CollectionWorld.forSending()
    defer { world.stop() }
    for name in ["r", "lost"] { #expect(world.send(name).status == 202) }
    try world.cache.write { try $0.clearAll(withUnsent: true) }
    try world.join("alice", "general")
    #expect(world.send("r").text("code") == "message_not_found")
    try world.put(9, from: "alice", answering: "r")
    let again = world.send("r")
    #expect(again.status == 201 && again.text("message_id") == "9" && again["Idempotency-Replayed"] == "true")
    #expect(world.send("lost").text("code") == "message_not_found")
    #expect(try world.rows().isEmpty, "nothing is sent again")
  }

  @Test("Prefer: wait holds the answer until the message is sent, is refused, or the time is over")
  func waiting() throws {
    let world = try CollectionWorld.forSending()
    defer { world.stop() }
    func held(_ name: String, as user: String) -> HeldAsk {
      world.held(
        Self.path,
        headers: ["Perch-User": user, "Content-Type": "application/json", "Prefer": "wait=20"],
        method: "POST", body: #"{"message":"hi","request_id":"\#(name)"}"#)
    }
    let sent = held("s", as: "alice")
    #expect(world.syncRequests.wait { $0 == .accepted(UserID("alice"), ChannelURL("general")) })
    try world.put(8, from: "bob")
    try world.put(9, from: "alice", answering: "s")
    let success = sent.answer()
    #expect(success.status == 201 && success.text("message_id") == "9")
    #expect(success["Preference-Applied"] == "wait=20" && success.text("request_id") == "s")
    let refused = held("f", as: "bob")
    #expect(world.syncRequests.wait { $0 == .accepted(UserID("bob"), ChannelURL("general")) })
    try world.refuse("f", of: "bob")
    let failure = refused.answer()
    #expect(failure.status == 422 && failure.text("code") == "upstream_rejected")
    #expect(failure.text("message", "request_id") == "f" && failure.text("request_id") == "f")
    let late = world.ask(
      Self.path, method: "POST", body: #"{"message":"hi","request_id":"l"}"#, extra: ["Prefer": "wait=1"])
    #expect(late.status == 202 && late["Preference-Applied"] == "wait=1")
    #expect(world.collections.subscriptions.count == 0, "no slot to wait in is left behind")
  }

  @Test(
    "B37, B58: who waits for a send while all is cleared is told its request id, and not to send it again",
    arguments: [false, true])
  func clearedWhileWaiting(isSent: Bool) throws {
    let world = try CollectionWorld.forSending()
    defer { world.stop() }
    let held = world.held(
      Self.path,
      headers: ["Perch-User": "alice", "Content-Type": "application/json", "Prefer": "wait=20"],
      method: "POST", body: #"{"message":"hi"}"#)
    #expect(world.syncRequests.wait { $0 == .accepted(UserID("alice"), ChannelURL("general")) })
    let name = try #require(try world.rows().first).requestID.text
    try world.cache.write { writer in
      if isSent { try CollectionWorld.put(9, from: "alice", answering: name, writer) }
      try writer.clearAll(withUnsent: true)
    }
    let answer = held.answer()
    #expect(answer.text("request_id") == name, "\(answer.body)")
    #expect(answer.status == 404 && answer.text("code") == "message_not_found")
    #expect(answer.text("detail").contains("do not repeat it"))
    #expect(world.collections.subscriptions.count == 0)
  }

  @Test("a reply needs a message that was sent: 409 to an unsent one, 404 where there is none")
  func replies() throws {
    let world = try CollectionWorld.forSending()
    defer { world.stop() }
    let reply = world.send("r-1", #","parent_message_id":"1","is_reply_to_channel":true"#)
    #expect(reply.status == 202 && reply.text("parent_message_id") == "1")
    let toUnsent = world.send("r-2", #","parent_message_id":"request_id:r-1""#)
    #expect(toUnsent.status == 409 && toUnsent.text("code") == "unsent")
    let toNothing = world.send("r-3", #","parent_message_id":"99""#)
    #expect(toNothing.status == 404 && toNothing.text("code") == "message_not_found")
    #expect(try world.rows().map(\.requestID.text) == ["r-1"])
    try world.put(9, from: "alice", answering: "r-1")
    let toSent = world.send("r-4", #","parent_message_id":"request_id:r-1""#)
    #expect(toSent.status == 202 && toSent.text("parent_message_id") == "9")
    #expect(toSent.text("params", "parent_message_id") == "9")
  }

  @Test("B67: who may not send is told why, and nothing is stored")
  func rights() throws {
    let (world, headers) = try CollectionWorld.withToken()
    defer { world.stop() }
    func send(_ url: String, _ body: String) -> Answer {
      ask(world.server, "/v1/channels/\(url)/messages", method: "POST", headers: headers, body: body)
    }
    let admin = send("general", #"{"message":"hi","type":"admin"}"#)
    #expect(
      admin.status == 403 && admin.text("code") == "not_allowed" && admin.text("reason") == "admin_only")
    let elsewhere = send("none", #"{"message":"hi"}"#)
    #expect(elsewhere.status == 404 && elsewhere.text("code") == "channel_not_found")
    #expect(try world.rows().isEmpty && world.told == 0)
  }
}
