import ChatModel
import Platform
import TestSupport
import Testing

@testable import ChatCache

/// The rows that a view gets from the store: by filters, floor and coverage, each with its version.
@Suite struct VisibilityTests {
  /// The stored messages a view without bounds sees, and the versions of all.
  private func rows(
    _ filter: MessageQuery, as user: UserID, version: Int64? = nil, _ world: ChannelWithMessages
  ) throws -> (visible: [Int64], all: [Int64]) {
    try world.cache.read { reader in
      let someone = try #require(try reader.cachedUser(user))
      let view = try #require(try reader.view(of: world.url, for: someone.key))
      let coverage = try reader.coverage(of: view.channel)
      var (visible, all): ([Int64], [Int64]) = ([], [])
      try reader.eachRow(of: .start ... .end, version: version, filter: filter, in: view) { row in
        all.append(row.position.messageID)
        #expect(row.isShown == (row.object.count > 0))
        if row.isShown, coverage.shows(row.position, floor: view.floorAt) {
          visible.append(row.position.messageID)
        }
        return true
      }
      return (visible, all)
    }
  }

  @Test(
    "B18: what a view shows is what a page shows: filters, floor and coverage are one piece of code",
    arguments: 1...12 as ClosedRange<UInt64>)
  func likePages(seed: UInt64) throws {
    var random = SeededRandom(seed: seed &+ 5000)
    let line = try MessageLine(&random)
    defer { line.world.cache.close() }
    for user in [line.world.alice, line.world.bob] {
      for _ in 0..<4 {
        let filter = line.randomFilter(&random)
        let found = try rows(filter, as: user, line.world)
        #expect(Set(found.all) == line.stored)
        for message in line.upstream where line.stored.contains(message.messageID) {
          let anchor = PageAnchor.before(message.position, isInclusive: true)
          let page = try line.world.page(MessagePageQuery(anchor, limit: 1, filter: filter), as: user)
          #expect(
            found.visible.contains(message.messageID) == (page.ids == [message.messageID]),
            "seed \(seed): \(message.position), \(filter)")
        }
      }
    }
  }

  @Test("B18: a row in a gap is not visible, and the event that closes the gap names where it became so")
  func becomesVisible() throws {
    let world = try ChannelWithMessages()
    defer { world.cache.close() }
    let all = (1...9).map { ChannelWithMessages.message($0, at: $0 * 10) }
    try world.listNewest(Array(all[..<3]), limit: 100)
    try world.listNewest(Array(all[6...]), limit: 3, generation: 2)
    let url = world.url
    try world.cache.write { try $0.store(all[4], in: url, .messageUpdated) }
    var plain = MessageQuery()
    plain.replies = .all
    #expect(try rows(plain, as: world.alice, world).all == [1, 2, 3, 5, 7, 8, 9])
    #expect(try rows(plain, as: world.alice, world).visible == [1, 2, 3, 8, 9])
    let before = world.cache.cursor.sequence
    try world.list(
      MessageListing(
        window: MessageWindow(.message(all[2].position), older: 0, newer: 100), rows: Array(all[2...]),
        isWhole: true, askedAt: before))
    #expect(try rows(plain, as: world.alice, world).visible == Array(1...9))
    let told = try world.cache.read { reader in
      try reader.commonChanges(in: try #require(try reader.channelKey(of: url)), after: before, limit: 100)
    }
    let uncovered = told.filter { $0.change.kind == .coverage }.compactMap(\.change.stretch)
    for index in [4, 6] {
      #expect(uncovered.contains { $0.contains(all[index].position) }, "\(index) was stored before")
    }
  }

  @Test("B18 B49: an event names the rows it changed last, and no others")
  func versions() throws {
    let world = try ChannelWithMessages()
    defer { world.cache.close() }
    try world.listNewest((1...9).map { ChannelWithMessages.message($0, at: $0 * 10) }, limit: 100)
    let url = world.url
    func change(_ ids: [Int64], _ at: Int64) throws -> Int64 {
      let rows = ids.map { ChannelWithMessages.message($0, at: $0 * 10, updatedAt: at, text: "\(at)") }
      try world.cache.write {
        try $0.store(
          UpstreamChanges(updated: rows, deleted: [], hasMore: false, unreadable: 0), in: url,
          .messageChangelog)
      }
      return world.cache.cursor.sequence
    }
    let first = try change([2, 4, 6], 100)
    let second = try change([4, 8], 200)
    #expect(try rows(MessageQuery(), as: world.alice, version: first, world).all == [2, 6])
    #expect(try rows(MessageQuery(), as: world.alice, version: second, world).all == [4, 8])
    let told = try world.cache.read { reader in
      try reader.commonChanges(in: try #require(try reader.channelKey(of: url)), after: first - 1, limit: 9)
    }
    #expect(told.map(\.sequence) == [first, second])
    #expect(
      told.last?.change.stretch == Position(
        createdAt: 40, messageID: 4)...Position(createdAt: 80, messageID: 8))
  }

  @Test("B18: a row that only stopped matching is still met under the event that changed it, as not shown")
  func stopsMatching() throws {
    let world = try ChannelWithMessages()
    defer { world.cache.close() }
    try world.listNewest((1...3).map { ChannelWithMessages.message($0, at: $0 * 10) }, limit: 100)
    let url = world.url
    let changed = ChannelWithMessages.message(2, at: 20, updatedAt: 99, customType: "news", text: "x")
    try world.cache.write { try $0.store(changed, in: url, .messageUpdated) }
    var filter = MessageQuery()
    filter.customTypes = [""]
    let found = try rows(filter, as: world.alice, version: world.cache.cursor.sequence, world)
    #expect(found.all == [2] && found.visible == [])
    #expect(try rows(filter, as: world.alice, world).visible == [1, 3])
  }

  @Test("B18 B23: what lies below the user's floor is not visible to that user alone")
  func floor() throws {
    let world = try ChannelWithMessages(floorOfBob: 20)
    defer { world.cache.close() }
    try world.listNewest((1...3).map { ChannelWithMessages.message($0, at: $0 * 10) }, limit: 100)
    #expect(try rows(MessageQuery(), as: world.alice, world).visible == [1, 2, 3])
    #expect(
      try rows(MessageQuery(), as: world.bob, world).visible == [2, 3], "the floor's own moment is seen")
  }
}
