import ChatModel
import SQLite
import TestSupport
import Testing

@testable import ChatCache

/// The log as one chat view reads it, against all rows of the log.
@Suite struct ViewLogTests {
  private static let kinds: [ChangeKind] = [
    .messages, .channel, .membership, .outbox, .connection, .coverage,
  ]

  @Test(
    "B1, B51: a view reads what concerns it, whether the log's last changes are few or many",
    arguments: 1...20)
  func anyView(seed: Int) throws {
    var random = SeededRandom(seed: UInt64(seed))
    let world = try LogTrimmingTests.World(Retention())
    defer { world.cache.close() }
    // Few are read together, many are looked up.
    let count = seed % 2 == 0 ? 40 : 150
    var log: [(sequence: Int64, change: Change)] = []
    for _ in 0..<count {
      var change = Change(ViewLogTests.kinds.randomElement(using: &random)!, .channelRefresh)
      change.channel = [ChannelKey(1), ChannelKey(2), nil].randomElement(using: &random)!
      change.user = [UserKey(1), UserKey(2), nil, nil].randomElement(using: &random)!
      if Int.random(in: 0..<5, using: &random) == 0 {
        change.collection = ["one", "two"].randomElement(using: &random)
      }
      let told = change
      log.append((try world.cache.write { try $0.append(told) }, change))
    }
    let end = log.last!.sequence
    for _ in 0..<30 {
      let id = ["one", "two", "three"].randomElement(using: &random)!
      let (user, channel) = (
        UserKey(.random(in: 1...3, using: &random)), ChannelKey(.random(in: 1...3, using: &random))
      )
      let since = Int64.random(in: log[0].sequence - 1...end, using: &random)
      let until = Int64.random(in: since...end, using: &random)
      func concerns(_ change: Change) -> Bool {
        change.collection ?? id == id && change.user ?? user == user
      }
      let view = LogScope(view: id, of: user, in: channel)
      try world.cache.read { reader in
        let read = log.filter {
          $0.sequence > since && $0.change.channel == channel && concerns($0.change)
        }.map(\.sequence)
        let found = try reader.changes(in: view, after: since, limit: 1_000).map(\.sequence)
        #expect(found == read, "\(id) of \(user) in \(channel) after \(since)")
        #expect(try reader.changes(in: view, after: since, limit: 2).map(\.sequence) == Array(read.prefix(2)))
        let between = log.filter { $0.sequence > since && $0.sequence <= until }
        let isConcerned = between.contains {
          concerns($0.change) && $0.change.channel ?? channel == channel
        }
        #expect(
          try reader.concerns(view, after: since, upTo: until) == isConcerned,
          "\(id) of \(user) in \(channel) after \(since) to \(until)")
        let isOwnDue = log.contains {
          $0.sequence > since && $0.change.user != nil && concerns($0.change)
            && $0.change.channel ?? channel == channel && $0.change.kind != .membership
        }
        #expect(try reader.hasOwn(view, after: since) == isOwnDue, "\(id) of \(user) after \(since)")
        let apart = between.filter { $0.change.channel == channel || $0.change.kind == .connection }
        let told = try reader.named(in: channel, after: since, upTo: until)
        #expect(
          told.users == Set(apart.filter { $0.change.collection == nil }.compactMap(\.change.user)))
        #expect(told.views == Set(apart.compactMap(\.change.collection).map { ExactText($0) }))
      }
    }
  }
}
