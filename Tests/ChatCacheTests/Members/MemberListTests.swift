import ChatModel
import Testing

@testable import ChatCache

/// Whether the stored member list is complete, and which members it loses (B8, B10).
@Suite struct MemberListTests {
  private static let alice = UserID("alice")
  private static let url = ChannelURL("crowd")

  private func withCache(_ body: (Cache) throws -> Void) throws {
    let cache = try Cache(Cache.Configuration(directory: Disk.folder()))
    defer { cache.close() }
    try cache.write { try $0.acknowledge(Self.alice) }
    try body(cache)
  }

  private static func members(_ names: [String]) -> [MemberRecord] {
    names.map {
      MemberRecord(userID: $0, nickname: $0, state: .joined, body: Array("\"user_id\":\"\($0)\"".utf8))
    }
  }

  private static func people(_ numbers: Range<Int>) -> [String] {
    numbers.map { "p" + String(1_000 + $0).dropFirst() }
  }

  /// Stores a channel object with some of its members, and a member count.
  private func show(
    _ names: [String], of count: Int64, askedAt: Int64? = nil, news: Int64? = nil, _ cache: Cache
  ) throws {
    var record = ChannelWithMessages.channel(Self.url)
    record.memberCount = count
    record.members = Self.members(names)
    record.asked = askedAt.map { ChannelRecord.Asked(sequence: $0, memberNews: news) }
    let shown = record
    try cache.write { _ = try $0.store([shown], of: Self.alice, .refresh(.channelRefresh)) }
  }

  private func list(_ cache: Cache) throws -> (names: [String], isComplete: Bool) {
    try cache.read { reader in
      let channel = try #require(try reader.channelKey(of: Self.url))
      let names = try reader.db.all("SELECT user_id FROM member WHERE channel = ?1 ORDER BY user_id") {
        $0.bind(1, channel.rawValue)
      } _: {
        $0.string(0)
      }
      return (names, try reader.memberList(of: Self.url).isComplete)
    }
  }

  /// Runs a listing of these pages. A member that it did not list is removed, unless `present` has the
  /// member.
  @discardableResult
  private func run(
    _ pages: [[String]], counted: Int64?, present: [String] = [], _ cache: Cache,
    between: (Int) throws -> Void = { _ in }
  ) throws -> Bool {
    let listing = try #require(try cache.write { try $0.beginMembers(of: Self.url, anew: true) })
    for (index, page) in pages.enumerated() {
      let members = Self.members(page)
      let next = index + 1 < pages.count ? "t\(index + 1)" : nil
      #expect(try cache.write { try $0.store(members, of: Self.url, in: listing, next: next) })
      try between(index)
    }
    let shown = try cache.read { try $0.shownMembers(of: Self.url, by: listing) }
    let gone = shown.absent.filter { !present.contains($0.text) }
    return try cache.write { try $0.endMembers(of: Self.url, listing, gone: gone, counted: counted) }
  }

  @Test("B8: a channel that shows as many members as it counts is whole; one that shows fewer claims nothing")
  func shown() throws {
    try withCache { cache in
      try show(Self.people(0..<3), of: 3, cache)
      #expect(try list(cache) == (Self.people(0..<3), true))
      try show(Self.people(0..<2), of: 2, cache)
      #expect(try list(cache) == (Self.people(0..<2), true), "the one who is not shown is gone")
      try show(Self.people(0..<2), of: 5, cache)
      #expect(try list(cache) == (Self.people(0..<2), false))
    }
  }

  @Test("B8: 28 of 131 leave, the channel shows the first hundred: the ghosts are never called complete")
  func ghosts() throws {
    try withCache { cache in
      try show(Self.people(0..<100), of: 131, cache)
      #expect(try run([Self.people(0..<100), Self.people(100..<131)], counted: 131, cache))
      #expect(try list(cache) == (Self.people(0..<131), true))
      try show(Self.people(0..<100), of: 103, cache)
      #expect(try !list(cache).isComplete, "128 rows and more are not 103 members")
      // As many members joined as left, so the count proves nothing.
      try show(Self.people(31..<131), of: 131, cache)
      #expect(try list(cache).names.count == 131)
      #expect(try !list(cache).isComplete, "a count that is right again proves nothing")
      #expect(try run([Self.people(28..<128), Self.people(128..<131)], counted: 103, cache))
      #expect(try list(cache) == (Self.people(28..<131), true))
    }
  }

  @Test("B27: only a listing's end removes, and it spares who came after it began; then it proves nothing")
  func spared() throws {
    try withCache { cache in
      try show(Self.people(0..<100), of: 120, cache)
      try run([Self.people(0..<100), Self.people(100..<120)], counted: 120, cache)
      let isWhole = try run([Self.people(1..<101), Self.people(101..<120)], counted: 120, cache) { page in
        if page == 0 {
          #expect(try list(cache).names.count == 120, "a page takes nobody away")
          try show(["newcomer"], of: 120, cache)
        }
      }
      #expect(!isWhole, "somebody came by another word meanwhile")
      let (names, isComplete) = try list(cache)
      #expect(names.contains("newcomer") && !names.contains("p000") && !isComplete)
    }
  }

  @Test("B27: where one who was not shown is there after all, nobody goes and nothing is proven")
  func stalePage() throws {
    try withCache { cache in
      try show(Self.people(0..<100), of: 101, cache)
      try run([Self.people(0..<100), Self.people(100..<101)], counted: 101, cache)
      #expect(try !run([Self.people(0..<50)], counted: nil, present: Self.people(50..<101), cache))
      #expect(try list(cache) == (Self.people(0..<101), false))
      #expect(try run([Self.people(0..<100)], counted: 101, present: ["p100"], cache))
      #expect(try list(cache) == (Self.people(0..<101), true), "the one who was not shown was asked for")
    }
  }

