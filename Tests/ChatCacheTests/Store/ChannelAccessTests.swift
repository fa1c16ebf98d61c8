import ChatModel
import Glibc
import Platform
import Synchronization
import Testing

@testable import ChatCache

/// `ChannelAccess` is remembered between two commits, and never across one.
@Suite(.timeLimit(.minutes(5))) struct ChannelAccessTests {
  private static func access(_ world: ChannelWithMessages) throws -> ChannelAccess? {
    try world.cache.read(world.alice, in: world.url) { _, access in access }
  }

  @Test("what was read once is remembered, for that user and that channel alone")
  func remembered() throws {
    let world = try ChannelWithMessages()
    #expect(world.cache.rememberedAccess(of: world.alice, in: world.url) == nil)
    let read = try #require(try Self.access(world))
    let known = try #require(world.cache.rememberedAccess(of: world.alice, in: world.url))
    #expect(known.view == read.view)
    #expect(known.coverage == read.coverage)
    #expect(world.cache.rememberedAccess(of: world.bob, in: world.url) == nil)
    #expect(world.cache.rememberedAccess(of: world.alice, in: ChannelURL("other")) == nil)
    let key = try world.cache.userKey(of: world.alice)
    #expect(key == read.view.user)
    #expect(try world.cache.userKey(of: UserID("nobody")) == nil)
  }

  @Test("B1: who left the channel has no access to it from that commit on")
  func leaving() throws {
    let world = try ChannelWithMessages()
    let (alice, url) = (world.alice, world.url)
    let before = try #require(try Self.access(world))
    #expect(try world.cache.view(of: url, for: alice) == before.view)
    try world.cache.write { try $0.removeMembership(of: alice, in: url, .memberLeft) }
    #expect(world.cache.rememberedAccess(of: alice, in: url) == nil)
    #expect(try world.cache.view(of: url, for: alice) == nil)
    #expect(try Self.access(world) == nil)
    #expect(try world.cache.read(on: before) { _ in 1 } == nil)
  }

  @Test("B4: who was removed is nobody here from that commit on, and another when coming again")
  func removing() throws {
    let world = try ChannelWithMessages()
    let (alice, bob) = (world.alice, world.bob)
    let key = try #require(try world.cache.userKey(of: alice))
    #expect(try world.cache.userKey(of: alice) == key)
    struct Refused: Error {}
    #expect(throws: Refused.self) {
      try world.cache.write { writer in
        try writer.remove(alice)
        throw Refused()
      }
    }
    #expect(try world.cache.userKey(of: alice) == key, "it did not happen")
    try world.cache.write { try $0.remove(alice) }
    #expect(try world.cache.userKey(of: alice) == nil)
    try world.cache.write { try $0.acknowledge(alice) }
    let again = try #require(try world.cache.userKey(of: alice))
    #expect(try again != key && again != world.cache.userKey(of: bob))
  }

  @Test("nothing is remembered of a state that is just changing")
  func changing() throws {
    let revision = Revision()
    let first = try #require(revision.settled)
    #expect(revision.isStill(first))
    revision.unsettle()
    revision.unsettle()
    #expect(revision.settled == nil)
    #expect(!revision.isStill(first))
    revision.settle()
    revision.settle()
    let second = try #require(revision.settled)
    #expect(second != first)
    #expect(!revision.isStill(first))
  }

  @Test("rows that are read on a access are of its moment, while another thread commits")
  func ofOneMoment() throws {
    let world = try ChannelWithMessages()
    try world.listNewest([ChannelWithMessages.message(1, at: 1)], limit: 5)
    let url = world.url
    let isDone = Atomic<Bool>(false)
    let writer = Thread("writer") {
      for number in Int64(2)...300 {
        do {
          try world.cache.write {
            try $0.store(ChannelWithMessages.message(number, at: number), in: url, .messageReceived)
          }
        } catch { Issue.record(error) }
      }
      isDone.store(true, ordering: .releasing)
    }
    var newest: [Int64: Int64] = [:]
    var (turn, reads, refused) = (0, 0, 0)
    while !isDone.load(ordering: .acquiring) {
      guard let access = world.cache.rememberedAccess(of: world.alice, in: url) else {
        _ = try Self.access(world)
        continue
      }
      let head = world.cache.cursor
      let found = try world.cache.read(on: access) { reader in
        // Every other time the rows are read a commit later, so that they must be refused.
        turn += 1
        while turn % 2 == 0, world.cache.cursor == head, !isDone.load(ordering: .acquiring) { sched_yield() }
        return try reader.newestMessage(of: access.view.channel)
      }
      guard let found else {
        refused += 1
        continue
      }
      reads += 1
      let known = newest.updateValue(found, forKey: access.view.channelVersion)
      #expect(known == nil || known == found, "two newest messages at one version of the channel")
    }
    writer.join()
    #expect(reads > 20 && newest.count > 10 && refused > 10, "\(reads) reads of \(newest.count) states")
  }
}

extension CacheReader {
  fileprivate func newestMessage(of channel: ChannelKey) throws -> Int64 {
    try db.first("SELECT max(message_id) FROM message WHERE channel = ?1") {
      $0.bind(1, channel.rawValue)
    } _: {
      $0.int64(0)
    } ?? 0
  }
}
