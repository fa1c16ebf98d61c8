import ChatCache
import ChatModel
import TestSupport
import Testing

@testable import ChatAPI

/// Edits, deletions, reactions and read marks over HTTP (B46, B67).
@Suite(.timeLimit(.minutes(5))) struct ChangeTests {
  private static let path = "/v1/channels/general/messages"

  private func edit(
    _ world: CollectionWorld, _ ref: String, _ body: String = #"{"message":"better"}"#,
    as user: String = "alice", _ extra: [String: String] = [:]
  ) -> Answer {
    world.ask(Self.path + "/" + ref, as: user, method: "PATCH", body: body, extra: extra)
  }

  private func delete(
    _ world: CollectionWorld, _ ref: String, as user: String = "alice", _ extra: [String: String] = [:]
  ) -> Answer {
    world.ask(Self.path + "/" + ref, as: user, method: "DELETE", extra: extra)
  }

  @Test("B46: a page tells what is pending now, to its author alone, however often it is asked for")
  func editedInPages() throws {
    let world = try CollectionWorld.forSending()
    defer { world.stop() }
    let long = String(repeating: "x", count: 4_900)
    for (name, text) in [("e", "better"), ("f", "best"), ("g", long)] {
      #expect(edit(world, "3", #"{"message":"\#(text)","request_id":"\#(name)"}"#).status == 202)
      for _ in 0..<2 {
        let page = world.ask(Self.path + "?limit=100").body
        let wanted = #""pending_edit":{"request_id":"\#(name)","changes":{"message":"\#(text)""#
        #expect(page.contains(wanted) && page.matches(of: /pending_edit/).count == 1)
        #expect(!world.ask(Self.path + "?limit=100", as: "bob").body.contains("pending_edit"))
      }
    }
    for name in ["g", "f", "e"] { #expect(world.ask("/v1/outbox/\(name)", method: "DELETE").status == 204) }
    for _ in 0..<2 { #expect(!world.ask(Self.path + "?limit=100").body.contains("pending_edit")) }
  }

  @Test("B46: an edit stands beside the message as it was confirmed, for its author alone")
  func edited() throws {
    let world = try CollectionWorld.forSending()
    defer { world.stop() }
    let answer = edit(world, "3", #"{"message":"better","request_id":"e"}"#)
    #expect(answer.status == 202 && answer.text("message") == "hello 3")
    #expect(answer.text("pending_edit", "request_id") == "e")
    #expect(answer.text("pending_edit", "changes", "message") == "better")
    #expect(try world.rows().map(\.kind) == [.edit] && world.told == 1)
    #expect(!world.ask(Self.path + "/3", as: "bob").body.contains("pending_edit"))
    let again = edit(world, "3", #"{"request_id":"e","message":"better"}"#)
    #expect(again.status == 202 && again["Idempotency-Replayed"] == "true")
    #expect(edit(world, "3", #"{"message":"worse","request_id":"e"}"#).text("code") == "idempotency_mismatch")
    #expect(
      edit(world, "2", #"{"message":"better","request_id":"e"}"#).text("code") == "idempotency_mismatch")
    #expect(try world.rows().count == 1)
    try world.refuse("e", code: "400301")
    let refused = edit(world, "3", #"{"message":"better","request_id":"e"}"#)
    #expect(refused.status == 422 && refused.text("code") == "upstream_rejected")
  }

  @Test("B67: only the sender edits, only the sender and operators delete, and nothing is stored otherwise")
  func rights() throws {
    let (world, headers) = try CollectionWorld.withToken()
    defer { world.stop() }
    func edit(_ ref: String) -> Answer {
      ask(
        world.server, Self.path + "/" + ref, method: "PATCH", headers: headers, body: #"{"message":"better"}"#
      )
    }
    func delete(_ ref: String) -> Answer {
      ask(world.server, Self.path + "/" + ref, method: "DELETE", headers: headers)
    }
    let foreign = edit("1")
    #expect(foreign.status == 403 && foreign.text("reason") == "not_sender")
    let deletion = delete("1")
    #expect(deletion.status == 403 && deletion.text("reason") == "not_operator")
    for answer in [edit("99"), delete("99"), edit("request_id:none"), edit("x")] {
      #expect(answer.status == 404 && answer.text("code") == "message_not_found")
    }
    #expect(try world.rows().isEmpty && world.told == 0)
  }

  @Test("a confirmed message that is not cached is fetched before it is a 404")
  func fetched() throws {
    let world = try CollectionWorld.forSending()
    defer { world.stop() }
    world.syncRequests.tell { script in
      script.onFetch = { [cache = world.cache] wanted in
        guard case .message(7) = wanted.stretch else { return .stored }
        let row = CollectionWorld.message(7, at: 70)
        do { _ = try cache.write { try $0.store(row, in: ChannelURL("general"), .apiResult) } } catch {
          return .late
        }
        return .stored
      }
    }
    #expect(world.ask(Self.path + "/7/reactions/smile", method: "PUT").status == 202)
    #expect(world.ask(Self.path + "/8/reactions/smile", method: "PUT").status == 404)
    #expect(try world.rows().map(\.target) == [7])
    for (fetched, code) in [
      (SyncOutcome.failed(.failed(reason: "html")), "upstream_failed"), (.late, "upstream_failed"),
      (.failed(.unreachable(.unreachable, retryAfter: 1_000)), "upstream_unreachable"),
    ] {
      world.syncRequests.tell { script in script.onFetch = { _ in fetched } }
      let answer = world.ask(Self.path + "/9/reactions/smile", method: "PUT")
      #expect(
        answer.status == 503 && answer.text("code") == code, "only the upstream knows that there is none")
    }
  }

  @Test("If-Match: what was changed since it was read is not edited or deleted (412)")
  func conditional() throws {
    let world = try CollectionWorld.forSending()
    defer { world.stop() }
    let old = try #require(world.ask(Self.path + "/3")["ETag"])
    try world.put(4, from: "bob")
    let late = edit(world, "3", ["If-Match": old])
    #expect(late.status == 412 && late.text("code") == "precondition_failed")
    #expect(delete(world, "3", ["If-Match": old]).status == 412)
    #expect(try world.rows().isEmpty)
    let tag = try #require(world.ask(Self.path + "/3")["ETag"])
    #expect(edit(world, "3", ["If-Match": "\"x\", \(tag)"]).status == 202)
    #expect(delete(world, "3", ["If-Match": "*"]).status == 202)
    _ = world.send("r")
    let unsent = try #require(world.ask(Self.path + "/request_id:r")["ETag"])
    #expect(edit(world, "request_id:r", ["If-Match": unsent]).status == 202)
    #expect(edit(world, "request_id:r", ["If-Match": unsent]).status == 412)
  }

  private func edit(
    _ world: CollectionWorld, _ ref: String, _ extra: [String: String]
  ) -> Answer { edit(world, ref, #"{"message":"better"}"#, as: "alice", extra) }

  @Test("B37: an edit that went into an unsent message is answered again when that message was sent")
  func editRepeated() throws {
    let world = try CollectionWorld.forSending()
    defer { world.stop() }
    _ = world.send("r")
    let name = ["Idempotency-Key": "e"]
    #expect(edit(world, "request_id:r", name).status == 202)
    try world.put(7, from: "alice", answering: "r")
    #expect(try world.rows().isEmpty)
    let again = edit(world, "request_id:r", name)
    #expect(again.status == 202 && again.text("message_id") == "7")
    #expect(again["Idempotency-Replayed"] == "true")
  }

  @Test("B46: an unsent message is edited where it waits; one that is under way is followed by the edit")
  func unsentEdited() throws {
    let world = try CollectionWorld.forSending()
    defer { world.stop() }
    _ = world.send("r")
    let answer = edit(world, "request_id:r", #"{"message":"better","mentioned_user_ids":["bob"]}"#)
    #expect(answer.status == 202 && answer.text("message") == "better")
    #expect(answer.body.contains(#""mentioned_users":[{"user_id":"bob""#), "it is drawn anew")
    #expect(try world.rows().map(\.kind) == [.message])
    try world.dispatch("r")
    let later = edit(world, "request_id:r", #"{"message":"best","request_id":"e"}"#)
    #expect(later.status == 202 && later.text("message") == "better")
    #expect(try world.rows().map(\.kind) == [.message, .edit])
    #expect(world.ask("/v1/outbox/e").text("follows") == "r")
  }

  @Test("B44, B46: deleting deletes what is confirmed, takes back what waits, removes what failed")
  func deleted() throws {
    let world = try CollectionWorld.forSending()
    defer { world.stop() }
    let confirmed = delete(world, "3", ["Idempotency-Key": "d"])
    #expect(confirmed.status == 202 && confirmed.text("pending_delete", "request_id") == "d")
    #expect(confirmed.text("message") == "hello 3")
    _ = world.send("r")
    let pending = delete(world, "request_id:r")
    #expect(pending.status == 202 && pending.text("sending_status") == "canceled")
    let canceled = delete(world, "request_id:r")
    #expect(canceled.status == 204 && canceled.body.isEmpty)
    #expect(delete(world, "request_id:r").status == 404)
    _ = world.send("f")
    try world.refuse("d")
    try world.refuse("f")
    #expect(delete(world, "request_id:f").status == 204)
    #expect(try world.rows().isEmpty)
    _ = world.send("w")
    try world.dispatch("w")
    #expect(delete(world, "request_id:w").text("sending_status") == "canceled")
    #expect(delete(world, "request_id:w").status == 202, "it is still found out what became of it")
    #expect(try world.rows().map(\.isCancelWanted) == [true])
  }

  @Test("B18: a message that its reader changes before it was told is told as added, with the change")
  func changedBeforeTold() throws {
    let world = try CollectionWorld.forSending()
    defer { world.stop() }
    let view = world.post("/v1/message-collections", #"{"channel_url":"general"}"#)
    let path = "/v1/message-collections/\(view.text("id"))"
    let since = world.ask(path).text("cursor")
    try world.send(9, in: "general")
    #expect(world.ask(Self.path + "/9/reactions/smile", method: "PUT").status == 202)
    let told = world.ask("\(path)/events?since=\(since)&wait=0")
    #expect(told.events == ["messages.added 9"] && told.body.contains("smile"), "\(told.body)")
    #expect(world.ask("\(path)/events?since=\(told.text("cursor"))&wait=0").events.isEmpty)
  }

  @Test("reactions are pending beside the message; an unsent message has none (409)")
  func reactions() throws {
    let world = try CollectionWorld.forSending()
    defer { world.stop() }
    let added = world.ask(Self.path + "/1/reactions/%2B1", method: "PUT")
    #expect(added.status == 202 && added.body.contains(#""key":"+1","changes":{"add":true}"#))
    let removed = world.ask(Self.path + "/1/reactions/%2B1", method: "DELETE")
    #expect(removed.status == 202 && removed.body.contains(#""key":"+1","changes":{"add":false}"#))
    #expect(!world.ask(Self.path + "/1", as: "bob").body.contains("pending_reactions"))
    _ = world.send("r")
    for method in ["PUT", "DELETE"] {
      let answer = world.ask(Self.path + "/request_id:r/reactions/smile", method: method)
      #expect(answer.status == 409 && answer.text("code") == "unsent")
    }
    #expect(try world.rows().map(\.kind) == [.reaction, .reaction, .message])
  }

  @Test("marking as read moves the position at once, and is an outbox row of which one waits at most")
  func read() throws {
    let world = try CollectionWorld.forSending()
    defer { world.stop() }
    let answer = world.post("/v1/channels/general/read", "")
    #expect(answer.status == 200 && answer.body.contains(#""unread_message_count":0"#))
    #expect(answer.body.contains(#""my_last_read_at":30"#))
    #expect(world.post("/v1/channels/general/read", "").status == 200)
    #expect(try world.rows().map(\.kind) == [.read])
    #expect(world.post("/v1/channels/none/read", "").status == 404)
  }
}