  @Test("B10: a note of a leave makes the list incomplete at once, and in step when it is settled")
  func news() throws {
    try withCache { cache in
      try show(Self.people(0..<100), of: 101, cache)
      try run([Self.people(0..<100), Self.people(100..<101)], counted: 101, cache)
      let note = WebhookNote(kind: .channel, channel: Self.url, source: .memberLeft, users: [UserID("p100")])
      try cache.write { _ = try $0.note([note]) }
      #expect(try !list(cache).isComplete)
      let news = try cache.read { try $0.memberList(of: Self.url).news }
      // Another note comes while the upstream is asked about the first.
      try cache.write { _ = try $0.note([note]) }
      try show(Self.people(0..<100), of: 100, askedAt: .max, news: news, cache)
      #expect(try list(cache) == (Self.people(0..<100), false), "the second note is not settled yet")
      try show(Self.people(0..<100), of: 100, askedAt: .max, news: news + 1, cache)
      #expect(try list(cache) == (Self.people(0..<100), true))
    }
  }

  @Test("B10: whom a note names goes or comes as the upstream says by the id, and the list stays whole")
  func settled() throws {
    try withCache { cache in
      try show(Self.people(0..<100), of: 102, cache)
      try run([Self.people(0..<100), Self.people(100..<102)], counted: 102, cache)
      let note = WebhookNote(kind: .channel, channel: Self.url, source: .memberLeft, users: [UserID("p101")])
      try cache.write { _ = try $0.note([note]) }
      try show(Self.people(0..<100), of: 101, cache)
      #expect(try !list(cache).isComplete)
      let came = Self.members(["q"])
      let news = try cache.read { try $0.memberList(of: Self.url).news }
      try cache.write {
        try $0.settleMembers(of: Self.url, news: news, came: [], gone: [UserID("p101")], .memberLeft)
      }
      #expect(try list(cache) == (Self.people(0..<101), true))
      try cache.write {
        _ = try $0.note([note])
        try $0.settleMembers(of: Self.url, news: news + 1, came: came, gone: [UserID("p000")], .memberJoined)
      }
      #expect(try list(cache).isComplete)
      #expect(try list(cache).names == Self.people(1..<101) + ["q"])
    }
  }

  @Test("B27: an answer asked for before somebody came takes nobody away and proves nothing")
  func overtaken() throws {
    try withCache { cache in
      try show(Self.people(0..<3), of: 3, cache)
      let askedAt = cache.cursor.sequence
      try show(Self.people(0..<4), of: 4, askedAt: askedAt, cache)
      #expect(try list(cache) == (Self.people(0..<4), true))
      try show(Self.people(0..<3), of: 3, askedAt: askedAt, cache)
      #expect(try list(cache) == (Self.people(0..<4), false))
    }
  }

  @Test(
    "a listing that was cut off goes on at its page; a page of an older one is left out, also after a clear")
  func goesOn() throws {
    try withCache { cache in
      try show(Self.people(0..<1), of: 2, cache)
      let first = try #require(try cache.write { try $0.beginMembers(of: Self.url, anew: false) })
      #expect(try cache.write { try $0.store(Self.members(["p000"]), of: Self.url, in: first, next: "t1") })
      let again = try #require(try cache.write { try $0.beginMembers(of: Self.url, anew: false) })
      #expect(again.number == first.number && again.token == "t1")
      let anew = try #require(try cache.write { try $0.beginMembers(of: Self.url, anew: true) })
      #expect(anew.number > first.number && anew.token == nil)
      #expect(try !cache.write { try $0.store(Self.members(["x"]), of: Self.url, in: first, next: nil) })
      try cache.write { try $0.clearAll(withUnsent: false) }
      try show(Self.people(0..<1), of: 2, cache)
      let later = try #require(try cache.write { try $0.beginMembers(of: Self.url, anew: false) })
      #expect(later.number > anew.number)
      #expect(try !cache.write { try $0.store(Self.members(["x"]), of: Self.url, in: anew, next: nil) })
    }
  }

  @Test("the filters' own question names the channels whose members are to be fetched, no more than asked")
  func unknown() throws {
    try withCache { cache in
      for number in 0..<5 {
        var record = ChannelWithMessages.channel(
          ChannelURL("c\(number)"), last: .message(ChannelWithMessages.message(Int64(number) + 1, at: 5)))
        record.memberCount = number < 4 ? 200 : 1
        record.members = Self.members(["alice"])
        let shown = record
        try cache.write { _ = try $0.store([shown], of: Self.alice, .refresh(.channelRefresh)) }
      }
      var query = ChannelQuery()
      #expect(try unknown(query, cache).isEmpty, "it does not ask for members")
      query.userIDsInclude = ["bob"]
      #expect(try unknown(query, cache).count == 3)
      query.userIDsInclude = []
      query.nicknameContains = "b"
      #expect(Set(try unknown(query, cache)).isSubset(of: ["c0", "c1", "c2", "c3"]))
    }
  }

  private func unknown(_ query: ChannelQuery, _ cache: Cache) throws -> [String] {
    try cache.read { reader in
      let user = try #require(try reader.cachedUser(Self.alice))
      return try reader.withUnknownMembers(query, user, limit: 3).map(\.text)
    }
  }
}
