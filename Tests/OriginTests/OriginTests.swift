import Glibc
import Testing

@testable import Origin

@Suite struct OriginTests {
  @Test("a window around a time has the rows of that time on its newer side and cuts at its limits")
  func windows() throws {
    let wire = try Wire()
    let base: Int64 = 1_700_000_000_000
    let ids = try (0..<10).map { try wire.send("general", "m\($0)", at: base + Int64($0 / 2)) }
    func list(_ query: String) throws -> [Int64] {
      let path = "/v3/group_channels/general/messages?\(query)"
      return try wire.get(path)["messages"]?.items.compactMap { $0["message_id"]?.integer } ?? []
    }
    #expect(try list("message_ts=\(base + 2)&prev_limit=2&next_limit=3") == Array(ids[2..<7]))
    #expect(
      try list("message_ts=\(base + 2)&prev_limit=2&next_limit=3&include=False")
        == [2, 3, 6, 7, 8].map { ids[$0] })
    #expect(try list("message_id=\(ids[4])&prev_limit=1&next_limit=1") == Array(ids[3..<6]))
    #expect(
      try list("message_id=0&message_ts=0&prev_limit=0&next_limit=3&reverse=true") == ids[0..<3].reversed())
    #expect(try list("message_ts=9007199254740991&prev_limit=2&next_limit=0") == Array(ids[8...]))
    #expect(
      try wire.get("/v3/group_channels/general/messages?message_ts=0&next_limit=201")["code"]
        == .integer(400113))
    #expect(try wire.get("/v3/group_channels/general/messages")["code"] == .integer(400105))
  }

  @Test("two sends with one dedup_id are one message, also when the first reply was lost")
  func deduplicates() throws {
    let wire = try Wire()
    _ = try wire.call("PUT", "/_faults", #"{"faults":[{"kind":"lose_reply","path":"*/messages","count":1}]}"#)
    let body = #"{"message_type":"MESG","user_id":"alice","message":"once","dedup_id":"d1"}"#
    #expect(wire.exchange("POST", "/v3/group_channels/general/messages", body, seconds: 1) == nil)
    let again = try wire.call("POST", "/v3/group_channels/general/messages", body)
    let third = try wire.call("POST", "/v3/group_channels/general/messages", body)
    let id = try #require(again["message_id"]?.integer)
    #expect(third["message_id"] == .integer(id))
    #expect(try wire.get("/v3/group_channels/general/messages/total_count")["total"] == .integer(1))
  }

  @Test("the changelog tells of edits, reactions and deletions once, and goes on from its token")
  func changelogs() throws {
    let wire = try Wire()
    let first = try wire.send("general", "one")
    let second = try wire.send("general", "two")
    let path = "/v3/group_channels/general/messages"
    _ = try wire.call("PUT", "\(path)/\(first)", #"{"message_type":"MESG","message":"uno"}"#)
    _ = try wire.call("POST", "\(path)/\(first)/reactions", #"{"user_id":"bob","reaction":"+1"}"#)
    _ = try wire.call("DELETE", "\(path)/\(second)")
    let page = try wire.get("\(path)/changelogs?change_ts=0&include_reactions=true")
    #expect(page["updated"]?.items.count == 1)
    #expect(page["updated"]?.items.first?["message"] == .string("uno"))
    #expect(page["updated"]?.items.first?["reactions"]?.items.first?["key"] == .string("+1"))
    #expect(page["deleted"]?.items.first?["message_id"] == .integer(second))
    let next = try #require(page["next"]?.string)
    let rest = try wire.get("\(path)/changelogs?token=\(next)")
    #expect(rest["updated"]?.items.isEmpty == true && rest["deleted"]?.items.isEmpty == true)
    #expect(rest["next"] == .string(next))
  }

  @Test("a hidden channel comes back with a message, a left one is in the list's changelog")
  func views() throws {
    let wire = try Wire()
    _ = try wire.call("PUT", "/v3/group_channels/general/hide", #"{"user_id":"bob"}"#)
    let list = "/v3/users/bob/my_group_channels?show_empty=true"
    #expect(try wire.get(list)["channels"]?.items.isEmpty == true)
    _ = try wire.send("general", "hello")
    let shown = try wire.get(list)["channels"]?.items.first
    #expect(shown?["unread_message_count"] == .integer(1))
    #expect(shown?["hidden_state"] == .string("unhidden"))
    let changed = try ["", "&show_member=false"].map {
      try wire.get("/v3/users/bob/my_group_channels/changelogs?change_ts=0\($0)")["updated"]?.items.first
    }
    #expect(changed[0]?["members"]?.items.isEmpty == false)
    #expect(changed[1] != nil && changed[1]?["members"] == nil)
    _ = try wire.call("PUT", "/v3/group_channels/general/leave", #"{"user_ids":["bob"]}"#)
    let changes = try wire.get("/v3/users/bob/my_group_channels/changelogs?change_ts=0")
    #expect(changes["deleted"] == .array([.string("general")]))
  }

  @Test("what was answered is there after the server was opened again")
  func lasts() throws {
    let scratch = try Scratch()
    let id = try Wire(in: scratch).send("general", "kept")
    let wire = try Wire(in: scratch, isFresh: false)
    #expect(try wire.get("/v3/group_channels/general/messages/\(id)")["message"] == .string("kept"))
  }
}
