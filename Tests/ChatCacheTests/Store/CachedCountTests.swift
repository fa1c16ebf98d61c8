import ChatModel
import Platform
import TestSupport
import Testing

@testable import ChatCache

/// The numbers in `GET /v1/cache` and in the list of cached channels are stored as they change, not counted.
@Suite struct CachedCountTests {
  private static let users = ["alice", "bob", "carol"].map { UserID($0) }
  private static let urls = (0..<6).map { ChannelURL("c\($0)") }

  /// One random change of a cache.
  private static func step(_ random: inout SeededRandom, _ writer: CacheWriter, _ number: Int64) throws {
    let (user, url) = (random.one(of: users), random.one(of: urls))
    switch Int.random(in: 0..<20, using: &random) {
    case 0..<8:
      try writer.acknowledge(user)
      _ = try writer.store([ChannelWithMessages.channel(url)], of: user, .refresh(.channelChanged))
    case 8..<14:
      guard try writer.reader.channelKey(of: url) != nil else { return }
      try writer.store(ChannelWithMessages.message(number, at: number), in: url, .messageReceived)
    case 14: try writer.delete(message: number / 2, in: url, .messageDeleted)
    case 15, 16: try writer.removeMembership(of: user, in: url, .memberLeft)
    case 17: try writer.clear(url)
    case 18: try writer.remove(user)
    default: if random.chance(20) { try writer.clearAll(withUnsent: false) }
    }
  }

  @Test("B58: the numbers that are noted are those of the rows, whatever happens", arguments: 1...10)
  func noted(_ seed: Int) throws {
    var configuration = Cache.Configuration(directory: Disk.folder())
    configuration.mostChangedMembers = [0, 1, 2, .max][seed % 4]
    configuration.mostCleared = seed % 3 == 0 ? 0 : 1000
    let cache = try Cache(configuration)
    defer { cache.close() }
    let random = Guarded(SeededRandom(seed: UInt64(seed)))
    for number in 1...120 {
      try cache.write { writer in
        try random.withLock { try Self.step(&$0, writer, Int64(number)) }
      }
      if number % 10 == 0 { try cache.trim() }
      let faults = try cache.read { try $0.wrongCounts(after: -1).users }
      #expect(faults.isEmpty, "after step \(number) of seed \(seed): \(faults)")
      try Self.expectCounts(cache, "after step \(number) of seed \(seed)")
    }
    let found = try cache.read { try ($0.info(of: nil).channels, $0.channelKeys().count) }
    #expect(found.0 == Int64(found.1))
  }

  /// Expects that each user is told of as many messages as the user's channels have.
  private static func expectCounts(_ cache: Cache, _ step: String) throws {
    try cache.read { reader in
      for user in users {
        guard let key = try reader.userKey(of: user) else { continue }
        let stored = try reader.db.first(
          "SELECT count(*) FROM membership AS m JOIN message AS x ON x.channel = m.channel WHERE m.user = ?1"
        ) {
          $0.bind(1, key.rawValue)
        } _: {
          $0.int64(0)
        }
        #expect(try reader.info(of: key).messages == stored, "\(step), \(user)")
      }
    }
  }

  /// 60 channels with few different values in each column; alice is in all, bob in three, carol in half.
  private static func filled() throws -> Cache {
    let cache = try Cache(Cache.Configuration(directory: Disk.folder()))
    try cache.write { writer in
      for user in users { try writer.acknowledge(user) }
      for number in 0..<60 {
        let url = ChannelURL("channel-\(number * 7 % 60)")
        var record = ChannelWithMessages.channel(url, floor: number % 5 == 0 ? 1_000 : 0)
        record.customType = "kind\(number % 3)"
        record.createdAt = Int64(number % 4)
        for (user, isIn) in zip(users, [true, number % 20 == 7, number % 2 == 0]) where isIn {
          _ = try writer.store([record], of: user, .refresh(.channelChanged))
        }
        for message in 0..<(number % 3) {
          let id = Int64(number * 10 + message)
          try writer.store(ChannelWithMessages.message(id, at: 500 + id % 7), in: url, .messageReceived)
        }
        if number % 4 == 1 {
          try writer.db.execute(
            "UPDATE channel SET accessed_at = \(number % 8) WHERE channel_url = '\(url.text)'")
        }
      }
    }
    return cache
  }

