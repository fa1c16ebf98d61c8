import ChatModel
import JSON
import TestFolders
import TestSupport
import Testing

@testable import ChatCache

/// Read positions of few and of many members.
@Suite struct ReadPositionsTests {
  private static let alice = UserID("alice")
  private static let url = ChannelURL("general")

  private func withCache(_ body: (Cache) throws -> Void) throws {
    let cache = try Cache(Cache.Configuration(directory: TestFolder.make("positions")))
    defer { cache.close() }
    try cache.write { writer in
      try writer.acknowledge(Self.alice)
      _ = try writer.store([Self.room(of: 100_000)], of: Self.alice, .listing(sweep: 1))
    }
    try body(cache)
  }

  private static func room(of members: Int64) -> ChannelRecord {
    var record = ChannelWithMessages.channel(url)
    (record.memberCount, record.joinedMemberCount) = (members, members)
    return record
  }

  /// An answer with positions. `members`: how many members it counts.
  private func read(_ receipts: [String: Int64], members: Int64 = 100_000, _ cache: Cache) throws {
    var record = Self.room(of: members)
    record.readReceipts = ReadReceipts(Dictionary(uniqueKeysWithValues: receipts.map { (ExactText($0), $1) }))
    let changed = record
    _ = try cache.write { try $0.store([changed], of: Self.alice, .refresh(.read)) }
  }

  private func list(_ users: [String], _ cache: Cache) throws {
    var record = Self.room(of: 100_000)
    record.members = users.map {
      MemberRecord(userID: $0, nickname: $0, state: .joined, body: Array("\"user_id\":\"\($0)\"".utf8))
    }
    let changed = record
    _ = try cache.write { try $0.store([changed], of: Self.alice, .refresh(.channelRefresh)) }
  }

