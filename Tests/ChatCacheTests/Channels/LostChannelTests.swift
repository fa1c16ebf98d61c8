import ChatModel
import Platform
import Testing

@testable import ChatCache

/// Memberships that end and begin while answers about them are under way (B1, B69).
@Suite struct LostChannelTests {
  private func isMember(_ world: ChannelWithMessages, _ user: UserID) throws -> Bool {
    try world.cache.view(of: world.url, for: user) != nil
  }

  /// Stores an answer about the channel as bob, which was asked for at that sequence.
  private func answer(
    _ world: ChannelWithMessages, asked: Int64, _ origin: ChannelOrigin = .refresh(.channelRefresh),
    state: MembershipRecord.State = .joined
  ) throws {
    var record = ChannelWithMessages.channel(world.url)
    record.asked = ChannelRecord.Asked(sequence: asked)
    record.membership?.state = state
    let answered = record
    try world.cache.write { _ = try $0.store([answered], of: world.bob, origin) }
  }

  @Test("B1: a channel that is made anew under its url shows nobody the messages of the old one")
  func madeAnew() throws {
    let world = try ChannelWithMessages()
    defer { world.cache.close() }
    func store(createdAt: Int64) throws {
      var record = ChannelWithMessages.channel(world.url)
      record.createdAt = createdAt
      let answered = record
      try world.cache.write { _ = try $0.store([answered], of: world.bob, .refresh(.channelDeleted)) }
    }
    try store(createdAt: 50_000)
    try world.listNewest([1, 2].map { ChannelWithMessages.message($0, at: 60_000 + $0) }, limit: 10)
    for createdAt in [50_999, 50_000, 40_000] {
      try store(createdAt: Int64(createdAt))
      #expect(try world.page(MessagePageQuery()).ids == [1, 2], "rounded, or outdated")
    }
    try store(createdAt: 70_000)
    for user in [world.alice, world.bob] {
      #expect(try world.page(MessagePageQuery(), as: user).ids == [])
      #expect(try !world.page(MessagePageQuery(), as: user).isComplete)
    }
    try world.listNewest([ChannelWithMessages.message(3, at: 71_000)], limit: 10)
    #expect(try world.page(MessagePageQuery(), as: world.alice).ids == [3])
    // A time that nobody can add to stops nothing.
    for createdAt in [Int64.max - 1, .max, .min] { try store(createdAt: createdAt) }
  }

  @Test("B1: an answer from before a user left gives the channel back to nobody, and is asked for again")
  func overtaken() throws {
    let world = try ChannelWithMessages()
    defer { world.cache.close() }
    let noted = Guarded<Set<ChannelURL>>([])
    world.cache.onCommit { commit in noted.withLock { $0.formUnion(commit.notedChannels) } }
    let before = world.cache.cursor.sequence
    try world.cache.write { try $0.removeMembership(of: world.bob, in: world.url, .memberLeft) }
    for origin in [ChannelOrigin.refresh(.channelRefresh), .top, .changelog(deleted: [], next: nil)] {
      try answer(world, asked: before, origin)
      #expect(try !isMember(world, world.bob))
    }
    #expect(try world.cache.read { try $0.webhookNotes(in: world.url) }.map(\.users) == [[world.bob]])
    #expect(noted.withLock { $0 } == [world.url])
    try answer(world, asked: world.cache.cursor.sequence)
    #expect(try isMember(world, world.bob), "a later answer tells that the user is back")
  }

  @Test("B1: an answer from before a user came back does not take the channel away, and is asked for again")
  func overtakenByReturn() throws {
    let world = try ChannelWithMessages()
    defer { world.cache.close() }
    let before = world.cache.cursor.sequence
    try world.cache.write { try $0.removeMembership(of: world.bob, in: world.url, .memberLeft) }
    let between = world.cache.cursor.sequence
    try answer(world, asked: between)
    try world.cache.write {
      _ = try $0.store(
        [], of: world.bob,
        .changelog(deleted: [world.url], next: nil, asked: ChannelRecord.Asked(sequence: before)))
    }
    #expect(try isMember(world, world.bob))
    try answer(world, asked: between, state: .outside)
    #expect(try isMember(world, world.bob))
    #expect(try world.cache.read { try $0.webhookNotes(in: world.url) }.map(\.users) == [[world.bob]])
    try answer(world, asked: world.cache.cursor.sequence, state: .outside)
    #expect(try !isMember(world, world.bob))
  }

  @Test("B1 B23: an answer from before a change of the user's rights changes none of them")
  func overtakenRights() throws {
    let world = try ChannelWithMessages()
    defer { world.cache.close() }
    func store(floor: Int64, muted: Bool, asked: Int64) throws -> (floor: Int64, isMuted: Bool)? {
      var record = ChannelWithMessages.channel(world.url, floor: floor)
      record.asked = ChannelRecord.Asked(sequence: asked)
      record.membership?.isMuted = muted
      let answered = record
      try world.cache.write { _ = try $0.store([answered], of: world.bob, .refresh(.channelRefresh)) }
      return try world.cache.view(of: world.url, for: world.bob).map { ($0.floorAt, $0.isMuted) }
    }
    let before = world.cache.cursor.sequence
    #expect(try store(floor: 70, muted: true, asked: before) ?? (0, false) == (70, true))
    #expect(try store(floor: 0, muted: false, asked: before) ?? (0, false) == (70, true))
    #expect(try world.cache.read { try $0.webhookNotes(in: world.url) }.map(\.users) == [[world.bob]])
    let now = world.cache.cursor.sequence
    #expect(try store(floor: 0, muted: false, asked: now) ?? (70, true) == (0, false))
  }

  @Test("B69: a member who left and was invited again loses what is unsent there, and open views are told")
  func invitedAgain() throws {
    let world = try ChannelWithMessages()
    defer { world.cache.close() }
    try answer(world, asked: world.cache.cursor.sequence, state: .invited)
    let loss = try world.cache.read { reader in
      let user = try #require(try reader.userKey(of: world.bob))
      let channel = try #require(try reader.channelKey(of: world.url))
      return try reader.loss(of: channel, for: user)
    }
    #expect(loss?.change.kind == .membershipLost)
    #expect(try world.cache.view(of: world.url, for: world.bob)?.isJoined == false)
  }
}
