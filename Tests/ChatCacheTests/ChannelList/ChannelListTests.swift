import ChatModel
import Glibc
import SQLite
import TestFolders
import TestSupport
import Testing

@testable import ChatCache

@Suite struct ChannelListTests {
  private func withWorld<Result>(_ body: (inout ChannelWorld) throws -> Result) throws -> Result {
    var world = try ChannelWorld(path: TestFolder.make("channels") + "/cache.db")
    return try body(&world)
  }

  @Test("B8: SQL and memory agree on 10 000 random channels and 10 000 random queries, page by page")
  func agree() throws {
    try withWorld { world in
      for seed in 1...100 as ClosedRange<UInt64> {
        var random = SeededRandom(seed: seed)
        try world.fill(count: 100, &random)
        for _ in 0..<100 {
          let query = ChannelWorld.randomQuery(&random)
          let shown = world.channels.filter { query.shows($0, to: ChannelWorld.userID) == true }
          let keys = shown.map { ChannelListKey($0, in: query) }
          let expected = keys.sorted { $0.precedes($1) }.map(\.channelURL)
          let found = try world.pages(query, limit: Int.random(in: 1...40, using: &random))
          guard found == expected else {
            Issue.record("seed \(seed): \(query)\nSQL \(found)\nmemory \(expected)")
            return
          }
          try checkUndecided(query, world, seed)
          try checkLookup(query, world, Int.random(in: 0..<world.channels.count, using: &random), seed)
        }
      }
    }
  }

  /// Looks up one channel. The statement leaves it to its caller to hide an empty one.
  private func checkLookup(_ query: ChannelQuery, _ world: ChannelWorld, _ index: Int, _ seed: UInt64) throws
  {
    var whole = query
    whole.includesEmpty = true
    let expected = whole.shows(world.channels[index], to: ChannelWorld.userID) == true
    let sql = ChannelListSQL(
      lookingUpIn: query, user: ChannelWorld.user, named: ChannelWorld.userID,
      columns: ChannelListSQL.Columns("m.sort_at"))
    #expect(sql.text.contains("channel AS c") == sql.text.contains("c."), "\(sql.text)")
    let isFound = try world.connection.read { db in
      var rows = try db.rows(composed: sql.text) {
        ChannelListSQL.bind(sql.values, to: $0, channel: ChannelKey(Int64(index + 1)))
      }
      return try rows.next() != nil
    }
    if isFound != expected {
      Issue.record("seed \(seed): \(query) finds \(world.channels[index]): \(isFound)\n\(sql.text)")
    }
  }

  private func checkUndecided(_ query: ChannelQuery, _ world: ChannelWorld, _ seed: UInt64) throws {
    let unknown = world.channels.filter { query.shows($0, to: ChannelWorld.userID) == nil }
    let sql = ChannelListSQL.undecided(query, user: ChannelWorld.user, named: ChannelWorld.userID)
    let isTold = try sql.map { sql in
      try world.connection.read { db in
        var rows = try db.rows(composed: sql.text) { sql.bind(to: $0) }
        return try rows.next() != nil
      }
    }
    if !unknown.isEmpty, isTold != true {
      Issue.record("seed \(seed): \(query) cannot be answered for \(unknown[0]), and nobody is told")
    }
    let isAllKnown = world.channels.allSatisfy { $0.metadata != nil && $0.knowsMembers }
    if isAllKnown, isTold == true { Issue.record("seed \(seed): \(query) is called incomplete") }
  }

  private func plan(
    _ query: ChannelQuery, after: ChannelListKey?, _ world: ChannelWorld, followed: FollowedChannels = .none
  ) throws -> [String] {
    let sql = ChannelListSQL(
      query, user: ChannelWorld.user, named: ChannelWorld.userID, after: after, limit: 20,
      columns: ChannelListSQL.Columns("m.channel, m.channel_url, \(ChannelListSQL.sortAt)"),
      followed: followed)
    return try world.connection.read { db in
      var rows = try db.rows(composed: "EXPLAIN QUERY PLAN " + sql.text) { sql.bind(to: $0) }
      var plan: [String] = []
      while let row = try rows.next() { plan.append(row.string(3)) }
      return plan
    }
  }

