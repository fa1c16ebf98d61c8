import Testing

@testable import Origin

@Suite struct SeedTests {
  private func channels(_ wire: Wire, of user: String, _ query: String = "") throws -> [String: Value] {
    let path = "/v3/users/\(user)/my_group_channels?limit=100&show_empty=true&show_member=true\(query)"
    let items = try wire.get(path)["channels"]?.items ?? []
    return Dictionary(uniqueKeysWithValues: items.map { ($0["channel_url"]?.string ?? "", $0) })
  }

  /// All messages of a channel, page by page as a client reads them.
  private func messages(_ wire: Wire, _ url: String) throws -> [Value] {
    var all: [Value] = []
    var anchor = "message_ts=0"
    while true {
      let page = try wire.get(
        "/v3/group_channels/\(url)/messages?\(anchor)&prev_limit=0&next_limit=200&include_reply_type=all"
          + "&include_reactions=true&include_thread_info=true&with_sorted_meta_array=true&include=false")
      let items = page["messages"]?.items ?? []
      all += items
      guard items.count == 200, let last = items.last?["message_id"]?.integer else { return all }
      anchor = "message_id=\(last)"
    }
  }

  @Test("the small seed is the documented one")
  func small() throws {
    let wire = try Wire(seed: .small, isFresh: false)
    let users = try wire.get("/v3/users")["users"]?.items.compactMap { $0["user_id"]?.string }
    #expect(users == ["alice", "bob", "carol", "dave"])
    let all = try channels(wire, of: "alice")
    #expect(
      all.mapValues { Set($0["members"]?.items.compactMap { $0["user_id"]?.string } ?? []) } == [
        "general": ["alice", "bob", "carol", "dave"], "random": ["alice", "bob"],
        "alice-and-bob": ["alice", "bob"], "announcements": ["alice", "bob", "carol", "dave"],
        "quiet": ["alice", "bob"], "big": ["alice", "carol"],
      ])
    #expect(
      all["alice-and-bob"]?["is_distinct"] == .bool(true) && all["random"]?["is_distinct"] == .bool(false))
    #expect(all["announcements"]?["freeze"] == .bool(true))
    #expect(all["quiet"]?["last_message"] == nil)
    #expect(all["general"]?["unread_message_count"]?.integer ?? 0 > 0)
    let bobs = try channels(wire, of: "bob")
    #expect(bobs["secret"]?["member_count"] == .integer(2))
    #expect(try wire.get("/v3/group_channels/secret/members/carol")["is_member"] == .bool(true))
    #expect(try messages(wire, "announcements").allSatisfy { $0["type"] == .string("ADMM") })
    #expect(try wire.get("/v3/group_channels/big/messages/total_count")["total"] == .integer(3000))
  }

  @Test("general has threads, replies, reactions, files that are served, mentions, edits, right-to-left text")
  func life() throws {
    let wire = try Wire(seed: .small, isFresh: false)
    let all = try messages(wire, "general")
    #expect(all.count == 400)
    #expect(all.count { $0["thread_info"]?["reply_count"]?.integer ?? 0 > 0 } >= 5)
    #expect(all.contains { $0["parent_message_id"] != nil && $0["is_reply_to_channel"] == .bool(true) })
    #expect(all.count { !($0["reactions"]?.items.isEmpty ?? true) } > 20)
    #expect(all.contains { !($0["mentioned_users"]?.items.isEmpty ?? true) })
    #expect(all.contains { $0["updated_at"]?.integer ?? 0 > 0 })
    #expect(all.contains { !($0["sorted_metaarray"]?.items.isEmpty ?? true) })
    #expect(Set(all.compactMap { $0["type"]?.string }) == ["MESG", "FILE", "ADMM"])
    let scalars = all.compactMap { $0["message"]?.string }.joined().unicodeScalars
    #expect(scalars.contains { (0x590...0x5FF).contains($0.value) })
    #expect(scalars.contains { $0.properties.isEmojiPresentation })
    let url = try #require(all.first { $0["type"] == .string("FILE") }?["file"]?["url"]?.string)
    let file = try #require(wire.exchange("GET", String(url.dropFirst("http://localhost".count))))
    #expect(file.header("Content-Type") == "image/svg+xml" && file.body.hasPrefix("<svg"))
  }

  @Test("big has 300 messages in one millisecond, and is read whole over them")
  func ties() throws {
    let wire = try Wire(seed: .small, isFresh: false)
    let all = try messages(wire, "big")
    #expect(Set(all.compactMap { $0["message_id"]?.integer }).count == 3000)
    var counts: [Int64: Int] = [:]
    for message in all { counts[message["created_at"]?.integer ?? 0, default: 0] += 1 }
    #expect(counts.values.max() ?? 0 >= 300)
    #expect(counts.values.count { $0 == 2 } > 10)
  }

  @Test("the large seed has 100 000 messages in a channel, and channels of every kind")
  func large() throws {
    let wire = try Wire(seed: .large, isFresh: false)
    #expect(try wire.get("/v3/group_channels/large/messages/total_count")["total"] == .integer(100_000))
    let all = try channels(wire, of: "alice", "&hidden_mode=all")
    #expect(all["crowd"]?["is_super"] == .bool(true) && all["crowd"]?["member_count"] == .integer(154))
    #expect(all["invitation"]?["member_state"] == .string("invited"))
    #expect(all["old-project"]?["is_hidden"] == .bool(true))
    #expect(all["general"]?["is_public"] == .bool(true))
    #expect(all["announcements"]?["is_broadcast"] == .bool(true))
    let debate = try messages(wire, "debate").first
    #expect(debate?["thread_info"]?["reply_count"]?.integer ?? 0 >= 600)
  }

  @Test("N channels of 100 messages, each with its stamp in the list's changelog")
  func channels() throws {
    let wire = try Wire(seed: .channels(230), isFresh: false)
    var urls: Set<String> = []
    var since = "change_ts=0"
    var pages = 0
    repeat {
      let page = try wire.get("/v3/users/alice/my_group_channels/changelogs?\(since)")
      urls.formUnion(page["updated"]?.items.compactMap { $0["channel_url"]?.string } ?? [])
      pages += 1
      guard page["has_more"] == .bool(true), pages < 10 else { break }
      since = "token=\(page["next"]?.string ?? "")"
    } while true
    #expect(urls.count == 230 && pages == 3)
    #expect(try wire.get("/v3/group_channels/channel-229/messages/total_count")["total"] == .integer(100))
  }

  @Test("chatter talks like clients do: messages come, and webhooks tell of them")
  func chatter() throws {
    let receiver = try WebhookReceiver()
    let wire = try Wire(seed: .small, isFresh: false, webhookURL: receiver.url)
    wire.origin.startChatter(perSecond: 200)
    let came = Set(receiver.deliveries(60).map(\.category))
    #expect(
      came.isSuperset(of: [
        "group_channel:message_send", "group_channel:reaction_add", "group_channel:message_read",
        "group_channel:message_update",
      ]))
  }
}
