import ChatModel
import JSON
import TestSupport

@testable import ChatCache

// A known schedule of writes: the n-th write depends only on the seed and on the cache's content. So a cache
// that was killed anywhere and one that never was have the same content after n writes.
//
// Each write is one item with a mark in it: the write's number, stored as the loaded range of the view
// `mark`. A cache that has only the mark of a write, or only the rest of it, is torn.

/// The writes of one seed.
struct Schedule: Sendable {
  private static let mark = "mark"
  private static let users = ["alice", "bob"].map(UserID.init)
  private static let channels = ["c0", "c1", "c2"].map(ChannelURL.init)

  let seed: UInt64

  /// How many writes the cache has.
  static func count(_ cache: Cache) throws -> Int {
    let stored = try cache.read { try $0.collections() }.first { $0.id == mark }
    return stored.flatMap { Int(String(decoding: $0.loaded, as: UTF8.self)) } ?? 0
  }

  /// Whether write `number` is promised to a client, and so goes first.
  func isIntent(_ number: Int) -> Bool {
    var random = words(number)
    return random.next() % 3 == 0
  }

  /// Does write `number`, counted from 1.
  func write(_ number: Int, _ writer: CacheWriter) throws {
    guard number > 1 else { return try Schedule.begin(writer) }
    var random = words(number)
    let url = random.one(of: Schedule.channels)
    let user = random.one(of: Schedule.users)
    switch random.below(16) {
    case 0...2: try list(&random, url, writer)
    case 3: try changelog(&random, url, writer)
    case 4: try channels(&random, user, writer)
    case 5, 6: try accept(&random, number, user, url, writer)
    case 7, 8: try send(&random, user, url, writer)
    case 9: try writer.store(message(&random), in: url, .messageReceived)
    case 10: try writer.delete(message: random.below(60), in: url, .messageDeleted)
    case 11: try gaps(&random, url, writer)
    case 12: try random.isLucky ? writer.clear(url) : writer.doubt(url)
    case 13: try views(&random, number, user, url, writer)
    case 14: try doors(&random, url, writer)
    default: try users(&random, user, url, writer)
    }
    // Channels without members are removed at once, not by the upkeep, whose time the schedule does not set.
    for channel in try writer.reader.leftChannels(after: ChannelKey(0), atMost: Schedule.channels.count) {
      while try writer.removeSlice(ofLeft: channel) {}
    }
    try writer.setLoaded(Array("\(number)".utf8), of: Schedule.mark)
  }

  private func words(_ number: Int) -> SeededRandom {
    SeededRandom(seed: seed &* 1_000_003 &+ UInt64(number))
  }

  private static func begin(_ writer: CacheWriter) throws {
    for user in users {
      try writer.acknowledge(user)
      _ = try writer.store(channels.map { record($0, "", floor: 0) }, of: user, .listing(sweep: 1))
      try writer.endListing(of: user)
    }
    guard let owner = try writer.reader.userKey(of: users[0]) else { return }
    try writer.open(
      StoredCollection(
        id: mark, user: owner, userID: users[0], kind: .channels, query: Array("{}".utf8),
        loaded: Array("1".utf8), accessedAt: 0))
  }

  // MARK: From upstream

  private func list(_ random: inout SeededRandom, _ url: ChannelURL, _ writer: CacheWriter) throws {
    let first = random.below(50)
    let ids = (first...(first + random.below(12))).filter { _ in random.below(5) > 0 }
    let listing = MessageListing(
      window: MessageWindow(.newest, older: 12, newer: 0), rows: ids.map { message($0, &random) },
      isWhole: true, askedAt: .max)
    try writer.store(
      [listing], in: url, ListingContext(source: .messageFill, generation: 1 + random.below(3)))
  }

  private func changelog(_ random: inout SeededRandom, _ url: ChannelURL, _ writer: CacheWriter) throws {
    let updated = (0..<random.below(4)).map { _ in message(&random) }
    let deleted = (0..<random.below(3)).map { _ in random.below(60) }
    try writer.store(
      UpstreamChanges(
        updated: updated, deleted: deleted, hasMore: false, next: SyncToken("t\(random.below(99))"),
        unreadable: 0), in: url, .messageChangelog)
  }

  private func channels(_ random: inout SeededRandom, _ user: UserID, _ writer: CacheWriter) throws {
    let records = Schedule.channels.filter { _ in random.isLucky }.map {
      Schedule.record($0, "name \(random.below(9))", floor: random.below(4) * 100)
    }
    _ = try writer.store(
      records, of: user, .changelog(deleted: [], next: SyncToken("c\(random.below(99))")))
  }

  private func message(_ random: inout SeededRandom) -> MessageRecord { message(random.below(60), &random) }

  private func message(_ id: Int64, _ random: inout SeededRandom) -> MessageRecord {
    let edition = random.below(5)
    var json = JSONWriter()
    json.name("message_id")
    json.value(quoting: id)
    json.field("message", "text \(edition)")
    return MessageRecord(
      messageID: id, createdAt: id / 2 * 10, updatedAt: edition, kind: .user, isSilent: id % 7 == 0,
      isReplyToChannel: false, parentID: id % 5 == 4 ? id - 4 : nil, sender: id % 2 == 0 ? "bob" : "carol",
      customType: "", requestID: "", mentions: id % 11 == 0 ? .everybody : .nobody,
      body: json.finish().array, reactions: edition == 3 ? Array("[]".utf8) : nil)
  }