  /// What the channel's answer says, and the members' positions in the member list.
  private func shown(_ cache: Cache) throws -> (
    receipts: [String: Int64], count: Int64?, ofMembers: [String: Int64]
  ) {
    try cache.read { reader in
      let key = try #require(try reader.userKey(of: Self.alice))
      let view = try #require(try reader.view(of: Self.url, for: key))
      let object = try reader.channel(view)?.array ?? []
      var (receipts, ofMembers): ([String: Int64], [String: Int64]) = ([:], [:])
      let count = try object.withUnsafeBytes { bytes in
        try JSONParser.parse(bytes) { json -> Int64? in
          for (user, moment) in try #require(json["read_receipts"]).fields {
            receipts[String(decoding: user, as: UTF8.self)] = moment.int64
          }
          return json["reader_count"]?.int64
        }
      }
      let page = try reader.members(of: view, after: "", limit: 1_000)
      let items = Array("[".utf8) + page.items.array + Array("]".utf8)
      try items.withUnsafeBytes { bytes in
        try JSONParser.parse(bytes) { json in
          for member in json.items {
            ofMembers[member["user_id"]?.string ?? ""] = member["last_read_at"]?.int64
          }
        }
      }
      return (receipts, count, ofMembers)
    }
  }

  @Test("B11: a channel and its member list show each position, however many there are", arguments: 1...6)
  func model(seed: Int) throws {
    try withCache { cache in
      var random = SeededRandom(seed: UInt64(seed))
      var model: [String: Int64] = [:]
      var members: Set<String> = []
      for step in 0..<60 {
        if Int.random(in: 0..<4, using: &random) == 0 {
          members.formUnion((0..<20).map { _ in "u\(Int.random(in: 0..<160, using: &random))" })
          try list(members.sorted(), cache)
        } else {
          let count = [1, 2, 10, 40].randomElement(using: &random) ?? 1
          var receipts: [String: Int64] = [:]
          for _ in 0..<count {
            receipts["u\(Int.random(in: 0..<160, using: &random))"] = Int64.random(
              in: 1...500, using: &random)
          }
          let before = try cache.read { try $0.lastChange() }
          try read(receipts, cache)
          let isNews = receipts.contains { $1 > model[$0] ?? .min }
          let after = try cache.read { try $0.lastChange() }
          #expect((after > before) == isNews, "seed \(seed), step \(step)")
          model.merge(receipts) { max($0, $1) }
        }
        let shown = try shown(cache)
        let isMany = model.count > ReadPositions.mostInChannel
        #expect(shown.receipts == (isMany ? [:] : model), "seed \(seed), step \(step)")
        #expect(shown.count == (isMany ? Int64(model.count) : nil), "seed \(seed), step \(step)")
        for member in members {
          #expect(
            shown.ofMembers[member] == model[member, default: 0], "seed \(seed), step \(step), \(member)")
        }
        let asked = (0..<3).map { _ in ExactText("u\(Int.random(in: 0..<160, using: &random))") }
        let found = try cache.read { reader in
          try reader.readPositions(of: asked, in: try #require(try reader.channelKey(of: Self.url)))
        }
        for user in asked { #expect(found[user] == model[user.text]) }
      }
      #expect(model.count > ReadPositions.mostInChannel, "both ways were gone")
      #expect(try cache.check().findings.isEmpty)
    }
  }

  @Test("B20: a refresh because of reads tells reads as reads, and what else it finds as found by a refresh")
  func sources() throws {
    try withCache { cache in
      var record = Self.room(of: 100_000)
      /// Stores the answer of a refresh. Returns the sources of what it tells.
      func told() throws -> Set<ChangeSource> {
        let (before, changed) = (try cache.read { try $0.lastChange() }, record)
        _ = try cache.write { try $0.store([changed], of: Self.alice, .refresh(.read)) }
        return try cache.read { reader in
          let user = try #require(try reader.userKey(of: Self.alice))
          return Set(try reader.changes(for: user, after: before, limit: 100).changes.map(\.change.source))
        }
      }
      func member(named name: String) -> MemberRecord {
        MemberRecord(
          userID: "bob", nickname: name, state: .joined, body: Array("\"nickname\":\"\(name)\"".utf8))
      }
      record.members = [member(named: "Bob")]
      record.readReceipts = ReadReceipts([ExactText("bob"): 1])
      try #expect(told() == [.channelRefresh])
      record.readReceipts = ReadReceipts([ExactText("bob"): 2])
      try #expect(told() == [.read])
      record.members = [member(named: "Robert")]
      record.readReceipts = ReadReceipts([ExactText("bob"): 3])
      try #expect(told() == [.channelRefresh])
    }
  }

  @Test("B11: one of 5 000 members who reads on costs what one of 50 does")
  func narrow() throws {
    func pages(_ count: Int) throws -> Int {
      var pages = 0
      try withCache { cache in
        try read(Dictionary(uniqueKeysWithValues: (0..<count).map { ("u\($0)", 1) }), cache)
        try read(["u7": 2], cache)
        let before = cache.walBytes
        for moment in 3..<23 { try read(["u7": Int64(moment)], cache) }
        pages = (cache.walBytes - before) / 20 / 4096
      }
      return pages
    }
    let (few, many) = (try pages(50), try pages(5_000))
    #expect(many <= few + 3, "\(many) pages a read, \(few) with 50 members")
  }

  @Test(
    "B58, B69: a cleared cache keeps no position; a channel that is left and joined again has a right number")
  func gone() throws {
    func positions(_ cache: Cache) throws -> Int64? {
      try cache.read { try $0.db.first("SELECT count(*) FROM read_position") { $0.int64(0) } }
    }
    let receipts = Dictionary(uniqueKeysWithValues: (0..<1_000).map { ("u\($0)", Int64($0 + 1)) })
    try withCache { cache in
      try read(receipts, cache)
      #expect(try positions(cache) == 1_000)
      let key = try cache.read { try #require(try $0.channelKey(of: Self.url)) }
      try cache.write { try $0.removeMembership(of: Self.alice, in: Self.url, .memberLeft) }
      while try positions(cache) == 1_000 {
        #expect(try cache.write { try $0.removeSlice(ofLeft: key) }, "more is left")
      }
      let left = try positions(cache) ?? 0
      #expect((1..<1_000).contains(left))
      try list([], cache)
      #expect(try shown(cache).count == left, "somebody joined before the rest was deleted")
      try read(receipts, cache)
      #expect(try shown(cache).count == 1_000)
      #expect(try cache.check().findings.isEmpty)
      try cache.write { try $0.clearAll(withUnsent: false) }
      #expect(try positions(cache) == 0)
    }
  }

  @Test(
    "B11: of people who have left no position stays, whether few or many came and went", arguments: [30, 300])
  func turnover(people: Int) throws {
    try withCache { cache in
      try read(["alice": 1, "bob": 2], members: 2, cache)
      for number in 0..<people {
        // Somebody comes, reads, and goes. The upstream shows who is there.
        try read(["alice": 1, "bob": 2, "guest\(number)": 3], members: 3, cache)
      }
      #expect(try shown(cache).receipts == ["alice": 1, "bob": 2, "guest\(people - 1)": 3])
      try read(["alice": 1, "bob": 2], members: 2, cache)
      #expect(try shown(cache).receipts == ["alice": 1, "bob": 2])
      #expect(try shown(cache).count == nil)
      // An answer that has fewer positions than members says nothing of the others.
      try read(["alice": 5], members: 2, cache)
      #expect(try shown(cache).receipts == ["alice": 5, "bob": 2])
      #expect(try cache.check().findings.isEmpty)
    }
  }

  @Test("B11: thousands of positions of strangers go with honest answers, and the room is a small one again")
  func strangers() throws {
    try withCache { cache in
      try list(["alice", "bob"], cache)
      let strangers = Dictionary(uniqueKeysWithValues: (0..<2_500).map { ("s\($0)", Int64(7)) })
      try read(strangers, members: 2_500, cache)
      #expect(try shown(cache).count == 2_500)
      let before = try cache.read { try $0.lastChange() }
      for _ in 0..<3 { try read(["alice": 1, "bob": 2], members: 2, cache) }
      #expect(try shown(cache).receipts == ["alice": 1, "bob": 2])
      #expect(try shown(cache).count == nil)
      #expect(try cache.read { try $0.lastChange() } > before, "clients are told")
      #expect(try cache.check().findings.isEmpty)
    }
  }

  @Test("B11: a member who leaves takes the position along, and comes back without one")
  func rejoins() throws {
    try withCache { cache in
      let receipts = Dictionary(uniqueKeysWithValues: (0..<120).map { ("u\($0)", Int64($0 + 1)) })
      try list(receipts.keys.sorted(), cache)
      try read(receipts, cache)
      for number in 0..<70 {
        try cache.write { writer in
          try writer.settleMembers(
            of: Self.url, news: Int64(number), came: [], gone: [UserID("u\(number)")], .memberLeft)
        }
        let left = 119 - number
        #expect(try shown(cache).count == (left > 50 ? Int64(left) : nil))
        #expect(try shown(cache).receipts.count == (left > 50 ? 0 : left))
      }
      try list(["u3", "u100"], cache)
      let members = try shown(cache).ofMembers
      #expect(members["u3"] == 0 && members["u100"] == 101)
      try read(receipts, cache)
      #expect(try shown(cache).count == 120, "an answer that was passed over before counts again")
      #expect(try cache.check().findings.isEmpty)
    }
  }
}
