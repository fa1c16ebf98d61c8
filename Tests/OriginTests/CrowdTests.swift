import Testing

@testable import Origin

/// A channel of many members answers like one of few.
@Suite struct CrowdTests {
  /// Two worlds in which the same happens. In the second so many others are in the channel `big` that it is
  /// a crowd.
  private func worlds() throws -> [Wire] {
    try [0, ChangeForAll.mostMembers].map { others in
      let wire = try Wire()
      for number in 0..<others {
        let user = #"{"user_id":"other\#(number)","nickname":"","profile_url":""}"#
        #expect(try wire.code("POST", "/v3/users", user) == nil)
      }
      let all = ["alice", "bob"] + (0..<others).map { "other\($0)" }
      let names = all.map { "\"\($0)\"" }.joined(separator: ",")
      for (url, users) in [("first", #""alice","bob""#), ("big", names), ("last", #""alice","bob""#)] {
        let body = #"{"channel_url":"\#(url)","user_ids":[\#(users)]}"#
        #expect(try wire.code("POST", "/v3/group_channels", body) == nil)
      }
      return wire
    }
  }

  /// What a user sees of the channels: the list in its order, in pages of two.
  private func list(_ wire: Wire, of user: String) throws -> [String] {
    var shown: [String] = []
    var token = ""
    for _ in 0..<5 {
      let page = try wire.get(
        "/v3/users/\(user)/my_group_channels?limit=2&show_empty=true&order=latest_last_message&token=\(token)"
      )
      shown += (page["channels"]?.items ?? []).map { channel in
        let url = channel["channel_url"]?.string ?? "?"
        return "\(url) \(channel["unread_message_count"]?.integer ?? -1)"
      }
      token = page["next"]?.string ?? ""
      if token.isEmpty { break }
    }
    return shown
  }

  private func changes(_ wire: Wire, of user: String, since token: inout String?) throws -> [[String]] {
    var updated: [String] = []
    var deleted: [String] = []
    while true {
      let since = token.map { "token=\($0)" } ?? "change_ts=0"
      let page = try wire.get("/v3/users/\(user)/my_group_channels/changelogs?\(since)&limit=1")
      updated += page["updated"]?.items.compactMap { $0["channel_url"]?.string } ?? []
      deleted += page["deleted"]?.items.compactMap(\.string) ?? []
      token = page["next"]?.string
      guard page["has_more"] == .bool(true) else { break }
    }
    return [updated.sorted(), deleted.sorted()]
  }

  @Test("the same acts give the same lists, changelogs and counts")
  func same() throws {
    let worlds = try worlds()
    var tokens: [[String?]] = [[nil, nil], [nil, nil]]
    var newest = ["", ""]
    let path = "/v3/group_channels/big"
    let at: Int64 = 4_000_000_000_000
    let acts: [(name: String, run: (Wire, Int) throws -> Void)] = [
      ("message", { wire, _ in _ = try wire.send("big", "one", at: at) }),
      ("message elsewhere", { wire, _ in _ = try wire.send("first", "two", at: at + 1) }),
      ("message again", { wire, index in newest[index] = "\(try wire.send("big", "three", at: at + 2))" }),
      ("rename", { wire, _ in _ = try wire.call("PUT", path, #"{"name":"Big"}"#) }),
      ("hide", { wire, _ in _ = try wire.call("PUT", path + "/hide", #"{"user_id":"bob"}"#) }),
      ("deletion", { wire, index in _ = try wire.call("DELETE", path + "/messages/\(newest[index])") }),
      ("unhiding message", { wire, _ in _ = try wire.send("big", "four", at: at + 3) }),
      (
        "read",
        { wire, _ in _ = try wire.call("PUT", path + "/messages/mark_as_read", #"{"user_id":"bob"}"#) }
      ),
      ("leave", { wire, _ in _ = try wire.call("PUT", path + "/leave", #"{"user_ids":["bob"]}"#) }),
      ("message without bob", { wire, _ in _ = try wire.send("big", "five", at: at + 4) }),
      (
        "invitation",
        { wire, _ in
          _ = try wire.call(
            "POST", path + "/invite",
            #"{"user_ids":["bob"],"inviter_id":"alice","invitation_status":{"bob":"invited_by_friend"}}"#)
        }
      ),
      ("join", { wire, _ in _ = try wire.call("PUT", path + "/join", #"{"user_id":"bob"}"#) }),
      ("message elsewhere again", { wire, _ in _ = try wire.send("last", "six", at: at + 5) }),
      ("join again", { wire, _ in _ = try wire.call("PUT", path + "/join", #"{"user_id":"bob"}"#) }),
      ("message for all", { wire, _ in _ = try wire.send("big", "seven", at: at + 6) }),
    ]
    for act in acts {
      var seen: [String] = []
      for (index, wire) in worlds.enumerated() {
        try act.run(wire, index)
        let lists = try ["alice", "bob"].map { try list(wire, of: $0) }
        let news = try ["alice", "bob"].enumerated().map { number, user in
          try changes(wire, of: user, since: &tokens[index][number])
        }
        var beginning: String?
        let all = try changes(wire, of: "bob", since: &beginning)
        let channel = try wire.get(path)
        let others = Int64(index * ChangeForAll.mostMembers)
        let counts = ["member_count", "joined_member_count"].map { (channel[$0]?.integer ?? -1) - others }
        seen.append("\(lists) \(news) \(all) \(counts)")
      }
      #expect(seen[0] == seen[1], "after \(act.name)")
    }
    let everyone = try worlds.map { wire in
      try wire.get("/v3/group_channels?limit=10&show_empty=true&order=latest_last_message")["channels"]?.items
        .compactMap { $0["channel_url"]?.string }
    }
    #expect(everyone == [["big", "last", "first", "general"], ["big", "last", "first", "general"]])
    let crowds = try worlds.map { wire in
      try wire.origin.store.read { db, _ in try db.first("SELECT count(*) FROM crowd") { $0.int64(0) } }
    }
    #expect(crowds == [0, 1])
  }
}
