import Testing

@testable import Origin

@Suite struct ModerationTests {
  private static let channel = "/v3/group_channels/general"
  private static let messages = channel + "/messages"

  private func send(_ wire: Wire, by user: String) throws -> Int64? {
    try wire.code(
      "POST", ModerationTests.messages, #"{"message_type":"MESG","user_id":"\#(user)","message":"hi"}"#)
  }

  @Test("a muted member reads and cannot send, until unmuted")
  func mute() throws {
    let wire = try Wire()
    #expect(try wire.code("POST", ModerationTests.channel + "/mute", #"{"user_id":"bob"}"#) == nil)
    #expect(try send(wire, by: "bob") == 900041)
    #expect(try send(wire, by: "alice") == nil)
    let muted = try wire.get(ModerationTests.channel + "/mute")["muted_list"]?.items
    #expect(muted?.map { $0["user_id"]?.string } == ["bob"])
    #expect(try wire.get(ModerationTests.channel + "?user_id=bob")["is_muted"] == .bool(true))
    #expect(try wire.code("DELETE", ModerationTests.channel + "/mute/bob") == nil)
    #expect(try send(wire, by: "bob") == nil)
    #expect(try wire.code("POST", ModerationTests.channel + "/mute", #"{"user_id":"dave"}"#) == 900020)
  }

  @Test("a banned user is out and cannot come back, until unbanned")
  func ban() throws {
    let wire = try Wire()
    #expect(try wire.code("POST", ModerationTests.channel + "/ban", #"{"user_id":"bob"}"#) == nil)
    #expect(try wire.get(ModerationTests.channel + "/members/bob")["is_member"] == .bool(false))
    #expect(try send(wire, by: "bob") == 900020)
    #expect(try wire.code("PUT", ModerationTests.channel + "/join", #"{"user_id":"bob"}"#) == 400750)
    #expect(try wire.code("POST", ModerationTests.channel + "/invite", #"{"user_ids":["bob"]}"#) == 400750)
    let banned = try wire.get(ModerationTests.channel + "/ban")["banned_list"]?.items
    #expect(banned?.map { $0["user"]?["user_id"]?.string } == ["bob"])
    let changes = try wire.get("/v3/users/bob/my_group_channels/changelogs?change_ts=0")
    #expect(changes["deleted"]?.strings == ["general"])
    #expect(try wire.code("DELETE", ModerationTests.channel + "/ban/bob") == nil)
    #expect(try wire.code("PUT", ModerationTests.channel + "/join", #"{"user_id":"bob"}"#) == nil)
  }

  @Test("in a frozen channel only operators send")
  func freeze() throws {
    let wire = try Wire()
    _ = try wire.call("POST", ModerationTests.channel + "/operators", #"{"operator_ids":["alice"]}"#)
    let frozen = try wire.call("PUT", ModerationTests.channel + "/freeze", #"{"freeze":true}"#)
    #expect(frozen["freeze"] == .bool(true))
    #expect(try send(wire, by: "bob") == 900050)
    #expect(try send(wire, by: "alice") == nil)
    #expect(try wire.code("PUT", ModerationTests.channel + "/freeze", #"{"freeze":false}"#) == nil)
    #expect(try send(wire, by: "bob") == nil)
    #expect(try wire.code("PUT", ModerationTests.channel + "/freeze") == 400105)
    #expect(try wire.code("PUT", ModerationTests.channel + "/freeze", #"{"freeze":"yes"}"#) == 400104)
  }

  @Test("a file is refused like a text from the muted, in a frozen channel and from outside; notices are not")
  func everyType() throws {
    let wire = try Wire()
    let notice = #"{"message_type":"ADMM","message":"news"}"#
    func file(by user: String) throws -> Int64? {
      let body = #"{"message_type":"FILE","user_id":"\#(user)","url":"http://x/a.png"}"#
      return try wire.code("POST", ModerationTests.messages, body)
    }
    #expect(try file(by: "dave") == 900020)
    _ = try wire.call("POST", ModerationTests.channel + "/mute", #"{"user_id":"bob"}"#)
    #expect(try file(by: "bob") == 900041)
    _ = try wire.call("PUT", ModerationTests.channel + "/freeze", #"{"freeze":true}"#)
    #expect(try file(by: "alice") == 900050)
    #expect(try wire.code("POST", ModerationTests.messages, notice) == nil)
    _ = try wire.call("POST", ModerationTests.channel + "/operators", #"{"operator_ids":["alice"]}"#)
    #expect(try file(by: "alice") == nil)
    #expect(try wire.get(ModerationTests.messages + "/total_count")["total"] == .integer(2))
  }

  @Test("where an edit names a user, it is the sender")
  func editor() throws {
    let wire = try Wire()
    let id = try wire.send("general", "mine")
    func edit(_ message: Int64, _ user: String, _ type: String = "MESG") throws -> Int64? {
      try wire.code(
        "PUT", ModerationTests.messages + "/\(message)",
        #"{"message_type":"\#(type)","user_id":"\#(user)","message":"by \#(user)"}"#)
    }
    #expect(try edit(id, "bob") == 400108)
    #expect(try edit(id, "nobody") == 400301)
    #expect(try wire.get(ModerationTests.messages + "/\(id)")["message"] == .string("mine"))
    #expect(try edit(id, "alice") == nil)
    #expect(try wire.get(ModerationTests.messages + "/\(id)")["message"] == .string("by alice"))
    let notice = try wire.call("POST", ModerationTests.messages, #"{"message_type":"ADMM","message":"n"}"#)
    #expect(try edit(try #require(notice["message_id"]?.integer), "alice", "ADMM") == 400108)
  }

  @Test("operators are shown, and are members")
  func operators() throws {
    let wire = try Wire()
    let path = ModerationTests.channel + "/operators"
    #expect(try wire.code("POST", path, #"{"operator_ids":["bob"]}"#) == nil)
    #expect(try wire.get(path)["operators"]?.items.compactMap { $0["user_id"]?.string } == ["bob"])
    #expect(try wire.get(ModerationTests.channel + "?user_id=bob")["my_role"] == .string("operator"))
    let sent = try wire.call(
      "POST", ModerationTests.messages, #"{"message_type":"MESG","user_id":"bob","message":"hi"}"#)
    #expect(sent["is_op_msg"] == .bool(true))
    #expect(try wire.code("DELETE", path + "?operator_ids=bob") == nil)
    #expect(try wire.get(path)["operators"]?.items.isEmpty == true)
    #expect(try wire.code("POST", path, #"{"operator_ids":["dave"]}"#) == 900020)
  }

  @Test("an invited member may not send before accepting, and may decline")
  func invitations() throws {
    let wire = try Wire()
    let body =
      #"{"user_ids":["carol","dave"],"inviter_id":"alice","#
      + #""invitation_status":{"carol":"invited_by_friend","dave":"invited_by_non_friend"}}"#
    _ = try wire.call("POST", ModerationTests.channel + "/invite", body)
    #expect(try wire.get(ModerationTests.channel + "/members/carol")["state"] == .string("invited"))
    let view = try wire.get(ModerationTests.channel + "?user_id=carol")
    #expect(view["member_state"] == .string("invited") && view["inviter"]?["user_id"] == .string("alice"))
    #expect(view["invited_at"]?.integer ?? 0 > 0 && view["joined_member_count"] == .integer(2))
    #expect(try send(wire, by: "carol") == 900020)
    let id = try wire.send("general", "hello")
    let reactions = ModerationTests.messages + "/\(id)/reactions"
    #expect(try wire.code("POST", reactions, #"{"user_id":"carol","reaction":"like"}"#) == 900020)
    let list = "/v3/users/carol/my_group_channels?show_empty=true&member_state_filter="
    #expect(try wire.get(list + "invited_only")["channels"]?.items.count == 1)
    #expect(try wire.get(list + "joined_only")["channels"]?.items.isEmpty == true)
    #expect(try wire.code("PUT", ModerationTests.channel + "/accept", #"{"user_id":"carol"}"#) == nil)
    #expect(try send(wire, by: "carol") == nil)
    #expect(try wire.code("POST", reactions, #"{"user_id":"carol","reaction":"like"}"#) == nil)
    #expect(try wire.code("PUT", ModerationTests.channel + "/decline", #"{"user_id":"dave"}"#) == nil)
    #expect(try wire.get(ModerationTests.channel + "/members/dave")["is_member"] == .bool(false))
    #expect(try wire.code("PUT", ModerationTests.channel + "/decline", #"{"user_id":"carol"}"#) == 400108)
  }
}
