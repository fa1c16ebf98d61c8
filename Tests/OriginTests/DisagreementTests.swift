import Testing

@testable import Origin

/// The faults with which the stand-in breaks assumptions of a client, each observed over HTTP.
@Suite struct DisagreementTests {
  private static let list = "/v3/group_channels/general/messages"
  private static let newest = list + "?message_ts=9007199254740991&prev_limit=50&next_limit=0"

  private func set(_ wire: Wire, _ fault: String, path: String = "/v3/*") throws {
    _ = try wire.call("PUT", "/_faults", #"{"seed":7,"faults":[{\#(fault),"path":"\#(path)"}]}"#)
  }

  private func ids(_ answer: Value) -> [Int64] {
    (answer["messages"]?.items ?? []).compactMap { $0["message_id"]?.integer }
  }

  @Test(
    "stale_page: what was, with deleted messages and without new ones; for a file, too",
    arguments: [false, true])
  func stalePage(isFile: Bool) throws {
    let wire = try Wire(in: isFile ? Scratch() : nil)
    let old = try wire.send("general", "old")
    try set(wire, #""kind":"stale_page","milliseconds":60000"#, path: Self.list)
    let new = try wire.send("general", "new")
    _ = try wire.call("DELETE", Self.list + "/\(old)")
    #expect(ids(try wire.get(Self.newest)) == [old])
    #expect(try wire.get(Self.list + "/\(new)")["message_id"] == .integer(new))
    _ = try wire.call("DELETE", "/_faults")
    #expect(ids(try wire.get(Self.newest)) == [new])
  }

  @Test("empty_page: a list is empty and has no next page")
  func emptyPage() throws {
    let wire = try Wire()
    _ = try wire.send("general", "here")
    try set(wire, #""kind":"empty_page""#)
    #expect(try wire.get(Self.newest)["messages"] == .array([]))
    let users = try wire.get("/v3/users?limit=1")
    #expect(users["users"] == .array([]) && users["next"] == .string(""))
  }

  @Test("lagging_listing: a young message is not listed and is there by its id")
  func laggingListing() throws {
    let wire = try Wire()
    let old = try wire.send("general", "old", at: 1_700_000_000_000)
    let young = try wire.send("general", "young")
    try set(wire, #""kind":"lagging_listing","milliseconds":60000"#)
    #expect(ids(try wire.get(Self.newest)) == [old])
    #expect(try wire.get(Self.list + "/\(young)")["message_id"] == .integer(young))
  }

  @Test("reorder_page: the same items in another order")
  func reorderPage() throws {
    let wire = try Wire()
    let sent = try (0..<20).map { try wire.send("general", "m\($0)") }
    try set(wire, #""kind":"reorder_page""#)
    let listed = ids(try wire.get(Self.newest))
    #expect(listed != sent && listed.sorted() == sent)
  }

  @Test("deny: any code, a bare status, or HTML, for the paths that are named")
  func deny() throws {
    let wire = try Wire()
    try set(wire, #""kind":"deny","code":400302"#, path: "*/changelogs")
    let changelog = Self.list + "/changelogs?change_ts=0"
    #expect(try wire.get(changelog)["code"] == .integer(400302))
    #expect(wire.exchange("GET", "/v3/users")?.status == 200)
    try set(wire, #""kind":"deny","status":403,"body":"bare""#)
    #expect(wire.exchange("GET", changelog)?.status == 403)
    #expect(wire.exchange("GET", changelog)?.body == "")
    try set(wire, #""kind":"deny","status":404,"body":"html""#)
    #expect(wire.exchange("GET", changelog)?.body.hasPrefix("<html>") == true)
    #expect(try wire.code("PUT", "/_faults", #"{"faults":[{"kind":"deny","body":"poem"}]}"#) == 400111)
  }

  @Test("strict_words: the documented word is taken, its lower case is not")
  func strictWords() throws {
    let wire = try Wire()
    #expect(try wire.code("GET", Self.newest + "&include_reply_type=all") == nil)
    try set(wire, #""kind":"strict_words""#)
    #expect(try wire.code("GET", Self.newest + "&include_reply_type=all") == 400111)
    #expect(try wire.code("GET", Self.newest + "&include_reply_type=ALL") == nil)
    #expect(try wire.code("GET", Self.newest + "&include_reactions=True") == 400104)
  }

  @Test("no_member_view: a channel says nothing that only one member sees")
  func noMemberView() throws {
    let wire = try Wire()
    try set(wire, #""kind":"no_member_view""#)
    let one = try wire.get("/v3/group_channels/general?user_id=alice")
    #expect(one["channel_url"] != nil && one["member_state"] == nil && one["ts_message_offset"] == nil)
    let list = try wire.get("/v3/users/alice/my_group_channels?show_empty=true")["channels"]?.items ?? []
    #expect(list.count == 1 && list[0]["member_state"] == nil)
  }

  @Test("foreign_items: each way of spoiling items is seen", arguments: Spoiling.allCases)
  func foreignItems(way: Spoiling) throws {
    let wire = try Wire()
    for number in 0..<30 { _ = try wire.send("general", "m\(number)") }
    try set(wire, #""kind":"foreign_items","spoils":["\#(way.rawValue)"]"#)
    let items = try wire.get(Self.newest)["messages"]?.items ?? []
    let spoiled = items.count { item in
      switch way {
      case .unknownType: item["type"] == .string("HOLO")
      case .missing: item["message_id"] == nil || item["created_at"] == nil
      case .null: item["message_id"] == .null || item["created_at"] == .null
      case .numbersAsStrings: item["message_id"]?.string != nil
      }
    }
    #expect(items.count == 30 && (1..<30).contains(spoiled))
  }

  @Test("unstable_ties: messages of one millisecond come in another order, and times still rise")
  func unstableTies() throws {
    let wire = try Wire()
    for number in 0..<20 {
      _ = try wire.send("general", "m\(number)", at: 1_700_000_000_000 + Int64(number / 10))
    }
    let sorted = ids(try wire.get(Self.newest))
    try set(wire, #""kind":"unstable_ties""#)
    let first = try wire.get(Self.newest)
    let second = try wire.get(Self.newest)
    #expect(ids(first) != ids(second) && ids(first).sorted() == sorted)
    let times = (first["messages"]?.items ?? []).compactMap { $0["created_at"]?.integer }
    #expect(times == times.sorted())
    let anchor = try #require(ids(first).first)
    let window = Self.list + "?message_id=\(anchor)&prev_limit=0&next_limit=5&include=true"
    #expect(ids(try wire.get(window)).first == anchor)
  }
}
