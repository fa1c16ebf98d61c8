import ChatModel
import SQLite
import Testing

@testable import ChatCache

/// Numbers at the ends of Int64, which an earlier version stored unchecked.
@Suite struct StoredNumberTests {
  /// A channel whose row and whose members' rows have `number` in each column that the upstream decides.
  private func world(_ number: Int64, isCrowded: Bool = false) throws -> ChannelWithMessages {
    let world = try ChannelWithMessages(mostChangedMembers: isCrowded ? 1 : 2)
    try world.listNewest((1...5).map { ChannelWithMessages.message($0, at: $0 * 10) }, limit: 100)
    try world.cache.write { writer in
      try writer.db.run(
        """
        UPDATE membership
        SET unread = ?1, mentions = ?1, floor_at = 0, joined_at = ?1, invited_at = ?1
        """
      ) { $0.bind(1, number) }
      try writer.db.run("UPDATE channel SET member_count = ?1, joined_member_count = ?1") {
        $0.bind(1, number)
      }
    }
    return world
  }

  private static let ends: [Int64] = [.min, .min + 1, -1, 0, .max - 1, .max]

  @Test(
    "B68: a message is counted on top of any number that is stored, up to a bound",
    arguments: ends, [false, true])
  func arrival(_ number: Int64, isCrowded: Bool) throws {
    let world = try world(number, isCrowded: isCrowded)
    defer { world.cache.close() }
    let url = world.url
    for id in 6...8 as ClosedRange<Int64> {
      let message = ChannelWithMessages.message(id, at: id * 10, mentions: .everybody)
      try world.cache.write { try $0.store(message, in: url, .messageReceived) }
    }
    // Several messages at once take another path.
    let changes = UpstreamChanges<MessageRecord, Int64>(
      updated: (9...12).map { ChannelWithMessages.message($0, at: $0 * 10, mentions: .everybody) },
      deleted: [7, 2], hasMore: false, unreadable: 0)
    try world.cache.write { try $0.store(changes, in: url, .messageChangelog) }
    let alice = world.alice
    let totals = try world.cache.read { try $0.unread(of: try #require(try $0.userKey(of: alice))) }
    #expect(Limits.counts.contains(totals.messages) && Limits.counts.contains(totals.mentions))
    let mark = try world.cache.read { reader in
      try reader.view(of: url, for: try #require(try reader.userKey(of: alice))).flatMap(reader.readMark)
    }
    let most = Limits.counts.upperBound
    #expect(try #require(mark?.unread) <= most && #require(mark?.mentions) <= most)
    #expect(try world.page(MessagePageQuery()).ids.count == 10)
  }

  @Test(
    "B68: a refresh puts right what is stored, and takes no number that overflows",
    arguments: ends, [false, true])
  func refresh(_ number: Int64, isCrowded: Bool) throws {
    let world = try world(number, isCrowded: isCrowded)
    defer { world.cache.close() }
    let (url, alice) = (world.url, world.alice)
    for unread in Self.ends {
      var record = ChannelWithMessages.channel(url, unread: unread, lastReadAt: 0)
      record.membership?.mentions = unread
      record.memberCount = unread
      record.members = [MemberRecord(userID: "bob", nickname: "B", state: .joined, body: [])]
      let told = record
      try world.cache.write { _ = try $0.store([told], of: alice, .refresh(.channelRefresh)) }
      let totals = try world.cache.read { try $0.unread(of: try #require(try $0.userKey(of: alice))) }
      #expect(Limits.counts.contains(totals.messages) && Limits.counts.contains(totals.mentions))
    }
    // A read position without counts subtracts the read messages from the stored count.
    var record = ChannelWithMessages.channel(url, lastReadAt: 30)
    record.membership?.unread = nil
    record.membership?.mentions = nil
    let told = record
    try world.cache.write { _ = try $0.store([told], of: alice, .refresh(.channelRefresh)) }
  }

  @Test("a floor at either end of Int64 hides all or nothing, and ends no page", arguments: ends)
  func floor(_ number: Int64) throws {
    let world = try world(0)
    defer { world.cache.close() }
    let (url, alice) = (world.url, world.alice)
    var record = ChannelWithMessages.channel(url, floor: number, unread: 0)
    record.membership?.unread = 0
    let told = record
    try world.cache.write { _ = try $0.store([told], of: alice, .refresh(.channelRefresh)) }
    for anchor in [
      PageAnchor.newest, .before(.start, isInclusive: true), .after(.end, isInclusive: true),
      .around(.first(at: .max), isInclusive: true), .after(.last(at: .max), isInclusive: false),
    ] {
      var query = MessagePageQuery()
      query.anchor = anchor
      let page = try world.page(query)
      #expect(number <= 0 || page.ids.isEmpty)
    }
    #expect(try world.page(MessagePageQuery()).ids.count == (number <= 0 ? 5 : 0))
    #expect(try world.cache.check().findings.filter { $0.fault == .file }.isEmpty)
  }
}
