import CSQLite
import ChatModel
import Platform
import TestSupport
import Testing

@testable import ChatCache

/// The writer keeps the newest messages of crowded channels, and counts from them what the view
/// `unread_message` counts.
@Suite struct CountedChannelsTests {
  private struct Undone: Error {}

  private static let users = ["alice", "bob", "carol"].map { UserID($0) }
  private static let urls = (0..<2).map { ChannelURL("c\($0)") }

  private static func message(_ id: Int64, at: Int64, _ random: inout SeededRandom) -> MessageRecord {
    let mentions: [MessageRecord.Mentions] = [.nobody, .nobody, .everybody, .users(["alice", "carol"])]
    return ChannelWithMessages.message(
      id, at: at, updatedAt: Int64.random(in: 1...1_000_000, using: &random),
      sender: random.one(of: users).text, parent: random.chance(10) ? 1 : nil, inChannel: random.chance(50),
      text: "\(Int.random(in: 0..<1_000, using: &random))", silent: random.chance(10),
      mentions: random.one(of: mentions))
  }

  /// One random change of a channel.
  private static func step(
    _ random: inout SeededRandom, _ writer: CacheWriter, _ url: ChannelURL, _ newest: inout Int64
  ) throws {
    switch Int.random(in: 0..<20, using: &random) {
    case 0..<8:
      newest += 1
      let time = newest / 3
      try writer.store(message(newest, at: time, &random), in: url, .messageReceived)
    case 8..<11:
      let id = Int64.random(in: max(1, newest - 30)...max(1, newest), using: &random)
      let changes = UpstreamChanges(
        updated: [message(id, at: id / 3, &random)], deleted: [Int64](), hasMore: false, unreadable: 0)
      try writer.store(changes, in: url, .messageChangelog)
    case 11, 12:
      let id = Int64.random(in: max(1, newest - 10)...max(1, newest), using: &random)
      try writer.delete(message: id, in: url, .messageDeleted)
    case 13: try writer.clear(url)
    case 14 where random.chance(10):
      for _ in 0..<1_100 {
        newest += 1
        try writer.store(message(newest, at: newest / 3, &random), in: url, .messageReceived)
      }
    case 15 where random.chance(10): try writer.clearAll(withUnsent: false)
    default:
      var record = ChannelWithMessages.channel(
        url, floor: random.chance(10) ? newest / 6 : 0, unread: Int64.random(in: 0..<9, using: &random),
        lastReadAt: Int64.random(in: 0...max(1, newest / 3), using: &random))
      if random.chance(30) { record.membership?.unread = nil }
      _ = try writer.store([record], of: random.one(of: users), .refresh(.channelChanged))
    }
  }

  /// Expects that what the writer counts from kept messages is what the database counts.
  private static func expectCounts(_ writer: CacheWriter, _ step: String) throws -> Int {
    var counted = 0
    for user in users {
      guard let key = try writer.reader.userKey(of: user) else { continue }
      for url in urls {
        guard let channel = try writer.reader.channelKey(of: url), try writer.reader.isCrowded(channel),
          let from = try start(of: key, in: channel, writer)
        else { continue }
        let row = FollowedCounts.Count(unread: 0, mentions: 0)
        let kept = try writer.reader.crowdedCount(
          of: key, named: ExactText(user.text), in: channel, from: from, row: row)
        let found = try writer.reader.crowdedCount(of: key, in: channel, row: row)
        #expect(kept == found, "\(step), \(user) in \(url)")
        counted += kept.unread > 0 ? 1 : 0
      }
    }
    return counted
  }

  /// The position from which the member's unread messages are counted.
  private static func start(
    of user: UserKey, in channel: ChannelKey, _ writer: CacheWriter
  ) throws -> Position? {
    try writer.reader.db.first(
      "SELECT counted_at, counted_id, last_read_at, floor_at FROM membership WHERE user = ?1 AND channel = ?2"
    ) {
      $0.bind(1, user.rawValue)
      $0.bind(2, channel.rawValue)
    } _: { row in
      let counted = Position(createdAt: row.int64(0), messageID: row.int64(1))
      return max(counted.next, Position.last(at: row.int64(2)).next, .first(at: row.int64(3)))
    }
  }

  @Test("B68: the writer counts a crowded channel's messages as the database does", arguments: 1...12)
  func random(_ seed: Int) throws {
    var configuration = Cache.Configuration(directory: Disk.folder())
    configuration.mostChangedMembers = 0
    let cache = try Cache(configuration)
    defer { cache.close() }
    let state = Guarded((random: SeededRandom(seed: UInt64(seed)), newest: Int64(0), counted: 0))
    try cache.write { writer in
      for user in Self.users {
        try writer.acknowledge(user)
        for url in Self.urls {
          _ = try writer.store([ChannelWithMessages.channel(url)], of: user, .refresh(.channelChanged))
        }
      }
    }
    for number in 1...250 {
      do {
        try cache.write { writer in
          try state.withLock { state in
            let url = state.random.one(of: Self.urls)
            try Self.step(&state.random, writer, url, &state.newest)
            state.counted += try Self.expectCounts(writer, "step \(number) of seed \(seed)")
            if state.random.chance(10) { throw Undone() }
          }
        }
      } catch is Undone {
        // What the step wrote is not there any more.
      }
      try cache.write { writer in
        _ = try Self.expectCounts(writer, "after step \(number) of seed \(seed)")
      }
    }
    #expect(state.withLock { $0.counted } > 100, "unread messages were counted")
  }
  @Test("B68: messages of a commit that failed are not counted")
  func failedCommit() throws {
    let folder = Disk.folder()
    var configuration = Cache.Configuration(directory: folder)
    configuration.mostChangedMembers = 0
    let cache = try Cache(configuration)
    defer { cache.close() }
    let (user, url) = (Self.users[0], Self.urls[0])
    try cache.write { writer in
      try writer.acknowledge(user)
      _ = try writer.store([ChannelWithMessages.channel(url)], of: user, .refresh(.channelChanged))
      for id in 1...5 {
        try writer.store(ChannelWithMessages.message(Int64(id), at: Int64(id)), in: url, .messageReceived)
      }
      _ = try Self.expectCounts(writer, "before")
    }
    let disk = Disk(failing: .sync, in: folder, at: 1, code: SQLITE_IOERR | (4 << 8))
    #expect(throws: CacheError.self) {
      try cache.write { writer in
        try writer.store(ChannelWithMessages.message(6, at: 6), in: url, .messageReceived)
        _ = try Self.expectCounts(writer, "in the commit that fails")
      }
    }
    #expect(disk.heal())
    let counted = try cache.write { try Self.expectCounts($0, "after the failed commit") }
    #expect(counted == 1)
  }
}
