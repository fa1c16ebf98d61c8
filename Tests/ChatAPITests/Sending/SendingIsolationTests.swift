import ChatCache
import ChatModel
import Testing

@testable import ChatAPI

/// Alice's unsent rows are hidden from other users: their text, their names and their number (B1, B46).
@Suite(.timeLimit(.minutes(5))) struct SendingIsolationTests {
  private static let secret = "zqxj"
  private static let messages = "/v1/channels/general/messages"

  /// A world in which alice has a pending, a failed and a canceled message, an edit, a deletion, a reaction
  /// and a read mark.
  private func world() throws -> CollectionWorld {
    let world = try CollectionWorld.forSending()
    try world.put(4, from: "alice")
    #expect(world.send("\(Self.secret)-failed").status == 202)
    try world.refuse("\(Self.secret)-failed")
    for name in ["pending", "canceled"] {
      #expect(world.send("\(Self.secret)-\(name)", #","data":"\#(Self.secret)""#).status == 202)
    }
    #expect(world.ask("\(Self.messages)/request_id:\(Self.secret)-canceled", method: "DELETE").status == 202)
    let changes: [(String, String, String)] = [
      ("PATCH", "\(Self.messages)/3", #"{"message":"\#(Self.secret)"}"#),
      ("DELETE", "\(Self.messages)/4", ""),
      ("PUT", "\(Self.messages)/1/reactions/\(Self.secret)", ""),
      ("POST", "/v1/channels/general/read", "{}"),
    ]
    for (method, path, body) in changes {
      let key = "\(Self.secret)-\(method)-\(path.count)"
      let answer = world.ask(path, method: method, body: body, extra: ["Idempotency-Key": key])
      #expect(answer.status == 202 || answer.status == 200, "\(method) \(path): \(answer.body)")
    }
    return world
  }

  @Test("B1: no reading operation tells bob of what alice has unsent")
  func reading() throws {
    let world = try world()
    defer { world.stop() }
    let open = world.post("/v1/message-collections", #"{"channel_url":"general"}"#, as: "bob")
    let list = world.post("/v1/channel-collections", "{}", as: "bob")
    let view = "/v1/message-collections/\(open.text("id"))"
    let names = ["pending", "failed", "canceled"].map { "request_id:\(Self.secret)-\($0)" }
    var answers = [("the opening", open), ("the list", list)]
    for path in [
      "\(Self.messages)?limit=100", "\(Self.messages)/1?include_reactions=true", "\(Self.messages)/3",
      "\(Self.messages)/4", view, "\(view)/events?since=\(open.text("cursor"))&wait=0",
      "/v1/events?since=\(open.text("cursor"))&wait=0", "/v1/outbox", "/v1/outbox?status=failed",
      "/v1/connection", "/v1/unread", "/v1/cache", "/v1/channels", "/v1/channels/general",
    ] {
      answers.append((path, world.ask(path, as: "bob")))
    }
    for (name, answer) in answers {
      #expect(answer.status < 300, "\(name): \(answer.body)")
      #expect(!answer.body.contains(Self.secret), "\(name): \(answer.body)")
      #expect(!answer.body.contains("pending_"), "\(name): \(answer.body)")
    }
    for name in names {
      let answer = world.ask("\(Self.messages)/\(name)", as: "bob")
      #expect(answer.status == 404 && answer.text("code") == "message_not_found")
    }
    #expect(world.ask("/v1/outbox", as: "bob").body.contains(#""items":[]"#))
    let counts = world.ask("/v1/connection", as: "bob").body
    #expect(!counts.contains(#""pending":1"#) && !counts.contains(#""failed":1"#), "\(counts)")
    #expect(world.ask("/v1/outbox").body.contains(Self.secret), "alice has them")
  }

  @Test("B1 B37: no writing operation of bob reaches what alice has unsent, and her names are free for him")
  func writing() throws {
    let world = try world()
    defer { world.stop() }
    let before = try world.rows()
    for status in ["pending", "failed", "canceled"] {
      let name = "\(Self.secret)-\(status)"
      let made = "\(name)-made-up"
      for (method, path, body) in [
        ("GET", "/v1/outbox/NAME", ""), ("DELETE", "/v1/outbox/NAME", ""),
        ("POST", "/v1/outbox/NAME/resend", ""),
        ("DELETE", "\(Self.messages)/request_id:NAME", ""),
        ("POST", "\(Self.messages)/request_id:NAME/resend", ""),
        ("PATCH", "\(Self.messages)/request_id:NAME", #"{"message":"bob's"}"#),
        ("PUT", "\(Self.messages)/request_id:NAME/reactions/x", ""),
      ] {
        let (hers, nobodys) = (path.replaced("NAME", name), path.replaced("NAME", made))
        let found = world.ask(hers, as: "bob", method: method, body: body)
        let missing = world.ask(nobodys, as: "bob", method: method, body: body)
        #expect(found.status == missing.status && found.status == 404, "\(method) \(hers): \(found.body)")
        #expect(found.text("code") == missing.text("code"))
      }
    }
    #expect(world.ask("\(Self.messages)/resend", as: "bob", method: "POST").body.contains(#""resent":0"#))
    #expect(world.ask("\(Self.messages)?status=failed", as: "bob", method: "DELETE").status == 200)
    #expect(try world.rows() == before)
    #expect(world.send("\(Self.secret)-pending", as: "bob").status == 202, "ids are unique per user only")
    #expect(try world.rows() == before)
    #expect(try world.rows(of: "bob").count == 1)
  }

  @Test("B1 B37: a deleted message is named by its request id to its sender alone: bob may use the same one")
  func deleted() throws {
    let world = try CollectionWorld.forSending()
    defer { world.stop() }
    #expect(world.send("one-name").status == 202)
    try world.dispatch("one-name")
    try world.put(5, from: "alice", answering: "one-name")
    #expect(world.send("one-name", as: "bob").status == 202)
    let paths = ["alice", "bob"].map { user in
      let view = world.post("/v1/message-collections", #"{"channel_url":"general"}"#, as: user)
      return (user, "/v1/message-collections/\(view.text("id"))/events", view.text("cursor"))
    }
    try world.delete(5, in: "general")
    for (user, path, cursor) in paths {
      let ref = user == "alice" ? #"{"message_id":"5","request_id":"one-name"}"# : #"{"message_id":"5"}"#
      for feed in [path, "/v1/events"] {
        let answer = world.ask("\(feed)?since=\(cursor)&wait=0", as: user)
        #expect(answer.body.contains(#""message_refs":[\#(ref)]"#), "\(user): \(answer.body)")
      }
    }
  }

  @Test(
    "B49: an answer of a user without unsent rows is not given to one who has some, nor the other way round",
    arguments: [["alice", "bob"], ["bob", "alice"]])
  func sharing(order: [String]) throws {
    let world = try world()
    defer { world.stop() }
    let views = order.map { user in
      (user, world.post("/v1/message-collections", #"{"channel_url":"general"}"#, as: user).text("id"))
    }
    let cursors = views.map { user, id in
      world.ask("/v1/message-collections/\(id)", as: user).text("cursor")
    }
    try world.send(3, in: "general", text: "edited by an operator", updatedAt: 99)
    for ((user, id), cursor) in zip(views, cursors) {
      let answer = world.ask("/v1/message-collections/\(id)/events?since=\(cursor)&wait=0", as: user)
      #expect(answer.events == ["messages.updated 3"], "\(user): \(answer.body)")
      #expect(answer.body.contains("pending_edit") == (user == "alice"), "\(user): \(answer.body)")
      #expect(answer.body.contains(Self.secret) == (user == "alice"))
    }
  }
}

extension String {
  fileprivate func replaced(_ name: String, _ other: String) -> String {
    split(separator: name, omittingEmptySubsequences: false).joined(separator: other)
  }
}