  private static func record(_ url: ChannelURL, _ name: String, floor: Int64) -> ChannelRecord {
    var json = JSONWriter()
    json.field("channel_url", url.text)
    json.field("name", name)
    var record = ChannelRecord(
      url: url, name: name, customType: "", createdAt: 1, isDistinct: false, isPublic: false, isSuper: false,
      isFrozen: false, memberCount: 2, joinedMemberCount: 2, body: json.finish().array,
      lastMessage: .absent,
      membership: MembershipRecord(
        state: .joined, isOperator: false, isMuted: false, hiddenState: "unhidden", floorAt: floor,
        lastReadAt: floor, unread: floor / 100, mentions: 0, joinedAt: 1, invitedAt: 0))
    record.metadata = ["name": name]
    return record
  }

  // MARK: The outbox

  private func accept(
    _ random: inout SeededRandom, _ number: Int, _ user: UserID, _ url: ChannelURL, _ writer: CacheWriter
  ) throws {
    guard let key = try writer.reader.userKey(of: user), let name = RequestID("r\(number)") else { return }
    let body = Array("\"message\":\"\(number)\"".utf8)
    let request = UnsentRequest(
      requestID: name, kind: random.isLucky ? .message : .read,
      content: OutboxContent(params: Array("{}".utf8), body: body), contentHash: body)
    _ = try writer.accept(request, in: OutboxLaneKey(user: key, channel: url))
  }

  private func send(
    _ random: inout SeededRandom, _ user: UserID, _ url: ChannelURL, _ writer: CacheWriter
  ) throws {
    guard let key = try writer.reader.userKey(of: user) else { return }
    let moment = try writer.outboxMoment()
    let outcomes: [OutboxLane.Outcome] = [
      .success(message: random.below(60)), .rejection(code: "900020"), .uncertain,
      .linkFault(code: "offline"),
    ]
    let outcome = random.one(of: outcomes)
    let spread = random.next()
    try writer.changeLane(OutboxLaneKey(user: key, channel: url)) { lane in
      guard let due = lane.jobs(now: moment + 1_000_000).first,
        lane.dispatch(due.row, due.job, now: moment)
      else { return [] }
      return lane.finish(due.row, due.job, outcome, now: moment, random: spread)
    }
  }

  // MARK: The rest

  private func gaps(_ random: inout SeededRandom, _ url: ChannelURL, _ writer: CacheWriter) throws {
    let names = try writer.reader.line(of: url)?.gaps.keys.sorted() ?? []
    guard !names.isEmpty else { return }
    let name = random.one(of: names)
    if random.isLucky { _ = try writer.beginFill(name, in: url) } else { try writer.endFill(name, in: url) }
  }

  private func views(
    _ random: inout SeededRandom, _ number: Int, _ user: UserID, _ url: ChannelURL, _ writer: CacheWriter
  ) throws {
    let open = try writer.reader.collections().map(\.id).filter { $0 != Schedule.mark }.sorted()
    guard open.count > 3 || !open.isEmpty && random.isLucky else {
      guard let key = try writer.reader.userKey(of: user) else { return }
      return try writer.open(
        StoredCollection(
          id: "v\(number)", user: key, userID: user, kind: .channels, query: Array("{}".utf8),
          loaded: Array("{}".utf8), accessedAt: 0))
    }
    let view = random.one(of: open)
    switch random.below(3) {
    case 0: _ = try writer.dispose(collection: view, channel: nil)
    case 1: try writer.setAccessed([view: random.below(1000)])
    default:
      try writer.answered(
        views: [view], in: url, failure: random.isLucky ? nil : (reason: "timeout", willRetry: true))
    }
  }

  private func doors(_ random: inout SeededRandom, _ url: ChannelURL, _ writer: CacheWriter) throws {
    let note = WebhookNote(
      kind: random.isLucky ? .newest : .channel, channel: url, source: .messageReceived,
      users: [random.one(of: Schedule.users)])
    if random.isLucky {
      try writer.note([note])
    } else {
      try writer.settled(note.kind, in: url, message: 0)
    }
  }

  private func users(
    _ random: inout SeededRandom, _ user: UserID, _ url: ChannelURL, _ writer: CacheWriter
  ) throws {
    switch random.below(5) {
    case 0: try writer.stop(user)
    case 1: try writer.announce(link: random.isLucky ? "online" : "offline")
    case 2: try writer.learn(.messageChangelog, isOffered: random.isLucky)
    case 3: try writer.removeMembership(of: user, in: url, .memberLeft)
    default: try writer.acknowledge(user)
    }
  }
}

extension SeededRandom {
  mutating func below(_ bound: Int64) -> Int64 { Int64.random(in: 0..<bound, using: &self) }
  var isLucky: Bool { mutating get { next() % 2 == 0 } }
}
