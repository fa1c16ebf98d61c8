import Testing

@testable import Origin

/// Requests that are refused, with their codes. All go to one server with `general` (alice, bob), a message 1
/// of alice's and a deactivated user erin. Afterwards nothing may have changed.
@Suite struct CodeTests {
  struct Case: CustomStringConvertible, Sendable {
    let code: Int64
    let method: String
    let path: String
    let body: String
    var description: String { "\(code): \(method) \(path) \(body)" }

    init(_ code: Int64, _ method: String, _ path: String, _ body: String = "") {
      self.code = code
      self.method = method
      self.path = path
      self.body = body
    }
  }

  private static let channel = "/v3/group_channels/general"
  private static let messages = channel + "/messages"
  private static let mine = "/v3/users/alice/my_group_channels"

  private static let users: [Case] = [
    Case(400105, "POST", "/v3/users", "{}"), Case(400105, "POST", "/v3/users", #"{"user_id":""}"#),
    Case(400105, "POST", "/v3/users", #"{"user_id":null}"#),
    Case(400100, "POST", "/v3/users", #"{"user_id":7}"#),
    Case(400100, "POST", "/v3/users", #"{"user_id":"x","nickname":[]}"#),
    Case(400103, "POST", "/v3/users", #"{"user_id":"x","metadata":"a"}"#),
    Case(400104, "POST", "/v3/users", #"{"user_id":"x","issue_access_token":"yes"}"#),
    Case(400110, "POST", "/v3/users", #"{"user_id":"\#(String(repeating: "x", count: 81))"}"#),
    Case(400151, "POST", "/v3/users", #"{"user_id":"a\u0007"}"#),
    Case(400202, "POST", "/v3/users", #"{"user_id":"alice"}"#),
    Case(400201, "GET", "/v3/users/nobody"), Case(400201, "PUT", "/v3/users/nobody", "{}"),
    Case(400201, "DELETE", "/v3/users/nobody"), Case(400201, "GET", "/v3/users/alice/metadata/none"),
    Case(400105, "PUT", "/v3/users/alice/metadata", "{}"),
    Case(400103, "PUT", "/v3/users/alice/metadata", #"{"metadata":[]}"#),
    Case(400105, "PUT", "/v3/users/alice/metadata/a", "{}"),
    Case(400113, "GET", "/v3/users?limit=101"), Case(400101, "GET", "/v3/users?limit=ten"),
    Case(400403, "POST", "/v3/users", "{"), Case(400103, "POST", "/v3/users", "[]"),
  ]

  private static let channels: [Case] = [
    Case(400201, "GET", "/v3/group_channels/nowhere"),
    Case(400201, "POST", "/v3/group_channels", #"{"user_ids":["nobody"]}"#),
    Case(400102, "POST", "/v3/group_channels", #"{"user_ids":"alice"}"#),
    Case(400102, "POST", "/v3/group_channels", #"{"users":"alice"}"#),
    Case(400100, "POST", "/v3/group_channels", #"{"user_ids":[1]}"#),
    Case(400100, "POST", "/v3/group_channels", #"{"name":1}"#),
    Case(400104, "POST", "/v3/group_channels", #"{"is_distinct":"maybe"}"#),
    Case(400110, "POST", "/v3/group_channels", #"{"channel_url":"\#(String(repeating: "u", count: 101))"}"#),
    Case(400151, "POST", "/v3/group_channels", #"{"channel_url":" x"}"#),
    Case(400202, "POST", "/v3/group_channels", #"{"channel_url":"general"}"#),
    Case(400111, "GET", mine + "?hidden_mode=x"), Case(400111, "GET", mine + "?order=x"),
    Case(400109, "GET", mine + "?token=x"), Case(400104, "GET", mine + "?show_empty=x"),
    Case(400109, "GET", mine + "/changelogs?token=x"), Case(400105, "GET", mine + "/changelogs"),
    Case(400106, "GET", mine + "/changelogs?change_ts=-1"),
    Case(400101, "GET", mine + "/changelogs?change_ts=x"),
    Case(400105, "PUT", channel + "/freeze", "{}"), Case(400105, "PUT", channel + "/metadata", "{}"),
    Case(400201, "GET", channel + "/metadata/none"), Case(400201, "GET", channel + "/members/nobody"),
    Case(400105, "POST", channel + "/invite", "{}"),
    Case(400201, "POST", channel + "/invite", #"{"user_ids":["nobody"]}"#),
    Case(400111, "POST", channel + "/invite", #"{"user_ids":["carol"],"invitation_status":{"carol":"x"}}"#),
    Case(400105, "PUT", channel + "/join", "{}"), Case(400301, "PUT", channel + "/join", #"{"user_id":"x"}"#),
    Case(400300, "PUT", channel + "/join", #"{"user_id":"erin"}"#),
    Case(400105, "PUT", channel + "/leave", "{}"),
    Case(900020, "PUT", channel + "/leave", #"{"user_ids":["dave"]}"#),
    Case(900020, "PUT", channel + "/hide", #"{"user_id":"dave"}"#),
    Case(400104, "PUT", channel + "/hide", #"{"user_id":"bob","allow_auto_unhide":1}"#),
    Case(900020, "PUT", channel + "/reset_user_history", #"{"user_id":"dave"}"#),
    Case(900020, "POST", channel + "/typing", #"{"user_ids":["dave"]}"#),
    Case(900020, "POST", channel + "/operators", #"{"operator_ids":["dave"]}"#),
    Case(900020, "POST", channel + "/mute", #"{"user_id":"dave"}"#),
  ]

  private static let sends: [Case] = [
    Case(400105, "POST", messages, "{}"),
    Case(400111, "POST", messages, #"{"message_type":"TEXT","user_id":"alice","message":"a"}"#),
    Case(400100, "POST", messages, #"{"message_type":"MESG","user_id":"alice","message":1}"#),
    Case(400105, "POST", messages, #"{"message_type":"MESG","user_id":"alice"}"#),
    Case(400105, "POST", messages, #"{"message_type":"MESG","message":"a"}"#),
    Case(400301, "POST", messages, #"{"message_type":"MESG","user_id":"x","message":"a"}"#),
    Case(400300, "POST", messages, #"{"message_type":"MESG","user_id":"erin","message":"a"}"#),
    Case(900020, "POST", messages, #"{"message_type":"MESG","user_id":"dave","message":"a"}"#),
    Case(400101, "POST", messages, #"{"user_id":"alice","message":"a","created_at":"now"}"#),
    Case(400113, "POST", messages, #"{"user_id":"alice","message":"a","created_at":-5}"#),
    Case(400111, "POST", messages, #"{"user_id":"alice","message":"a","mention_type":"all"}"#),
    Case(400102, "POST", messages, #"{"user_id":"alice","message":"a","mentioned_user_ids":"bob"}"#),
    Case(400102, "POST", messages, #"{"user_id":"alice","message":"a","sorted_metaarray":{}}"#),
    Case(400105, "POST", messages, #"{"user_id":"alice","message":"a","sorted_metaarray":[{"value":[]}]}"#),
    Case(400104, "POST", messages, #"{"user_id":"alice","message":"a","is_silent":"x"}"#),
    Case(400201, "POST", messages, #"{"user_id":"alice","message":"a","parent_message_id":99}"#),
    Case(
      400110, "POST", messages, #"{"user_id":"alice","message":"\#(String(repeating: "m", count: 5001))"}"#),
    Case(400110, "POST", messages, #"{"user_id":"alice","message":"a","custom_type":"\#(long)"}"#),
    Case(400105, "POST", messages, #"{"message_type":"FILE","user_id":"alice"}"#),
    Case(400105, "POST", "/v3/storage/file", "{}"),
    Case(400201, "POST", "/v3/group_channels/nowhere/messages", #"{"user_id":"alice","message":"a"}"#),
  ]
  private static let long = String(repeating: "t", count: 129)

  private static let reads: [Case] = [
    Case(400105, "GET", messages), Case(400101, "GET", messages + "?message_ts=x"),
    Case(400106, "GET", messages + "?message_ts=-1"),
    Case(400113, "GET", messages + "?message_ts=0&next_limit=201"),
    Case(400113, "GET", messages + "?message_ts=0&prev_limit=-1"),
    Case(400201, "GET", messages + "?message_id=99"),
    Case(400111, "GET", messages + "?message_ts=0&message_type=x"),
    Case(400111, "GET", messages + "?message_ts=0&include_reply_type=x"),
    Case(400104, "GET", messages + "?message_ts=0&reverse=x"),
    Case(400201, "GET", messages + "/99"), Case(400101, "GET", messages + "/abc"),
    Case(400105, "GET", messages + "/unread_count"),
    Case(900020, "GET", messages + "/unread_count?user_ids=dave"),
    Case(400105, "GET", messages + "/changelogs"), Case(400109, "GET", messages + "/changelogs?token=x"),
    Case(400113, "GET", messages + "/changelogs?change_ts=0&limit=0"),
    Case(400105, "PUT", messages + "/1", #"{"message":"a"}"#),
    Case(400100, "PUT", messages + "/1", #"{"message_type":"MESG","message":2}"#),
    Case(400201, "PUT", messages + "/99", #"{"message_type":"MESG","message":"a"}"#),
    Case(400201, "DELETE", messages + "/99"),
    Case(400105, "POST", messages + "/1/reactions", #"{"user_id":"bob"}"#),
    Case(400105, "POST", messages + "/1/reactions", #"{"reaction":"x"}"#),
    Case(900020, "POST", messages + "/1/reactions", #"{"user_id":"dave","reaction":"x"}"#),
    Case(400201, "DELETE", messages + "/1/reactions?user_id=bob&reaction=x"),
    Case(400201, "POST", messages + "/99/reactions", #"{"user_id":"bob","reaction":"x"}"#),
    Case(400105, "DELETE", messages + "/1/sorted_metaarray"),
    Case(900020, "PUT", messages + "/mark_as_read", #"{"user_id":"dave"}"#),
    Case(400930, "GET", "/v3/nowhere"), Case(400930, "PATCH", "/v3/users"),
  ]

  @Test("wrong types, missing and unknown values get their codes, and nothing changes")
  func refusals() throws {
    let wire = try Wire()
    _ = try wire.send("general", "first")
    _ = try wire.call("POST", "/v3/users", #"{"user_id":"erin"}"#)
    _ = try wire.call("PUT", "/v3/users/erin", #"{"is_active":false}"#)
    func state() throws -> [String] {
      try [
        "/v3/users?limit=100", CodeTests.messages + "/changelogs?change_ts=0", CodeTests.messages + "/1",
        CodeTests.channel + "?show_member=true&user_id=bob", CodeTests.messages + "/total_count",
        "/v3/users/bob/my_group_channels/changelogs?change_ts=0",
      ].map { try wire.get($0).text }
    }
    let before = try state()
    for one in CodeTests.users + CodeTests.channels + CodeTests.sends + CodeTests.reads {
      let answer = try #require(wire.exchange(one.method, one.path, one.body), "\(one)")
      let value = Value(stored: answer.body)
      #expect(value["code"] == .integer(one.code), "\(one) got \(answer.body)")
      #expect(answer.status == 400 && value["error"] == .bool(true), "\(one) got \(answer.status)")
      #expect(value["message"]?.string?.isEmpty == false)
    }
    #expect(try state() == before)
  }

  @Test("the token is needed, under its name in any case of its letters")
  func token() throws {
    let wire = try Wire()
    #expect(wire.exchange("GET", "/v3/users", token: "api-token: origin")?.status == 200)
    #expect(wire.exchange("GET", "/v3/users", token: "API-TOKEN: origin")?.status == 200)
    for token in ["Api-Token: other", "X-Other: origin"] {
      let answer = try #require(wire.exchange("GET", "/v3/users", token: token))
      #expect(Value(stored: answer.body)["code"] == .integer(400401))
    }
  }

  @Test("identifiers are percent-encoded segment by segment")
  func encoding() throws {
    let wire = try Wire()
    #expect(try wire.code("POST", "/v3/users", #"{"user_id":"a/b é"}"#) == nil)
    #expect(try wire.get("/v3/users/a%2Fb%20%C3%A9")["user_id"] == .string("a/b é"))
    #expect(
      try wire.code("POST", "/v3/group_channels", #"{"channel_url":"c/%d","user_ids":["a/b é"]}"#) == nil)
    #expect(try wire.get("/v3/group_channels/c%2F%25d/members")["members"]?.items.count == 1)
  }
}