  private static func value(_ channel: CachedChannel, _ order: CachedChannelOrder) -> (Int64, String) {
    switch order {
    case .accessedAt: (channel.accessedAt, "")
    case .messages: (channel.messages, "")
    case .bytes: (channel.bytes, "")
    case .lastMessageAt: (channel.lastMessageAt ?? 0, "")
    case .createdAt: (channel.createdAt, "")
    case .customType: (0, channel.customType)
    }
  }

  @Test(
    "B56: cached channels come in each order, and by url where they are equal", arguments: [nil, 0, 1, 2])
  func orders(_ user: Int?) throws {
    let cache = try Self.filled()
    defer { cache.close() }
    let key = try cache.read { reader in try user.flatMap { try reader.userKey(of: Self.users[$0]) } }
    let count = user.map { [60, 3, 30][$0] } ?? 60
    for order in CachedChannelOrder.allCases {
      for isDescending in [false, true] {
        for limit in [2, 20, 1_000] {
          let found = try cache.read {
            try $0.cachedChannels(of: key, by: order, isDescending: isDescending, limit: limit)
          }
          let all = try cache.read {
            try $0.cachedChannels(of: key, by: .createdAt, isDescending: false, limit: 1_000)
          }
          #expect(all.count == count)
          let sorted = all.sorted { left, right in
            let (a, b) = (Self.value(left, order), Self.value(right, order))
            if a != b { return (a < b) != isDescending }
            return (left.url.text < right.url.text) != isDescending
          }
          #expect(found == Array(sorted.prefix(limit)), "\(order) \(isDescending) \(limit)")
        }
      }
    }
  }

  @Test("B56 B58: no statement of what the cache holds looks at messages, or at all channels")
  func plans() throws {
    let cache = try Self.filled()
    defer { cache.close() }
    try cache.read { reader in
      func plan(_ sql: String) throws -> String {
        var rows = try reader.db.rows(composed: "EXPLAIN QUERY PLAN " + sql)
        var steps: [String] = []
        while let row = try rows.next() { steps.append(row.string(3)) }
        return steps.joined(separator: "; ")
      }
      let alice = try #require(try reader.userKey(of: Self.users[0]))
      let bob = try #require(try reader.userKey(of: Self.users[1]))
      for order in CachedChannelOrder.allCases {
        for isDescending in [false, true] {
          func walk(of user: UserKey?) throws -> String {
            try plan(reader.cachedChannelsSQL(of: user, by: order, isDescending: isDescending, limit: 20))
          }
          let all = try walk(of: nil)
          #expect(all.contains("INDEX channel_by_") && !all.contains("TEMP B-TREE"), "\(order): \(all)")
          let many = try walk(of: alice)
          #expect(order == .lastMessageAt || !many.contains("TEMP B-TREE"), "\(order): \(many)")
          let few = try walk(of: bob)
          #expect(few.contains("SEARCH m USING") && few.contains("SEARCH c USING INTEGER"), "\(few)")
          #expect(![all, many, few].contains { $0.contains("message ") }, "\(all) \(many) \(few)")
        }
      }
      for user in [nil, alice] { _ = try reader.info(of: user) }
      let statements = StatementPlanTests.statements(of: reader)
      let counted = statements.filter { $0.contains("_count") }
      #expect(counted.count == 3, "\(statements)")
      #expect(!statements.contains { $0.contains("FROM message") || $0.contains("FROM outbox") })
      for sql in counted where !sql.contains("sum(") {
        let steps = try plan(sql)
        #expect(steps.hasPrefix("SEARCH"), "\(steps)")
      }
    }
  }
}
