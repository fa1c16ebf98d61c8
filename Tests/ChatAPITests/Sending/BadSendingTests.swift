import ChatCache
import ChatModel
import Testing

@testable import ChatAPI

/// Bad input changes nothing: each field at fault is named (400), and the outbox stays as it was.
@Suite(.timeLimit(.minutes(5))) struct BadSendingTests {
  private static let path = "/v1/channels/general/messages"

  @Test(
    "B48: a field of sendMessage at fault is a 400 that names it, and nothing is stored",
    arguments: [
      ("type", #"{"message":"hi","type":"video"}"#), ("type", #"{"message":"hi","type":1}"#),
      ("message", #"{}"#), ("message", #"{"message":""}"#), ("message", #"{"message":7}"#),
      ("message", #"{"message":null}"#), ("message", #"{"type":"admin"}"#),
      ("data", #"{"message":"hi","data":{}}"#), ("custom_type", #"{"message":"hi","custom_type":[]}"#),
      ("mention_type", #"{"message":"hi","mention_type":"all"}"#),
      ("mentioned_user_ids", #"{"message":"hi","mentioned_user_ids":"bob"}"#),
      ("mentioned_user_ids", #"{"message":"hi","mentioned_user_ids":[1]}"#),
      ("metaarray", #"{"message":"hi","metaarray":{}}"#),
      ("metaarray[0]", #"{"message":"hi","metaarray":["x"]}"#),
      ("metaarray[0].key", #"{"message":"hi","metaarray":[{"value":[]}]}"#),
      ("metaarray[1].value", #"{"message":"hi","metaarray":[{"key":"a"},{"key":"k","value":"v"}]}"#),
      ("metaarray[0].more", #"{"message":"hi","metaarray":[{"key":"k","more":1}]}"#),
      ("parent_message_id", #"{"message":"hi","parent_message_id":1}"#),
      ("parent_message_id", #"{"message":"hi","parent_message_id":"x"}"#),
      ("is_reply_to_channel", #"{"message":"hi","is_reply_to_channel":"yes"}"#),
      ("is_silent", #"{"message":"hi","is_silent":1}"#),
      ("file_url", #"{"type":"file"}"#), ("file_url", #"{"type":"file","file_url":"ftp://x/y"}"#),
      ("file_url", #"{"type":"file","file_url":"http://"}"#),
      ("file_url", #"{"type":"file","file_url":"http://a b"}"#),
      ("file_name", #"{"type":"file","file_url":"http://x/y","file_name":1}"#),
      ("file_mime", #"{"type":"file","file_url":"http://x/y","file_mime":1}"#),
      ("file_size", #"{"type":"file","file_url":"http://x/y","file_size":-1}"#),
      ("file_size", #"{"type":"file","file_url":"http://x/y","file_size":"1"}"#),
      ("type", #"{"message":"hi","file_url":"http://x/y"}"#),
      ("request_id", #"{"message":"hi","request_id":"a b"}"#),
      ("request_id", #"{"message":"hi","request_id":1}"#),
      ("block_on_failure", #"{"message":"hi","block_on_failure":1}"#),
      ("no_such_field", #"{"message":"hi","no_such_field":1}"#),
      ("data", #"{"message":"hi","data":"1","data":"2"}"#), ("body", "[]"), ("body", "{"),
    ])
  func fields(field: String, body: String) throws {
    let world = try CollectionWorld.forSending()
    defer { world.stop() }
    let answer = world.post(Self.path, body)
    #expect(answer.status == 400 && answer.text("code") == "invalid_request")
    #expect(answer.body.contains(#""field":"\#(field)""#), "\(answer.body)")
    #expect(try world.rows().isEmpty && world.told == 0)
  }

  /// Bodies with many faults, or with a name as long as the body.
  private static func manyFaults() -> [String] {
    let fields = (0..<20_000).map { "\"a\($0)\":1" }.joined(separator: ",")
    let repeated = Array(repeating: #""a":1"#, count: 40_000).joined(separator: ",")
    let objects = Array(repeating: "{}", count: 80_000).joined(separator: ",")
    let numbers = Array(repeating: "1", count: 100_000).joined(separator: ",")
    let name = String(repeating: #"\u0001"#, count: 40_000)
    return [
      "{\(fields)}", "{\(repeated)}", #"{"metaarray":[\#(objects)]}"#,
      #"{"message":"hi","metaarray":[\#(numbers)]}"#, "{\"\(name)\":1}",
    ]
  }

  @Test("a body of tens of thousands of faults, or with a name as long as itself, is answered in a few KB")
  func faultsAreBounded() throws {
    let world = try CollectionWorld.forSending()
    defer { world.stop() }
    for body in Self.manyFaults() {
      let answer = world.post(Self.path, body)
      #expect(answer.status == 400 && answer.text("code") == "invalid_request", "\(body.prefix(40))")
      #expect(answer.body.utf8.count < 16_384, "\(body.prefix(40)): \(answer.body.utf8.count) bytes")
    }
  }

  @Test(
    "a text beyond the channel's length and a custom type beyond 128 characters are named; at the limit they go"
  )
  func lengths() throws {
    let world = try CollectionWorld.forSending()
    defer { world.stop() }
    func text(_ count: Int) -> String { String(repeating: "ä", count: count) }
    let long = world.post(Self.path, #"{"message":"\#(text(5001))"}"#)
    #expect(long.status == 400 && long.body.contains(#""field":"message""#))
    let type = world.send("t", #","custom_type":"\#(text(129))""#)
    #expect(type.status == 400 && type.body.contains(#""field":"custom_type""#))
    #expect(try world.rows().isEmpty)
    #expect(world.post(Self.path, #"{"message":"\#(text(5000))"}"#).status == 202)
    #expect(world.send("t", #","custom_type":"\#(text(128))""#).status == 202)
    let edit = world.ask(Self.path + "/3", method: "PATCH", body: #"{"message":"\#(text(5001))"}"#)
    #expect(edit.status == 400 && edit.body.contains(#""field":"message""#))
  }

  @Test(
    "B48: a field of editMessage at fault is a 400 that names it, and nothing is stored",
    arguments: [
      ("body", "{}"), ("message", #"{"message":""}"#), ("message", #"{"message":1}"#),
      ("data", #"{"data":1}"#), ("custom_type", #"{"custom_type":1}"#), ("type", #"{"type":"user"}"#),
      ("metaarray", #"{"metaarray":1}"#), ("request_id", #"{"message":"x","request_id":""}"#),
    ])
  func edits(field: String, body: String) throws {
    let world = try CollectionWorld.forSending()
    defer { world.stop() }
    let answer = world.ask(Self.path + "/3", method: "PATCH", body: body)
    #expect(answer.status == 400 && answer.body.contains(#""field":"\#(field)""#), "\(answer.body)")
    #expect(try world.rows().isEmpty && world.told == 0)
  }

  @Test("a form that is none is refused, and parameters that nobody knows are named")
  func others() throws {
    let world = try CollectionWorld.forSending()
    defer { world.stop() }
    let form = world.ask(
      Self.path, method: "POST", body: "--x--", extra: ["Content-Type": "multipart/form-data; boundary=x"])
    #expect(form.status == 400 && form.body.contains(#""field":"file""#))
    #expect(world.post(Self.path + "?x=1", #"{"message":"hi"}"#).status == 400)
    #expect(world.ask(Self.path, method: "DELETE").body.contains(#""field":"status""#))
    #expect(world.ask(Self.path + "?status=pending", method: "DELETE").status == 400)
    let key = String(repeating: "k", count: 192)
    #expect(world.ask(Self.path + "/3/reactions/\(key)", method: "PUT").body.contains(#""field":"key""#))
    for query in ["limit=0", "limit=201", "after=x", "status=sent", "channel_url=", "x=1"] {
      #expect(world.ask("/v1/outbox?\(query)").status == 400, "\(query)")
    }
    #expect(try world.rows().isEmpty)
  }

  @Test("an outbox that is full takes no more: 429 with Retry-After; what was asked before is answered")
  func full() throws {
    var policy = OutboxPolicy()
    policy.maximumUnsent = 2
    let world = try CollectionWorld.forSending(policy: policy)
    defer { world.stop() }
    #expect(world.send("one").status == 202 && world.send("two").status == 202)
    let answer = world.send("three")
    #expect(answer.status == 429 && answer.text("code") == "outbox_full" && answer["Retry-After"] != nil)
    #expect(world.ask(Self.path + "/3", method: "DELETE").text("code") == "outbox_full")
    #expect(world.send("one")["Idempotency-Replayed"] == "true")
    #expect(try world.rows().map(\.requestID.text) == ["one", "two"])
    #expect(world.send("three", as: "bob").status == 202, "another user's outbox is another one")
  }
}
