import ChatModel
import TestFolders
import TestSupport
import Testing

@testable import ChatCache

/// The log as one user reads it, against a model that looks at each change.
@Suite struct UserLogTests {
  private static let users = [UserID("alice"), UserID("bob"), UserID("carol")]
  private static let channels = (0..<6).map { ChannelURL("c\($0)") }

  /// Who is in a channel: alice in the first four, bob in the last four, carol in none.
  private static func isMember(_ user: Int, _ channel: Int) -> Bool {
    switch user {
    case 0: channel < 4
    case 1: channel >= 2
    default: false
    }
  }

  @Test(
    "B1, B50: a user reads the changes of the own channels, of the own views and of everybody, and no others",
    arguments: 1...12)
  func model(seed: Int) throws {
    let cache = try Cache(Cache.Configuration(directory: TestFolder.make("user-log")))
    defer { cache.close() }
    for (number, user) in Self.users.enumerated() {
      let own = Self.channels.indices.filter { Self.isMember(number, $0) }.map { Self.channels[$0] }
      try cache.write { writer in
        try writer.acknowledge(user)
        _ = try writer.store(own.map { ChannelWithMessages.channel($0) }, of: user, .listing(sweep: 1))
      }
    }
    let (keys, urls) = try cache.read { reader in
      (
        try Self.users.map { try #require(try reader.userKey(of: $0)) },
        try Self.channels.map { try #require(try reader.channelKey(of: $0)) }
      )
    }
    let start = try cache.read { try $0.lastChange() }
    var random = SeededRandom(seed: UInt64(seed))
    var log: [(sequence: Int64, channel: Int?, user: Int?, view: String?)] = []
    for _ in 0..<Int.random(in: 1...60, using: &random) {
      var change = Change(.channel, .channelRefresh)
      let channel = Bool.random(using: &random) ? Int.random(in: 0..<6, using: &random) : nil
      let user = Bool.random(using: &random) ? Int.random(in: 0..<3, using: &random) : nil
      let view =
        user != nil && Int.random(in: 0..<3, using: &random) == 0
        ? ["v1", "v2"].randomElement(using: &random) : nil
      change.channel = channel.map { urls[$0] }
      change.user = user.map { keys[$0] }
      change.collection = view
      let made = change
      log.append((try cache.write { try $0.append(made) }, channel, user, view))
    }
    let ends = try cache.read { try $0.lastChange() }
    for since in start...ends {
      for user in Self.users.indices {
        for view in [nil, "v1"] {
          // The same snapshot is asked twice: the second time from what the first noted.
          for limit in [1_000, 1_000, 3] {
            let found = try cache.read {
              try $0.changes(for: keys[user], view: view, after: since, limit: limit)
            }
            let expected = log.filter { change in
              guard change.sequence > since, change.sequence <= found.end else { return false }
              if let named = change.view { return change.user == user && named == view }
              if let named = change.user { return named == user }
              return change.channel.map { Self.isMember(user, $0) } ?? true
            }
            #expect(
              found.changes.map(\.sequence) == expected.map(\.sequence),
              "seed \(seed), \(Self.users[user]), view \(view ?? "none"), after \(since), limit \(limit)")
            #expect(!found.isWhole || found.end == ends)
            #expect(found.isWhole || found.changes.count >= limit || found.end < ends)
          }
        }
      }
    }
  }

  @Test(
    "B1: a user who left a channel reads no later change of it, although the user is taken for a member")
  func left() throws {
    let world = try ChannelWithMessages()
    defer { world.cache.close() }
    let key = try world.cache.read { try #require(try $0.userKey(of: world.bob)) }
    func told(since: Int64) throws -> [ChangeKind] {
      try world.cache.read { reader in
        try reader.changes(for: key, after: since, limit: 100) { _ in true }.changes
          .map(\.change.kind)
      }
    }
    let before = world.cache.cursor.sequence
    try world.cache.write {
      try $0.store(ChannelWithMessages.message(1, at: 10), in: world.url, .messageReceived)
    }
    #expect(try told(since: before).contains(.messages))
    try world.cache.write { try $0.removeMembership(of: world.bob, in: world.url, .memberLeft) }
    try world.cache.write {
      try $0.store(ChannelWithMessages.message(2, at: 20), in: world.url, .messageReceived)
    }
    let kinds = try told(since: before)
    #expect(kinds.contains(.membershipLost) && !kinds.contains(.messages))
  }

  @Test("B50: what was noted of a snapshot does not outlive it")
  func notes() throws {
    let cache = try Cache(Cache.Configuration(directory: TestFolder.make("user-log-notes")))
    defer { cache.close() }
    try cache.write { try $0.acknowledge(Self.users[0]) }
    for number in 1...5 {
      let before = try cache.read { try $0.lastChange() }
      #expect(try cache.read { try $0.lastChange() } == before)
      try cache.write { writer in
        #expect(try writer.reader.lastChange() == before)
        try writer.append(Change(.channel, .channelRefresh))
        #expect(try writer.reader.lastChange() == before + 1, "a transaction sees what it has written")
      }
      let (last, key) = try cache.read { reader in
        (try reader.lastChange(), try #require(try reader.userKey(of: Self.users[0])))
      }
      #expect(last == before + 1, "commit \(number)")
      let found = try cache.read { try $0.changes(for: key, after: before, limit: 10) }
      #expect(found.changes.map(\.sequence) == [last])
      #expect(found.end == last)
    }
  }
}
