import Testing

@testable import Origin

@Suite struct ChannelListTests {
  private func urls(_ wire: Wire, _ query: String, of user: String? = "alice") throws -> [String] {
    let path = user.map { "/v3/users/\($0)/my_group_channels" } ?? "/v3/group_channels"
    let answer = try wire.get(path + "?limit=100&show_empty=true&" + query)
    return answer["channels"]?.items.compactMap { $0["channel_url"]?.string } ?? ["code \(answer.text)"]
  }

  private func world() throws -> Wire {
    let wire = try Wire()
    for body in [
      #"{"channel_url":"tea","name":"Green tea","user_ids":["alice","carol"],"custom_type":"drink"}"#,
      #"{"channel_url":"pub","name":"Pub","user_ids":["alice","bob"],"is_public":true,"custom_type":"drink-hot"}"#,
      #"{"channel_url":"pair","name":"Pair","user_ids":["alice","bob"],"is_distinct":true}"#,
      #"{"channel_url":"crowd","name":"Crowd","user_ids":["alice","dave"],"is_super":true}"#,
    ] {
      #expect(try wire.code("POST", "/v3/group_channels", body) == nil)
    }
    return wire
  }

  @Test(
    "each filter keeps the channels that it says",
    arguments: [
      ("custom_types=drink", ["tea"]), ("custom_type_startswith=drink", ["pub", "tea"]),
      ("distinct_mode=distinct", ["pair"]), ("public_mode=public", ["pub"]),
      ("super_mode=super", ["crowd"]), ("channel_urls=tea,pair", ["pair", "tea"]),
      ("name=Pub", ["pub"]), ("name_contains=TEA", ["tea"]), ("name_startswith=cro", ["crowd"]),
      ("members_include_in=carol,dave&query_type=OR", ["crowd", "tea"]),
      ("members_include_in=alice,carol", ["tea"]), ("members_exactly_in=alice,carol", ["tea"]),
      ("members_nickname=dave", ["crowd"]), ("members_nickname_contains=ARO", ["tea"]),
      ("created_before=1", []),
    ] as [(String, [String])])
  func filters(query: String, wanted: [String]) throws {
    let wire = try world()
    #expect(try urls(wire, query) == wanted)
    #expect(try urls(wire, query, of: nil) == wanted)
  }

  @Test("unknown values of filters and orders are refused")
  func unknown() throws {
    let wire = try Wire()
    for query in ["hidden_mode=x", "unread_filter=x", "order=x", "super_mode=x", "member_state_filter=x"] {
      #expect(try wire.code("GET", "/v3/users/alice/my_group_channels?\(query)") == 400111)
    }
    #expect(try wire.code("GET", "/v3/users/alice/my_group_channels?token=x") == 400109)
    #expect(try wire.code("GET", "/v3/users/alice/my_group_channels?limit=0") == 400113)
    #expect(try wire.code("GET", "/v3/users/alice/my_group_channels?limit=x") == 400101)
    #expect(try wire.code("GET", "/v3/users/alice/my_group_channels?show_empty=x") == 400104)
    #expect(try wire.code("GET", "/v3/users/nobody/my_group_channels") == 400201)
  }

