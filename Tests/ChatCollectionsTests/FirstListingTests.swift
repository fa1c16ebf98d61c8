import ChatModel
import Glibc
import JSON
import Platform
import TestFolders
import TestSupport
import Testing

@testable import ChatCache
@testable import ChatCollections

/// Many users have their first listing while others are connected: no cursor becomes too old by it, and a
/// watcher gets all channels. `PERCH_TORTURE_LISTINGS` says how many users; 1000 take a minute.
@Suite struct FirstListingTests {
  private static let users = getenv("PERCH_TORTURE_LISTINGS").flatMap { Int(String(cString: $0)) } ?? 100
  private static let channels = 200
  private static let page = 100
  private static let watcher = UserID("watcher")

  static func record(_ index: Int, of user: UserID, floor: Int64 = 0) -> ChannelRecord {
    let url = "channel-\(index)"
    var json = JSONWriter()
    json.field("channel_url", url)
    json.field("name", "Channel \(index)")
    return ChannelRecord(
      url: ChannelURL(url), name: "Channel \(index)", customType: "", createdAt: Int64(index + 1),
      isDistinct: false, isPublic: false, isSuper: false, isFrozen: false, memberCount: 1_000,
      joinedMemberCount: 1_000, body: json.finish().array, lastMessage: .absent,
      membership: MembershipRecord(
        state: .joined, isOperator: false, isMuted: false, hiddenState: "unhidden", floorAt: floor,
        lastReadAt: 0, unread: 0, mentions: 0, joinedAt: 1, invitedAt: 0))
  }

  private static func list(_ user: UserID, _ page: Range<Int>, into cache: Cache) throws {
    let records = page.map { record($0, of: user) }
    try cache.write { writer in
      try writer.acknowledge(user)
      _ = try writer.store(records, of: user, .listing(sweep: 1))
      if page.upperBound == channels { try writer.endListing(of: user) }
    }
  }

  private static func pages() -> [Range<Int>] {
    stride(from: 0, to: channels, by: page).map { $0..<$0 + page }
  }

  /// The channels in a feed's events after a cursor, answer by answer.
  private static func joined(_ cache: Cache, since: Int64) throws -> [String] {
    let connection = ClientConnection(UserConnection(watcher, .connecting), knownUpTo: 0)
    var (urls, cursor, hasMore) = ([String](), since, true)
    while hasMore {
      let from = cursor
      let answer = try cache.read {
        try UserFeed(watcher).changes($0, since: from, until: try $0.lastChange(), connection: connection)
      }
      let text = [UInt8(ascii: "[")] + answer.body.array + [UInt8(ascii: "]")]
      #expect(text.count <= Limits.eventBytes + 2)
      try text.withUnsafeBytes { bytes in
        try JSONParser().parse(bytes) { json in
          for event in json.items where event["type"]?.string == "channel.joined" {
            urls += event.objects("channels", by: "channel_url").keys
          }
        }
      }
      (cursor, hasMore) = (answer.end, answer.hasMore)
    }
    return urls
  }

  @Test("B11 B53: first listings write pages into the log, and end nobody's cursor")
  func pages() throws {
    let directory = TestFolder.make("first-listing")
    var configuration = Cache.Configuration(directory: directory)
    // A tenth of the memberships that are listed.
    configuration.retention.events = Int64(Self.users * Self.channels / 10)
    let cache = try Cache(configuration)
    defer { cache.close() }
    let collections = Collections(cache: cache, syncRequests: ScriptedSync())
    try collections.start()
    defer { collections.stop() }
    try cache.write { try $0.acknowledge(Self.watcher) }
    let start = cache.cursor
    // The watcher's own list comes in pages, too, beside those of the others.
    try Self.list(Self.watcher, 0..<Self.page, into: cache)
    let middle = cache.cursor
    // Later channels were created later, so they sort before those that the view already shows.
    var query = ChannelQuery()
    (query.limit, query.includesEmpty, query.order) = (Limits.channelPageRows, true, .chronological)
    let view = try collections.openChannels(query, of: Self.watcher)
    for user in 0..<Self.users {
      for page in Self.pages() { try Self.list(UserID("user-\(user)"), page, into: cache) }
    }
    try Self.list(Self.watcher, Self.page..<Self.channels, into: cache)
    try cache.trim()

    let rows = try cache.read { try $0.countEvents(after: 0).rows }
    let written = (Self.users + 1) * Self.pages().count
    #expect(rows <= written * 2 + (Self.users + 1) * 2 + 10, "\(rows) events of \(written) pages")
    #expect(try cache.read { try $0.covers(start) && $0.covers(middle) })
    #expect(try Set(Self.joined(cache, since: start.sequence)).count == Self.channels)
    #expect(try Self.joined(cache, since: middle.sequence).count == Self.channels - Self.page)

    var client = ListClient(id: view.id, user: Self.watcher, cursor: middle.sequence, shown: [:])
    var hasMore = true
    while hasMore {
      let since = client.cursor
      let answer = try cache.read { try view.changes($0, since: since, until: try $0.lastChange()) }
      #expect(answer.body.count <= Limits.eventBytes)
      answer.settle(answer.end)
      try client.take(answer.body)
      (client.cursor, hasMore) = (answer.end, answer.hasMore)
    }
    #expect(client.shown.count == Self.channels - Self.page)
  }

