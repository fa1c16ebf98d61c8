import ChatModel
import JSON
import Platform
import Testing

@testable import ChatCache

/// The stored parts of a message, and the parts that the switches leave out of an answer.
@Suite struct MessagePartsTests {
  private static let parts: [(part: MessageQuery.Parts, name: String, json: String)] = [
    (.reactions, "reactions", #"[{"key":"like","user_ids":["bob"],"updated_at":7}]"#),
    (.metaarray, "metaarray", #"[{"key":"k","value":["v"]}]"#),
    (.threadInfo, "thread_info", #"{"reply_count":2,"most_replies":[]}"#),
    (.parentMessage, "parent_message", #"{"message_id":"1","message":"parent"}"#),
  ]

  /// A message that has every part.
  private static func whole(updatedAt: Int64 = 0) -> MessageRecord {
    var record = ChannelWithMessages.message(
      7, at: 70, updatedAt: updatedAt, parent: 1, parentAt: 10, inChannel: true,
      text: updatedAt == 0 ? "whole" : "edited")
    record.reactions = Array(parts[0].json.utf8)
    record.metaarray = Array(parts[1].json.utf8)
    record.threadInfo = Array(parts[2].json.utf8)
    record.parent = Array(parts[3].json.utf8)
    return record
  }

  private func with(_ body: (ChannelWithMessages) throws -> Void) throws {
    let world = try ChannelWithMessages()
    defer { world.cache.close() }
    try world.listNewest([ChannelWithMessages.message(1, at: 10), Self.whole()], limit: 100)
    try body(world)
  }

  /// The message as each reading returns it: in a page, by its id, as a view's row.
  private func texts(_ parts: MessageQuery.Parts, _ world: ChannelWithMessages) throws -> [String] {
    try world.cache.read { reader in
      let user = try #require(try reader.cachedUser(world.alice))
      let view = try #require(try reader.view(of: world.url, for: user.key))
      var filter = MessageQuery()
      filter.replies = .all
      filter.parts = parts
      let ground = try reader.ground(
        .newest, in: view, link: ChannelWithMessages.live, interval: 3_600_000, now: 0)
      let page = try reader.page(MessagePageQuery(limit: 1, filter: filter), in: view, on: ground)
      var row: [UInt8] = []
      let position = Position(createdAt: 70, messageID: 7)
      try reader.eachRow(of: position...position, filter: filter, in: view) {
        row = $0.object.array
        return true
      }
      let one = try reader.message(7, parts: parts, in: view)?.array ?? []
      return [page.items.array, one, row].map { String(decoding: $0, as: UTF8.self) }
    }
  }

  @Test(
    "B13: the switches leave fields out of the answer and change nothing else",
    arguments: 0..<16 as Range<UInt8>)
  func switches(bits: UInt8) throws {
    try with { world in
      let chosen = MessageQuery.Parts(rawValue: bits)
      let body = #"{"message_id":"7","message":"whole","created_at":70"#
      let expected =
        Self.parts.filter { chosen.contains($0.part) }
        .reduce(body) { $0 + ",\"\($1.name)\":\($1.json)" } + "}"
      let found = try texts(chosen, world)
      #expect(found == [expected, expected, expected])
    }
  }

  @Test("B13: what is stored is whole, whatever was asked for before")
  func stored() throws {
    try with { world in
      _ = try texts([], world)
      let found = try world.cache.read { reader in
        try reader.db.first(
          "SELECT reactions, metaarray, thread_info, parent FROM message WHERE message_id = 7"
        ) { row in
          (0..<4).map { String(decoding: row.bytes($0), as: UTF8.self) }
        }
      }
      #expect(found == Self.parts.map(\.json))
    }
  }

  @Test("B13 B21: a part that changed alone is stored and told; the same again is neither")
  func partAlone() throws {
    try with { world in
      var record = Self.whole()
      record.reactions = Array("[]".utf8)
      let (changed, url) = (record, world.url)
      let before = world.cache.cursor.sequence
      try world.cache.write { try $0.store(changed, in: url, .reactionUpdated) }
      #expect(world.cache.cursor.sequence == before + 1)
      #expect(try texts(.reactions, world)[0].contains(#""reactions":[]"#))
      #expect(try texts(.metaarray, world)[0].contains(Self.parts[1].json), "the others are as they were")
      try world.cache.write { try $0.store(changed, in: url, .reactionUpdated) }
      #expect(world.cache.cursor.sequence == before + 1)
    }
  }

  @Test("B13: a channel that shows its last message in short leaves the stored one whole")
  func lastMessage() throws {
    try with { world in
      let short = ChannelWithMessages.message(7, at: 70, inChannel: true, text: "whole")
      let record = ChannelWithMessages.channel(world.url, name: "Renamed", last: .message(short))
      let alice = world.alice
      try world.cache.write { _ = try $0.store([record], of: alice, .refresh(.channelRefresh)) }
      for (index, part) in Self.parts.enumerated() {
        #expect(try texts(part.part, world)[index % 3].contains(part.json), "\(part.name)")
      }
    }
  }

  @Test("B13 B31: an older answer, and one that was overtaken, take no part away")
  func older() throws {
    try with { world in
      let url = world.url
      try world.cache.write { try $0.store(Self.whole(updatedAt: 500), in: url, .messageUpdated) }
      var old = Self.whole(updatedAt: 400)
      old.threadInfo = nil
      old.reactions = nil
      let told = old
      try world.cache.write { try $0.store(told, in: url, .messageUpdated) }
      #expect(try texts([.threadInfo, .reactions], world)[0].contains("thread_info"))
      var same = Self.whole(updatedAt: 500)
      same.reactions = nil
      let row = same
      let window = MessageWindow(.newest, older: 100, newer: 0)
      try world.list(
        MessageListing(
          window: window, rows: [ChannelWithMessages.message(1, at: 10), row], isWhole: true, askedAt: 0))
      #expect(try texts(.reactions, world)[0].contains(Self.parts[0].json), "asked for before the update")
    }
  }
}
