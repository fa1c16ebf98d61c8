import ChatCache
import ChatModel
import TestSupport
import Testing

@testable import ChatAPI

/// `/v1/outbox`, and failed messages of a channel: listed, sent again, removed (B44, B69).
@Suite(.timeLimit(.minutes(5))) struct OutboxTests {
  private static let path = "/v1/channels/general/messages"

  private func names(_ answer: Answer) -> [String] {
    answer.body.matches(of: #/"request_id":"([^"]*)","channel_url":"[^"]*","kind"/#).map { String($0.1) }
  }

  @Test("the outbox lists messages and changes in the order they were accepted, in pages and by their status")
  func listed() throws {
    let world = try CollectionWorld.forSending()
    defer { world.stop() }
    for name in ["a", "b", "c"] { _ = world.send(name) }
    _ = world.ask(
      Self.path + "/3", method: "PATCH", body: #"{"message":"better","request_id":"e"}"#)
    try world.refuse("a")
    let all = world.ask("/v1/outbox")
    #expect(all.status == 200 && names(all) == ["a", "b", "c", "e"])
    #expect(all.body.contains(#""message_id":"3","changes":{"message":"better"}"#))
    let first = world.ask("/v1/outbox?limit=3")
    #expect(names(first) == ["a", "b", "c"] && first["Link"]?.contains("rel=\"next\"") == true)
    #expect(names(world.ask("/v1/outbox?limit=3&after=\(first.text("next"))")) == ["e"])
    #expect(names(world.ask("/v1/outbox?status=failed")) == ["a"])
    #expect(names(world.ask("/v1/outbox?status=pending&channel_url=general")) == ["b", "c", "e"])
    #expect(names(world.ask("/v1/outbox?channel_url=none")).isEmpty)
    let failed = world.ask("/v1/outbox/a")
    #expect(failed.text("error", "code") == "900100" && failed.text("state") == "failed")
    #expect(world.ask("/v1/outbox/c").text("blocked_by") == "b")
    #expect(world.ask("/v1/outbox/b").body.contains(#""blocked_by":null"#))
    #expect(world.ask("/v1/outbox/none").text("code") == "unsent_not_found")
  }

  @Test("B42: what is held behind a failed message says by which")
  func held() throws {
    let world = try CollectionWorld.forSending()
    defer { world.stop() }
    _ = world.send("a", #","block_on_failure":true"#)
    _ = world.send("b")
    try world.refuse("a")
    let row = world.ask("/v1/outbox/b")
    #expect(row.text("state") == "held" && row.text("blocked_by") == "a")
    #expect(row.body.contains(#""next_try_at":null"#))
  }

  @Test("B44: one failed message is sent again, or all in their order; nothing else is (409)")
  func resent() throws {
    let world = try CollectionWorld.forSending()
    defer { world.stop() }
    for name in ["a", "b", "c"] {
      _ = world.send(name)
      try world.refuse(name)
    }
    _ = world.send("d")
    let told = world.told
    let one = world.post(Self.path + "/request_id:b/resend", "")
    #expect(one.status == 202 && one.text("sending_status") == "pending" && one.text("request_id") == "b")
    #expect(world.told == told + 1)
    for ref in ["request_id:b", "request_id:d", "3"] {
      let answer = world.post(Self.path + "/\(ref)/resend", "")
      #expect(answer.status == 409 && answer.text("code") == "not_resendable", "\(ref)")
    }
    #expect(world.post(Self.path + "/request_id:none/resend", "").status == 404)
    let all = world.post(Self.path + "/resend", "")
    #expect(all.status == 202 && all.body == #"{"resent":2}"#)
    #expect(try world.rows().map(\.requestID.text) == ["d", "b", "a", "c"])
    #expect(world.post("/v1/outbox/a/resend", "").text("code") == "not_resendable")
    #expect(world.post("/v1/outbox/none/resend", "").text("code") == "unsent_not_found")
    _ = world.ask("/v1/outbox/a", method: "DELETE")
    let again = world.post("/v1/outbox/a/resend", "")
    #expect(again.status == 202 && again.text("status") == "pending")
  }

  @Test("B44: the failed messages of a channel are removed together, and others stay")
  func removed() throws {
    let world = try CollectionWorld.forSending()
    defer { world.stop() }
    for name in ["a", "b"] {
      _ = world.send(name)
      try world.refuse(name)
    }
    _ = world.send("c")
    let answer = world.ask(Self.path + "?status=failed", method: "DELETE")
    #expect(answer.status == 200 && answer.body == #"{"request_ids":["a","b"]}"#)
    #expect(try world.rows().map(\.requestID.text) == ["c"])
    #expect(world.ask(Self.path + "?status=failed", method: "DELETE").body == #"{"request_ids":[]}"#)
  }

  @Test("from the outbox a message is taken back (202) or removed (204), a change is removed while it waits")
  func taken() throws {
    let world = try CollectionWorld.forSending()
    defer { world.stop() }
    _ = world.send("a")
    let canceled = world.ask("/v1/outbox/a", method: "DELETE")
    #expect(canceled.status == 202 && canceled.text("status") == "canceled")
    #expect(world.ask("/v1/outbox/a", method: "DELETE").status == 204)
    #expect(world.ask("/v1/outbox/a", method: "DELETE").status == 404)
    for name in ["e", "f"] {
      _ = world.ask(
        Self.path + "/3", method: "PATCH", body: #"{"message":"better","request_id":"\#(name)"}"#)
    }
    #expect(world.ask("/v1/outbox/f", method: "DELETE").status == 204)
    #expect(world.ask(Self.path + "/3").text("pending_edit", "request_id") == "e")
    try world.dispatch("e")
    let busy = world.ask("/v1/outbox/e", method: "DELETE")
    #expect(busy.status == 409 && busy.text("code") == "under_way")
    #expect(try world.rows().map(\.requestID.text) == ["e"])
  }

  @Test("B69: what is unsent in a channel that was lost is reached from the outbox, and cannot be sent again")
  func lost() throws {
    let world = try CollectionWorld.forSending()
    defer { world.stop() }
    _ = world.send("a")
    let laneKey = try world.laneKey()
    try world.leave("alice", "general")
    try world.cache.write { try $0.failOutbox(in: laneKey) }
    #expect(world.ask(Self.path + "/request_id:a").status == 404)
    let row = world.ask("/v1/outbox/a")
    #expect(row.status == 200 && row.text("error", "code") == "900020")
    #expect(world.post("/v1/outbox/a/resend", "").text("code") == "channel_not_found")
    #expect(names(world.ask("/v1/outbox")) == ["a"])
    #expect(world.ask("/v1/outbox/a", method: "DELETE").status == 204)
  }

  @Test("nobody sees, changes, sends or removes what another has unsent")
  func isolation() throws {
    let world = try CollectionWorld.forSending()
    defer { world.stop() }
    _ = world.send("secret-1", #","data":"alices-own""#)
    _ = world.send("secret-2")
    try world.refuse("secret-2")
    _ = world.ask(Self.path + "/3", method: "PATCH", body: #"{"message":"alices-edit"}"#)
    let before = try world.rows()
    let asked: [(String, String, String)] = [
      ("GET", "/v1/outbox", ""), ("GET", "/v1/outbox/secret-1", ""), ("DELETE", "/v1/outbox/secret-1", ""),
      ("POST", "/v1/outbox/secret-2/resend", ""), ("GET", Self.path + "/request_id:secret-1", ""),
      ("PATCH", Self.path + "/request_id:secret-1", #"{"message":"x"}"#),
      ("DELETE", Self.path + "/request_id:secret-2", ""),
      ("POST", Self.path + "/request_id:secret-2/resend", ""), ("POST", Self.path + "/resend", ""),
      ("DELETE", Self.path + "?status=failed", ""), ("GET", Self.path, ""), ("GET", Self.path + "/3", ""),
      ("POST", Self.path, #"{"message":"x","parent_message_id":"request_id:secret-1"}"#),
      ("PUT", Self.path + "/request_id:secret-1/reactions/x", ""), ("GET", "/v1/connection", ""),
    ]
    for (method, path, body) in asked {
      let answer = world.ask(path, as: "bob", method: method, body: body)
      let made = world.ask(
        path.replacing("secret-1", with: "nobodys-1").replacing("secret-2", with: "nobodys-2"), as: "bob",
        method: method, body: body.replacing("secret-1", with: "nobodys-1"))
      #expect(answer.status == made.status && answer.text("code") == made.text("code"), "\(method) \(path)")
      #expect(!answer.body.contains("alices-") && !answer.body.contains("secret-"), "\(method) \(path)")
    }
    #expect(try world.rows() == before)
    let own = world.send("secret-1", as: "bob")
    #expect(own.status == 202 && own["Idempotency-Replayed"] == nil, "request ids are each user's own")
    #expect(names(world.ask("/v1/outbox", as: "bob")) == ["secret-1"])
  }
}