  @Test("B23 B49: an open view of a channel that was left and is listed again is told anew")
  func openView() throws {
    let directory = TestFolder.make("first-listing")
    let cache = try Cache(Cache.Configuration(directory: directory))
    defer { cache.close() }
    let collections = Collections(cache: cache, syncRequests: ScriptedSync())
    try collections.start()
    defer { collections.stop() }
    try Self.list(Self.watcher, 0..<1, into: cache)
    let url = ChannelURL("channel-0")
    let rows = (1...4).map { ModelUpstream.message($0, at: $0 * 10) }
    try cache.write { writer in
      for row in rows { try writer.store(row, in: url, .messageReceived) }
    }
    let request = try Array("{\"channel_url\":\"channel-0\"}".utf8).withUnsafeBytes { bytes in
      try JSONParser().parse(bytes) { try MessageViewRequest($0) }
    }
    let view = try collections.openMessages(request, of: Self.watcher, named: "view")
    let cursor = cache.cursor.sequence
    let again = Self.record(0, of: Self.watcher, floor: 30)
    try cache.write { writer in
      try writer.removeMembership(of: Self.watcher, in: url, .memberLeft)
      _ = try writer.store([again], of: Self.watcher, .listing(sweep: 2))
    }
    let viewContext = collections.viewContext(url)
    let answer = try cache.read {
      try view.changes($0, since: cursor, until: try $0.lastChange(), viewContext)
    }
    let told = String(decoding: answer.body.array, as: UTF8.self)
    #expect(told.contains("messages.replaced") && !told.contains("\"message_id\":\"1\""), "\(told)")
  }

  @Test(
    "B28: a huge gap that was closed before the client asked is told as closed, in a view and in the feed")
  func closedHugeGap() throws {
    let cache = try Cache(Cache.Configuration(directory: TestFolder.make("closed-gap")))
    defer { cache.close() }
    let collections = Collections(cache: cache, syncRequests: ScriptedSync())
    try collections.start()
    defer { collections.stop() }
    try Self.list(Self.watcher, 0..<1, into: cache)
    let url = ChannelURL("channel-0")
    try cache.write { try $0.store(ModelUpstream.message(1, at: 10), in: url, .messageReceived) }
    let request = try Array("{\"channel_url\":\"channel-0\"}".utf8).withUnsafeBytes { bytes in
      try JSONParser().parse(bytes) { try MessageViewRequest($0) }
    }
    let view = try collections.openMessages(request, of: Self.watcher, named: "view")
    let cursor = cache.cursor.sequence
    try cache.write { writer in
      var change = Change(.hugeGap, .channelChangelog, channel: view.channel)
      change.stretch = Position.first(at: 11)...Position.first(at: 20)
      change.reference = "99"
      try writer.append(change)
    }
    let viewContext = collections.viewContext(url)
    let connection = ClientConnection(ScriptedSync().connection(of: Self.watcher), knownUpTo: 0)
    let (told, fed) = try cache.read { reader in
      let end = try reader.lastChange()
      return (
        try view.changes(reader, since: cursor, until: end, viewContext).body.array,
        try UserFeed(Self.watcher).changes(reader, since: cursor, until: end, connection: connection).body
          .array
      )
    }
    for events in [told, fed] {
      let text = String(decoding: events, as: UTF8.self)
      let list: [UInt8] = Array("[\(text)]".utf8)
      // Parsing throws if the text is no JSON.
      let count = try list.withUnsafeBytes { bytes in
        try JSONParser().parse(bytes) { json in
          var count = 0
          for event in json.items {
            if event["gap"]?["state"]?.string == "closed" { count += 1 }
          }
          return count
        }
      }
      #expect(count == 1, "\(text)")
    }
  }

  @Test("B49: an answer ends anywhere between two channels of a page, and goes on after it")
  func cut() throws {
    let directory = TestFolder.make("first-listing")
    let cache = try Cache(Cache.Configuration(directory: directory))
    defer { cache.close() }
    try cache.write { try $0.acknowledge(Self.watcher) }
    let start = cache.cursor.sequence
    for page in Self.pages() { try Self.list(Self.watcher, page, into: cache) }
    let end = cache.cursor.sequence
    for limit in [1, 7, 100, 199, 1_000] {
      var (since, found) = (start, [Int64]())
      while since < end {
        let from = since
        let some = try cache.read { reader in
          let user = try #require(try reader.cachedUser(Self.watcher))
          return try reader.changes(for: user.key, after: from, limit: limit)
        }
        #expect(some.changes.count <= limit)
        found += some.changes.filter { $0.change.kind == .membershipGained }.map(\.sequence)
        guard some.end > since else { break }
        since = some.end
      }
      #expect(found.count == Self.channels && found == found.sorted(), "limit \(limit)")
      #expect(Set(found).count == Self.channels)
    }
  }
}
