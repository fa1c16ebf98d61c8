import ChatModel
import SQLite
import TestSupport
import Testing

@testable import ChatCache

/// A cache with two full channels, members, metadata and unsent messages, to be damaged.
struct DamagedWorld {
  let world: ChannelWithMessages
  let other = ChannelURL("random")
  private static let rows = (1...8).map { ChannelWithMessages.message($0, at: $0 * 10) }

  var cache: Cache { world.cache }
  var directory: String { cache.configuration.directory }

  /// `mostCleared`: the messages of a channel that one commit deletes.
  init(mostCleared: Int = Limits.clearedAtOnce) throws {
    world = try ChannelWithMessages(mostCleared: mostCleared)
    try syncAgain()
    let (alice, other) = (world.alice, other)
    for (user, url) in [(alice, other), (world.bob, other)] {
      try cache.write { writer in
        _ = try writer.store([Self.record(url)], of: user, .refresh(.channelChanged))
      }
    }
    let asked = cache.cursor.sequence
    try cache.write { writer in
      try writer.store([Self.listing(asked)], in: other, ListingContext(source: .apiResult, generation: 1))
    }
    for name in ["one", "two"] {
      _ = try cache.accept { try $0.accept(OutboxTableTests.request(name), in: OutboxTableTests.laneKey) }
    }
  }

  private static func record(_ url: ChannelURL) -> ChannelRecord {
    var record = ChannelWithMessages.channel(url, last: .message(rows[7]))
    record.metadata = ["colour": "Green"]
    record.readReceipts = ["alice": 10, "bob": 20]
    record.members = ["alice", "bob"].map {
      MemberRecord(userID: $0, nickname: $0, state: .joined, body: Array("\"user_id\":\"\($0)\"".utf8))
    }
    return record
  }

  private static func listing(_ askedAt: Int64) -> MessageListing {
    MessageListing(
      window: MessageWindow(.newest, older: 100, newer: 0), rows: rows, isWhole: true, askedAt: askedAt)
  }

  /// Does as the sync worker does with the channel's webhook notes.
  func syncAgain() throws {
    let url = world.url
    for user in [world.alice, world.bob] {
      try cache.write { _ = try $0.store([Self.record(url)], of: user, .refresh(.channelChanged)) }
    }
    try world.listNewest(Self.rows, limit: 100)
    for kind in [WebhookNote.Kind.channel, .newest] {
      try cache.write { try $0.settled(kind, in: url, message: 0) }
    }
  }

  /// All rows of the other channel, and all unsent rows, as text.
  func untouched() throws -> [String] {
    let begins = [
      "outbox: ", "request: ", "user: ", "channel: 2 ", "message: 2 ", "segment: 2 ", "tombstone: 2 ",
      "member: 2 ", "membership: 1 2 ", "membership: 2 2 ", "channel_metadata: 2 ",
    ]
    return try Contents(of: cache).rows.filter { row in begins.contains { row.hasPrefix($0) } }
  }

  func kinds(after sequence: Int64) throws -> [ChangeKind] {
    try cache.read { try $0.commonChanges(in: ChannelKey(1), after: sequence, limit: 100) }.map(\.change.kind)
  }

  func close() { cache.close() }
}