  @Test(
    "B7: a page of an order walks that order's index, from the key on, without sorting",
    arguments: [
      (ChannelQuery.Order.latestLastMessage, "membership_by_last_message"),
      (.chronological, "membership_by_creation"), (.name, "membership_by_name"),
    ])
  func indexes(order: ChannelQuery.Order, index: String) throws {
    try withWorld { world in
      var query = ChannelQuery()
      query.order = order
      let keys = [
        nil, ChannelListKey(time: 5, text: "x", channelURL: "u"),
        ChannelListKey(time: 5, text: "", channelURL: "u"),
      ]
      for key in keys {
        let plan = try plan(query, after: key, world)
        #expect(plan.contains { $0.contains(index) }, "\(plan)")
        #expect(!plan.contains { $0.contains("TEMP B-TREE") || $0.hasPrefix("SCAN") }, "\(plan)")
      }
      let plan = try plan(query, after: keys[1], world)
      #expect(plan.contains { $0.contains("INDEX \(index) (user=? AND ") }, "\(plan)")
    }
  }

  @Test("B7, B64: of a user's crowded channels a few are sorted, and many are walked in their order")
  func followed() throws {
    try withWorld { world in
      for key in [nil, ChannelListKey(time: 5, text: "", channelURL: "u")] {
        let many = try plan(ChannelQuery(), after: key, world, followed: .many)
        #expect(many.contains { $0.contains("channel_crowded") } && many.contains("MERGE (UNION ALL)"))
        #expect(!many.contains { $0.contains("TEMP B-TREE") || $0.hasPrefix("SCAN m") }, "\(many)")
        let few = try plan(ChannelQuery(), after: key, world, followed: .few)
        #expect(few.filter { $0.contains("TEMP B-TREE") }.count == 1, "\(few)")
      }
    }
  }

  @Test("B7: only the order by a metadata value sorts, and it looks each value up by key")
  func metadataOrder() throws {
    try withWorld { world in
      var query = ChannelQuery()
      query.order = .metadataValue
      query.metadataOrderKey = "color"
      let plan = try plan(query, after: nil, world)
      #expect(plan.contains { $0.contains("SEARCH m") })
      #expect(plan.contains { $0.contains("SEARCH v USING PRIMARY KEY (channel=? AND key=?)") }, "\(plan)")
      #expect(plan.contains { $0.contains("TEMP B-TREE FOR ORDER BY") })
    }
  }

  @Test("B6: member and metadata filters look up by key, they never scan")
  func filterPlans() throws {
    try withWorld { world in
      var query = ChannelQuery()
      query.userIDsInclude = ["a", "b"]
      query.metadataKey = "color"
      query.metadataValues = ["red"]
      query.search = "x"
      let plan = try plan(query, after: nil, world)
      #expect(!plan.contains { $0.hasPrefix("SCAN") }, "\(plan)")
      #expect(plan.contains { $0.contains("membership_by_last_message") }, "\(plan)")
    }
  }

  @Test("B7: later times first, channels without messages last by creation, texts by bytes with none last")
  func order() {
    var query = ChannelQuery()
    let facts = { (url: String, last: Int64?, created: Int64, name: String) in
      var facts = ChannelFacts(channelURL: url)
      facts.createdAt = created
      facts.sortAt = ChannelColumns.sortAt(lastMessageAt: last, createdAt: created)
      facts.nameKey = ChannelColumns.key(name)
      return facts
    }
    let all = [
      facts("a", 5, 1, "b"), facts("b", nil, 9, ""), facts("c", 0, 2, "Ä"), facts("d", nil, 3, "B"),
      facts("e", 5, 7, "a"),
    ]
    let sorted = { (query: ChannelQuery) in
      all.map { ChannelListKey($0, in: query) }.sorted { $0.precedes($1) }.map(\.channelURL).joined()
    }
    #expect(sorted(query) == "aecbd")
    query.order = .chronological
    #expect(sorted(query) == "bedca")
    query.order = .name
    #expect(sorted(query) == "eadcb")
  }
}
