import Testing

@testable import Origin

@Suite struct MessageTests {
  private static let path = "/v3/group_channels/general/messages"

  private func send(_ wire: Wire, _ fields: String, by user: String = "alice") throws -> Value {
    try wire.call(
      "POST", MessageTests.path, #"{"message_type":"MESG","user_id":"\#(user)","message":"hi",\#(fields)}"#)
  }

  @Test("a thread: its parent tells of it, its replies of their parent; the changelog of both")
  func threads() throws {
    let wire = try Wire()
    let parent = try wire.send("general", "question")
    let first = try wire.reply(to: parent, "one")
    let second = try wire.reply(to: parent, "two")
    let third = try wire.reply(to: parent, "three", by: "alice")
    func thread() throws -> Value? { try wire.get("\(MessageTests.path)/\(parent)")["thread_info"] }
    let info = try #require(try thread())
    #expect(info["reply_count"] == .integer(3))
    #expect(info["most_replies"]?.items.map { $0["user_id"]?.string } == ["bob", "alice"])
    let shown = try wire.get("\(MessageTests.path)/\(third)")
    #expect(shown["parent_message_id"] == .integer(parent))
    #expect(shown["parent_message_info"]?["message"] == .string("question"))
    #expect(shown["parent_message_info"]?["user"]?["user_id"] == .string("alice"))
    #expect(try wire.code("POST", MessageTests.path, reply(to: second)) == 400111)
    #expect(try wire.code("POST", MessageTests.path, reply(to: 4_000_000)) == 400201)
    // The deletion of a reply updates its parent.
    let log = MessageTests.path + "/changelogs?include_thread_info=true"
    let token = try #require(try wire.get(log + "&change_ts=0")["next"]?.string)
    _ = try wire.call("DELETE", "\(MessageTests.path)/\(first)")
    let page = try wire.get(log + "&token=\(token)")
    #expect(page["deleted"]?.items.map { $0["message_id"]?.integer } == [first])
    #expect(page["updated"]?.items.map { $0["message_id"]?.integer } == [parent])
    let left = page["updated"]?.items.first?["thread_info"]
    #expect(left?["reply_count"] == .integer(2))
    #expect(left?["updated_at"]?.integer ?? 0 > info["updated_at"]?.integer ?? 0)
    // Replies outlive their parent.
    _ = try wire.call("DELETE", "\(MessageTests.path)/\(parent)")
    #expect(try wire.get("\(MessageTests.path)/\(second)")["parent_message_info"] == nil)
    #expect(try wire.code("DELETE", "\(MessageTests.path)/\(second)") == nil)
  }

  private func reply(to parent: Int64) -> String {
    #"{"message_type":"MESG","user_id":"bob","message":"r","parent_message_id":\#(parent)}"#
  }

  @Test("metaarrays: values are lists, POST adds, PUT replaces, DELETE takes keys away")
  func metaarrays() throws {
    let wire = try Wire()
    let sent = try send(wire, #""sorted_metaarray":[{"key":"a","value":["1","2"]},{"key":"b"}]"#)
    let path = "\(MessageTests.path)/\(try #require(sent["message_id"]?.integer))"
    #expect(sent["sorted_metaarray"]?.text == #"[{"key":"a","value":["1","2"]},{"key":"b","value":[]}]"#)
    let address = path + "/sorted_metaarray"
    func shown() throws -> String? { try wire.get(path)["sorted_metaarray"]?.text }
    _ = try wire.call("POST", address, #"{"sorted_metaarray":[{"key":"c","value":["3"]}]}"#)
    _ = try wire.call("PUT", address, #"{"sorted_metaarray":[{"key":"b","value":["x"]}]}"#)
    #expect(
      try shown() == #"[{"key":"a","value":["1","2"]},{"key":"c","value":["3"]},{"key":"b","value":["x"]}]"#)
    _ = try wire.call("DELETE", address + "?keys=a,c")
    #expect(try shown() == #"[{"key":"b","value":["x"]}]"#)
    #expect(try wire.code("PUT", address, #"{"sorted_metaarray":{"key":"b"}}"#) == 400102)
    #expect(try wire.code("PUT", address, #"{"sorted_metaarray":[{"key":"b","value":"x"}]}"#) == 400102)
    #expect(try wire.code("PUT", address, "{}") == 400105)
    let list = MessageTests.path + "?message_ts=0"
    #expect(try wire.get(list)["messages"]?.items.first?["sorted_metaarray"] == nil)
    #expect(
      try wire.get(list + "&with_sorted_meta_array=True")["messages"]?.items.first?["sorted_metaarray"] != nil
    )
  }

  @Test("reactions: who, once each, only members")
  func reactions() throws {
    let wire = try Wire()
    let path = "\(MessageTests.path)/\(try wire.send("general", "hi"))/reactions"
    let added = try wire.call("POST", path, #"{"user_id":"bob","reaction":"👍"}"#)
    #expect(added["operation"] == .string("ADD") && added["success"] == .bool(true))
    #expect(try wire.code("POST", path, #"{"user_id":"bob","reaction":"👍"}"#) == 400202)
    #expect(try wire.code("POST", path, #"{"user_id":"dave","reaction":"👍"}"#) == 900020)
    _ = try wire.call("POST", path, #"{"user_id":"alice","reaction":"👍"}"#)
    let shown = try wire.get(path)["reactions"]?.items
    #expect(shown?.count == 1 && shown?.first?["user_ids"]?.strings == ["bob", "alice"])
    #expect(
      try wire.call("DELETE", path + "?user_id=bob&reaction=%F0%9F%91%8D")["operation"] == .string("DELETE"))
    _ = try wire.call("DELETE", path, #"{"user_id":"alice","reaction":"👍"}"#)
    #expect(try wire.get(path)["reactions"]?.items.isEmpty == true)
  }

  @Test("files: uploaded with the message or before, named by url, served as they came")
  func files() throws {
    let wire = try Wire()
    let parts: [(String, String?, String?, String)] = [
      ("message_type", nil, nil, "FILE"), ("user_id", nil, nil, "alice"), ("dedup_id", nil, nil, "f1"),
      ("file", "tea.svg", "image/svg+xml", "<svg/>"),
    ]
    let sent = Value(stored: try #require(wire.upload(MessageTests.path, parts)).body)
    #expect(sent["file"]?["name"] == .string("tea.svg") && sent["file"]?["size"] == .integer(6))
    let url = try #require(sent["file"]?["url"]?.string)
    let host = "http://localhost"
    #expect(url.hasPrefix(host + "/files/"))
    let file = try #require(wire.exchange("GET", String(url.dropFirst(host.count))))
    #expect(file.body == "<svg/>" && file.header("Content-Type") == "image/svg+xml")
    // The same request again returns the same message, and stores no second file.
    let again = Value(stored: try #require(wire.upload(MessageTests.path, parts)).body)
    #expect(again["message_id"] == sent["message_id"] && again["file"] == sent["file"])
    let before = Value(
      stored: try #require(wire.upload("/v3/storage/file", [("file", "a", nil, "hello")])).body)
    let token = try #require(before["url"]?.string)
    let body = #"{"message_type":"FILE","user_id":"alice","url":"\#(token)","file_name":"a"}"#
    #expect(try wire.call("POST", MessageTests.path, body)["file"]?["url"] == .string(token))
    #expect(wire.exchange("GET", "/files/1")?.status == 404)
    #expect(try wire.code("POST", MessageTests.path, #"{"message_type":"FILE","user_id":"alice"}"#) == 400105)
  }

  @Test("unread mentions: by name, of the whole channel, never one's own, none once read")
  func mentions() throws {
    let wire = try Wire()
    func unread() throws -> Int64? {
      try wire.get("/v3/group_channels/general?user_id=bob")["unread_mention_count"]?.integer
    }
    _ = try send(wire, #""mentioned_user_ids":["alice"]"#)
    #expect(try unread() == 0)
    let mention = try send(wire, #""mentioned_user_ids":["bob"]"#)
    #expect(mention["mentioned_users"]?.items.first?["user_id"] == .string("bob"))
    _ = try send(wire, #""mention_type":"channel""#)
    #expect(try unread() == 2)
    let id = try #require(mention["message_id"]?.integer)
    _ = try wire.call(
      "PUT", "\(MessageTests.path)/\(id)", #"{"message_type":"MESG","mentioned_user_ids":["alice"]}"#)
    #expect(try unread() == 1)
    _ = try wire.call("PUT", MessageTests.path + "/mark_as_read", #"{"user_id":"bob"}"#)
    #expect(try unread() == 0)
    _ = try send(wire, #""mention_type":"channel""#, by: "bob")
    #expect(try unread() == 0)
    #expect(try wire.code("POST", MessageTests.path, mentioning("nobody")) == 400201)
  }

  private func mentioning(_ user: String) -> String {
    #"{"message_type":"MESG","user_id":"alice","message":"hi","mentioned_user_ids":["\#(user)"]}"#
  }

  @Test("admin messages have no user; silent ones and threads do not count as unread")
  func kinds() throws {
    let wire = try Wire()
    let admin = try wire.call("POST", MessageTests.path, #"{"message_type":"ADMM","message":"hear"}"#)
    #expect(admin["user"] == nil && admin["type"] == .string("ADMM"))
    let quiet = try send(wire, #""is_silent":true"#)
    #expect(quiet["silent"] == .bool(true))
    let parent = try wire.send("general", "loud")
    _ = try wire.reply(to: parent, "in the thread", by: "alice")
    let count = try wire.get(MessageTests.path + "/unread_count?user_ids=bob,alice")["unread"]
    #expect(count?["bob"] == .integer(2) && count?["alice"] == .integer(0))
    let views = try wire.get(MessageTests.path + "?message_ts=0&message_type=ADMM")["messages"]?.items
    #expect(views?.count == 1)
  }
}
