import ChatModel
import Platform
import TestSupport
import Testing

@testable import ChatCache

/// Whether a kept `PlainMember` is what the rows say, however they change.
@Suite(.timeLimit(.minutes(3))) struct PlainMemberTests {
  private struct Changes {
    let world: ChannelWithMessages
    var random: SeededRandom
    var sent = 0
    var messages: Int64 = 100

    /// One change, as requests and the sync worker make it.
    mutating func make() throws {
      let (cache, url) = (world.cache, world.url)
      let user = [world.alice, world.bob].randomElement(using: &random)!
      switch Int.random(in: 0..<12, using: &random) {
      case 0: try cache.write { try $0.removeMembership(of: user, in: url, .memberLeft) }
      case 1, 2: try join(user, .joined)
      case 3: try join(user, .invited)
      case 4: try join(user, .joined, floorAt: Int64.random(in: 0...3, using: &random) * 10)
      case 5, 6: try send(user)
      case 7:
        guard let key = try cache.userKey(of: user) else { return }
        try cache.write { try $0.failOutbox(in: OutboxLaneKey(user: key, channel: url)) }
      case 8: try cache.holdRights(of: [user])
      case 9: try cache.releaseRights(of: user)
      case 10: try list(user)
      default:
        if Int.random(in: 0..<4, using: &random) == 0 {
          try cache.write { try $0.clearAll(withUnsent: true) }
          while try cache.write({ try $0.removeSliceOfEverything() }) {}
        } else {
          _ = try cache.accept { try $0.forget(user, isForced: true) }
        }
      }
    }

    private func join(_ user: UserID, _ state: MembershipRecord.State, floorAt: Int64 = 0) throws {
      var record = ChannelWithMessages.channel(world.url)
      record.membership?.state = state
      record.membership?.floorAt = floorAt
      let changed = record
      try world.cache.write { writer in
        try writer.acknowledge(user)
        _ = try writer.store([changed], of: user, .refresh(.memberJoined))
      }
    }

    private mutating func send(_ user: UserID) throws {
      sent += 1
      let request = OutboxTableTests.request("r\(sent)", .message, #"{"message":"hello"}"#)
      // `try?`: a user who is no member may not send.
      _ = try? world.cache.accept { [world] in
        try $0.accept(request, of: user, in: world.url, OutboxPolicy())
      }
    }

    /// The upstream lists a message that the user is sending.
    private mutating func list(_ user: UserID) throws {
      messages += 1
      var record = ChannelWithMessages.message(messages, at: messages, sender: user.text)
      record.requestID = "r\(sent)"
      // `try?`: while everything is cleared there is no channel.
      try? world.listNewest([record], limit: 10)
    }
  }

  /// What the rows say: the channel and the floor of a plain member.
  private func truth(_ user: UserID, _ world: ChannelWithMessages) throws -> [Int64]? {
    try world.cache.read { reader in
      guard let key = try reader.userKey(of: user), let view = try reader.view(of: world.url, for: key),
        view.isJoined, !view.isOfItsOwn
      else { return nil }
      return [key.rawValue, view.channel.rawValue, view.floorAt]
    }
  }

  private func told(_ member: PlainMember?) -> [Int64]? {
    member.map { [$0.user.rawValue, $0.channel.rawValue, $0.floorAt] }
  }

  @Test("B1, B23, B38: a plain member is kept until a row changes that decides it", arguments: 1...8)
  func model(seed: Int) throws {
    let world = try ChannelWithMessages()
    defer { world.cache.close() }
    var changes = Changes(world: world, random: SeededRandom(seed: UInt64(seed)))
    var kept: [UserID: PlainMember] = [:]
    var (held, lost) = (0, 0)
    for step in 0..<300 {
      try changes.make()
      for user in [world.alice, world.bob] {
        let truth = try truth(user, world)
        if let known = kept[user] {
          let isStill = world.cache.isStill(known)
          if isStill { #expect(told(known) == truth, "seed \(seed), step \(step)") }
          if isStill { held += 1 } else { lost += 1 }
        }
        let found = try world.cache.plainMember(user, in: world.url)
        #expect(told(found) == truth, "seed \(seed), step \(step)")
        kept[user] = found
      }
    }
    #expect(held > 20 && lost > 20)
  }

  @Test("B1: what was read while a change was being written is not kept after its commit", arguments: 1...4)
  func besideWrites(seed: Int) throws {
    let world = try ChannelWithMessages()
    defer { world.cache.close() }
    let kept = Watched<(members: [UserID: PlainMember], isOver: Bool)>(([:], false))
    let reader = Thread("reader") {
      while !kept.read({ $0.isOver }) {
        for user in [world.alice, world.bob] {
          // `try?`: a cache that is being cleared is read again.
          guard let found = try? world.cache.plainMember(user, in: world.url) else { continue }
          kept.update { $0.members[user] = found }
        }
      }
    }
    var changes = Changes(world: world, random: SeededRandom(seed: UInt64(seed)))
    for step in 0..<200 {
      try changes.make()
      // The change is durable, and no other is made meanwhile.
      for user in [world.alice, world.bob] {
        guard let known = kept.read({ $0.members[user] }), world.cache.isStill(known) else { continue }
        #expect(told(known) == (try truth(user, world)), "seed \(seed), step \(step)")
      }
    }
    kept.update { $0.isOver = true }
    reader.join()
  }
}
