import Platform
import Testing

@testable import Origin

/// A member's own view of a channel, and the views of several clients at once.
@Suite struct ViewTests {
  private static let channel = "/v3/group_channels/general"
  private static let messages = channel + "/messages"

  private func ids(_ wire: Wire, _ query: String) throws -> [Int64] {
    try wire.get("\(ViewTests.messages)?message_ts=0&\(query)")["messages"]?.items
      .compactMap { $0["message_id"]?.integer } ?? []
  }

  private func view(_ wire: Wire, _ user: String) throws -> Value {
    try wire.get("\(ViewTests.channel)?user_id=\(user)")
  }

  @Test("a reset history hides what came before from that member alone")
  func reset() throws {
    let wire = try Wire()
    let old = try wire.send("general", "old", at: 1_700_000_000_000)
    let offset = try wire.call("PUT", ViewTests.channel + "/reset_user_history", #"{"user_id":"bob"}"#)
    let floor = try #require(offset["ts_message_offset"]?.integer)
    let new = try wire.send("general", "new", at: floor + 1)
    #expect(try ids(wire, "user_id=bob") == [new])
    #expect(try ids(wire, "user_id=alice") == [old, new])
    #expect(try ids(wire, "") == [old, new])
    #expect(try view(wire, "bob")["ts_message_offset"] == .integer(floor))
    _ = try wire.call("PUT", ViewTests.channel + "/reset_user_history", #"{"reset_all":true}"#)
    #expect(try view(wire, "alice")["ts_message_offset"]?.integer ?? 0 >= floor)
  }

  @Test("hidden with its messages, hidden for all, and unhidden by a message or by hand")
  func hide() throws {
    let wire = try Wire()
    _ = try wire.send("general", "old", at: 1_700_000_000_000)
    _ = try wire.call(
      "PUT", ViewTests.channel + "/hide", #"{"user_id":"bob","hide_previous_messages":true}"#)
    #expect(try ids(wire, "user_id=bob").isEmpty)
    #expect(try view(wire, "bob")["last_message"] == nil)
    #expect(try view(wire, "alice")["is_hidden"] == .bool(false))
    _ = try wire.call(
      "PUT", ViewTests.channel + "/hide", #"{"should_hide_all":true,"allow_auto_unhide":false}"#)
    _ = try wire.send("general", "new")
    for user in ["alice", "bob"] {
      #expect(try view(wire, user)["hidden_state"] == .string("hidden_prevent_auto_unhide"))
    }
    _ = try wire.call("DELETE", ViewTests.channel + "/hide?user_id=bob")
    #expect(try view(wire, "bob")["hidden_state"] == .string("unhidden"))
  }

  @Test("sending reads for the sender unless it says not to; reading is told to all")
  func reads() throws {
    let wire = try Wire()
    _ = try wire.send("general", "one")
    func send(_ more: String) throws {
      _ = try wire.call(
        "POST", ViewTests.messages, #"{"message_type":"MESG","user_id":"bob","message":"two"\#(more)}"#)
    }
    try send(#","mark_as_read":false"#)
    #expect(try view(wire, "bob")["unread_message_count"] == .integer(1))
    try send("")
    #expect(try view(wire, "bob")["unread_message_count"] == .integer(0))
    let token = try wire.get("/v3/users/bob/my_group_channels/changelogs?change_ts=0")["next"]?.string
    _ = try wire.call("PUT", ViewTests.messages + "/mark_as_read", #"{"user_id":"alice"}"#)
    let page = try wire.get("/v3/users/bob/my_group_channels/changelogs?token=\(try #require(token))")
    let receipt = page["updated"]?.items.first?["read_receipt"]?["alice"]?.integer ?? 0
    let own = try view(wire, "alice")["user_last_read"]?.integer
    #expect(receipt == own && receipt > 0)
    let without = try wire.get(
      "/v3/users/bob/my_group_channels/changelogs?change_ts=0&show_read_receipt=false")
    #expect(without["updated"]?.items.isEmpty == false && without["updated"]?.items[0]["read_receipt"] == nil)
  }

  @Test("a distinct channel of the same members is the same channel, in any order of them")
  func distinct() throws {
    let wire = try Wire()
    func make(_ users: String) throws -> String? {
      try wire.call("POST", "/v3/group_channels", #"{"user_ids":[\#(users)],"is_distinct":true}"#)[
        "channel_url"]?
        .string
    }
    let first = try make(#""alice","bob""#)
    let again = try make(#""bob","alice""#)
    #expect(first != nil && first == again)
    #expect(try make(#""bob","carol""#) != first)
    #expect(try wire.code("POST", ViewTests.channel + "/typing", #"{"user_ids":["bob"]}"#) == nil)
    #expect(try wire.code("DELETE", ViewTests.channel + "/typing", #"{"user_ids":["bob"]}"#) == nil)
  }

  @Test("a deleted user is out of every channel, and the messages stay without a name")
  func deletedUser() throws {
    let wire = try Wire()
    let id = try wire.send("general", "still here")
    _ = try wire.call("DELETE", "/v3/users/alice")
    #expect(try wire.get(ViewTests.channel)["member_count"] == .integer(1))
    let message = try wire.get("\(ViewTests.messages)/\(id)")
    #expect(message["user"]?["user_id"] == .string("alice") && message["user"]?["nickname"] == .string(""))
    let channels = try wire.get("/v3/users/bob/my_group_channels/changelogs?change_ts=0")["updated"]
    #expect(channels?.items.first?["member_count"] == .integer(1))
  }

  @Test("a changelog that is followed while four others write misses nothing")
  func followed() throws {
    let scratch = try Scratch()
    let wire = try Wire(in: scratch)
    let first = Line(port: wire.origin.port)
    for number in 0..<ViewTests.edits {
      let body = #"{"message_type":"MESG","user_id":"alice","message":"m\#(number)"}"#
      _ = try #require(first.exchange("POST", ViewTests.messages, body))
    }
    let port = wire.origin.port
    let running = Watched(4)
    let writers = (0..<4).map { writer in
      Thread("writer") {
        let line = Line(port: port)
        // Each message is edited once: a skipped edit would never be seen.
        for id in stride(from: writer + 1, through: ViewTests.edits, by: 4) {
          _ = line.exchange(
            "PUT", "\(ViewTests.messages)/\(id)", #"{"message_type":"MESG","message":"edited"}"#)
        }
        running.update { $0 -= 1 }
      }
    }
    var seen: Set<Int64> = []
    var token = "0"
    var isLast = false
    while true {
      let answer = try #require(first.exchange("GET", "\(ViewTests.messages)/changelogs?token=\(token)"))
      let page = Value(stored: String(decoding: answer.1, as: UTF8.self))
      seen.formUnion(page["updated"]?.items.compactMap { $0["message_id"]?.integer } ?? [])
      token = try #require(page["next"]?.string)
      if page["has_more"] == .bool(true) { continue }
      // Read once more after the last writer's end.
      if isLast { break }
      isLast = running.read { $0 == 0 }
    }
    for writer in writers { writer.join() }
    #expect(seen == Set((1...ViewTests.edits).map(Int64.init)))
  }

  private static let edits = 1200
}
