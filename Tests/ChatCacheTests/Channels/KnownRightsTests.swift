import ChatModel
import Platform
import Testing

@testable import ChatCache

/// What a user is shown while the user's changes are not known (B1).
@Suite struct KnownRightsTests {
  private let world: ChannelWithMessages

  init() throws {
    world = try ChannelWithMessages()
    try world.listNewest([message(1, at: 10), message(2, at: 20)], limit: 10)
  }

  private func message(_ id: Int64, at: Int64, text: String = "hello", updatedAt: Int64 = 0) -> MessageRecord
  {
    ChannelWithMessages.message(id, at: at, updatedAt: updatedAt, text: text)
  }

  private func page(_ user: UserID) throws -> ChannelWithMessages.Answer {
    try world.page(MessagePageQuery(), as: user)
  }

  private func view(_ user: UserID) throws -> ChannelView {
    try #require(try world.cache.view(of: world.url, for: user))
  }

  /// The sequence that a client of the channel's page goes on from, less the log's end.
  private func told(_ user: UserID) throws -> Int64 {
    try view(user).toldVersion - world.cache.cursor.sequence
  }

  @Test("B1: messages that come while a user's changes are not known are shown to the others alone")
  func newMessages() throws {
    defer { world.cache.close() }
    try world.cache.holdRights(of: [world.bob])
    let before = world.cache.cursor.sequence
    #expect(try page(world.bob) == page(world.alice), "nothing came yet")
    try world.listNewest([message(1, at: 10), message(2, at: 20), message(3, at: 30)], limit: 10)
    #expect(try page(world.alice).ids == [1, 2, 3])
    #expect(try page(world.bob).ids == [1, 2])
    #expect(try view(world.bob).toldVersion == before && view(world.alice).heldAt == nil)
    try world.cache.releaseRights(of: world.bob)
    #expect(try page(world.bob) == page(world.alice))
    #expect(try told(world.bob) == 0)
  }

  @Test("B1: an edit that comes meanwhile is not shown either, whichever way the message is asked for")
  func edits() throws {
    defer { world.cache.close() }
    func isShown() throws -> [Bool] {
      let view = try self.view(world.bob)
      return try world.cache.read { reader in
        var walked: [Int64] = []
        try reader.eachRow(of: .start ... .end, filter: MessageQuery(), in: view) { row in
          if row.isShown { walked.append(row.position.messageID) }
          return true
        }
        let single = try reader.message(1, parts: [], in: view) != nil
        return [walked == [1, 2], single, try !reader.isHeld(1, in: view)]
      }
    }
    try world.cache.holdRights(of: [world.bob])
    #expect(try isShown() == [true, true, true])
    let (url, edited) = (world.url, message(1, at: 10, text: "edited", updatedAt: 40))
    let mark = world.cache.cursor.sequence
    try world.cache.write { try $0.store(edited, in: url, .messageUpdated, askedAt: mark) }
    #expect(try isShown() == [false, false, false])
    #expect(try page(world.bob).ids == [2])
    try world.cache.releaseRights(of: world.bob)
    #expect(try isShown() == [true, true, true])
  }

  @Test("B1: neither a channel nor a list shows the last message that came meanwhile")
  func lastMessage() throws {
    defer { world.cache.close() }
    let last = message(3, at: 30, text: "SECRET")
    func texts() throws -> [String] {
      let view = try self.view(world.bob)
      return try world.cache.read { reader in
        let user = try #require(try reader.cachedUser(world.bob))
        let list = try reader.page(ChannelQuery(), of: user)
        return [try reader.channel(view)?.array ?? [], list.items.array].map {
          String(decoding: $0, as: UTF8.self)
        }
      }
    }
    try world.cache.holdRights(of: [world.bob])
    let (url, alice) = (world.url, world.alice)
    try world.cache.write {
      _ = try $0.store(
        [ChannelWithMessages.channel(url, last: .message(last))], of: alice, .refresh(.channelRefresh))
    }
    for text in try texts() { #expect(!text.contains("SECRET")) }
    try world.cache.releaseRights(of: world.bob)
    for text in try texts() { #expect(text.contains("SECRET")) }
  }

  @Test("B1: events wait for news alone, not for changes of the cache or of the user's own")
  func news() throws {
    defer { world.cache.close() }
    try world.cache.holdRights(of: [world.bob])
    func waits() throws -> [Bool] {
      let view = try self.view(world.bob)
      return try world.cache.read { reader in
        try [{ try reader.requireKnownRights(in: view) }, { try reader.requireKnownRights(of: view.user) }]
          .map {
            do {
              try $0()
              return false
            } catch CacheError.rightsUnknown { return true }
          }
      }
    }
    let view = try self.view(world.bob)
    try world.cache.write { writer in
      try writer.append(Change(.coverage, .localWindowTrimmed, channel: view.channel))
      var own = Change(.membership, .read, channel: view.channel)
      own.user = view.user
      try writer.append(own)
    }
    #expect(try waits() == [false, false])
    try world.cache.write { try $0.append(Change(.channel, .channelChanged, channel: view.channel)) }
    #expect(try waits() == [true, true])
  }

  @Test("B1, B4: after a start a disconnected user is shown what came before the disconnection alone")
  func restart() throws {
    let bob = world.bob
    try world.cache.write { try $0.stop(bob) }
    let stopped = world.cache.cursor.sequence
    try world.listNewest([message(1, at: 10), message(2, at: 20), message(3, at: 30)], limit: 10)
    let again = try ChannelWithMessages(reopening: world, mostChangedMembers: 100)
    defer { again.cache.close() }
    try again.cache.holdRightsOfAll()
    #expect(try again.page(MessagePageQuery(), as: bob).ids == [1, 2])
    #expect(try again.cache.view(of: again.url, for: bob)?.heldAt == stopped)
    #expect(try again.page(MessagePageQuery()).ids == [1, 2, 3])
  }

  @Test("B1: a snapshot from before the user's changes shows nothing of what came meanwhile, also afterwards")
  func snapshots() {
    defer { world.cache.close() }
    let rights = KnownRights()
    let (user, channel) = (UserKey(1), ChannelKey(1))
    func limit(opened: Int64) -> Int64? { rights.limit(of: user, opened: opened) }
    rights.hold(user, until: 5)
    #expect(limit(opened: 5) == nil, "nothing came since")
    rights.note(Change(.messages, .messageReceived, channel: channel), at: 7)
    #expect(limit(opened: 7) == 5)
    rights.hold(user, until: 7)
    #expect(limit(opened: 7) == 5, "the earlier sequence stays")
    rights.release(user, at: 9)
    #expect(limit(opened: 8) == 5 && limit(opened: 9) == nil)
    rights.hold(user, until: 9)
    rights.note(Change(.messages, .messageReceived, channel: channel), at: 12)
    #expect(limit(opened: 12) == 9, "held anew")
    rights.raise(user, to: 11)
    #expect(limit(opened: 12) == 11)
  }
}