  @Test("metadata filters, and metadata only where it is asked for")
  func metadata() throws {
    let wire = try world()
    #expect(
      try wire.code("POST", "/v3/group_channels/tea/metadata", #"{"metadata":{"pot \"x\"":"big"}}"#) == nil)
    _ = try wire.call("POST", "/v3/group_channels/pub/metadata", #"{"metadata":{"pot":"small"}}"#)
    #expect(try urls(wire, "metadata_key=pot") == ["pub"])
    #expect(try urls(wire, "metadata_key=pot&metadata_values=big,huge") == [])
    #expect(try urls(wire, "metadata_key=pot&metadata_value_startswith=sma") == ["pub"])
    #expect(try wire.get("/v3/group_channels/pub")["metadata"] == nil)
    #expect(try wire.get("/v3/group_channels/pub?show_metadata=true")["metadata"]?["pot"] == .string("small"))
  }

  @Test("unread_filter, hidden_mode and show_frozen follow what happens")
  func states() throws {
    let wire = try world()
    _ = try wire.call("POST", "/v3/group_channels/tea/messages", #"{"message_type":"ADMM","message":"x"}"#)
    #expect(try urls(wire, "unread_filter=unread_message") == ["tea"])
    _ = try wire.call("PUT", "/v3/group_channels/tea/messages/mark_as_read", #"{"user_id":"alice"}"#)
    #expect(try urls(wire, "unread_filter=unread_message") == [])
    _ = try wire.call(
      "PUT", "/v3/group_channels/pub/hide", #"{"user_id":"alice","allow_auto_unhide":false}"#)
    _ = try wire.call("PUT", "/v3/group_channels/pair/hide", #"{"user_id":"alice"}"#)
    #expect(try urls(wire, "hidden_mode=hidden_prevent_auto_unhide") == ["pub"])
    #expect(try urls(wire, "hidden_mode=hidden_only") == ["pair", "pub"])
    #expect(!(try urls(wire, "")).contains("pub"))
    for url in ["pub", "pair"] {
      _ = try wire.call(
        "POST", "/v3/group_channels/\(url)/messages", #"{"message_type":"ADMM","message":"x"}"#)
    }
    #expect(try urls(wire, "hidden_mode=hidden_only") == ["pub"])
    _ = try wire.call("PUT", "/v3/group_channels/crowd/freeze", #"{"freeze":true}"#)
    #expect(!(try urls(wire, "show_frozen=false")).contains("crowd"))
  }

  @Test(
    "pages go through a list once, in every order",
    arguments: ["chronological", "latest_last_message", "channel_name_alphabetical"])
  func pages(order: String) throws {
    let wire = try Wire()
    for number in 0..<23 {
      let name = "n\(number % 7)"
      _ = try wire.call(
        "POST", "/v3/group_channels",
        #"{"channel_url":"c\#(number)","name":"\#(name)","user_ids":["alice"]}"#)
      if number % 3 == 0 { _ = try wire.send("c\(number)", "hi", at: 1_700_000_000_000 + Int64(number % 2)) }
    }
    for user in ["alice", nil] {
      let whole = try urls(wire, "order=\(order)", of: user)
      #expect(Set(whole).count == 24)
      var paged: [String] = []
      var token = ""
      repeat {
        let path = user.map { "/v3/users/\($0)/my_group_channels" } ?? "/v3/group_channels"
        let page = try wire.get(path + "?limit=5&show_empty=true&order=\(order)&token=\(token)")
        paged += page["channels"]?.items.compactMap { $0["channel_url"]?.string } ?? []
        token = try #require(page["next"]?.string)
      } while !token.isEmpty && paged.count < 100
      #expect(paged == whole)
    }
  }

  @Test("metacounters count up and down, and hold whole numbers")
  func metacounters() throws {
    let wire = try Wire()
    let path = "/v3/group_channels/general/metacounter"
    #expect(try wire.call("POST", path, #"{"metacounter":{"likes":2,"views":5}}"#)["likes"] == .integer(2))
    #expect(
      try wire.call("PUT", path, #"{"metacounter":{"likes":3},"mode":"increase"}"#).text == #"{"likes":5}"#)
    _ = try wire.call("PUT", path + "/views", #"{"value":1,"mode":"decrease"}"#)
    #expect(try wire.get(path).text == #"{"likes":5,"views":4}"#)
    #expect(try wire.call("PUT", path, #"{"metacounter":{"new":1}}"#).text == "{}")
    #expect(try wire.call("PUT", path, #"{"metacounter":{"new":1},"upsert":true}"#).text == #"{"new":1}"#)
    #expect(try wire.code("POST", path, #"{"metacounter":{"x":"1"}}"#) == 400101)
    _ = try wire.call("DELETE", path + "/likes")
    #expect(try wire.get(path + "?keys=likes,views").text == #"{"views":4}"#)
    _ = try wire.call("DELETE", path)
    #expect(try wire.get(path).text == "{}")
  }
}
