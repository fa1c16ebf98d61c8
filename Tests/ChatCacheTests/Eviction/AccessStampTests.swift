import ChatModel
import Platform
import TestSupport
import Testing

@testable import ChatCache

/// Reading pages stamps a channel, at most once a minute (B22).
@Suite struct AccessStampTests {
  @Test("B22: of many reads within a minute one is written, and the last is not lost")
  func onceAMinute() {
    let stamps = AccessStamps()
    let channel = ChannelKey(1)
    stamps.note(channel, at: 5)
    stamps.note(channel, at: 7)
    #expect(stamps.take(now: 1_000).map(\.moment) == [7])
    stamps.note(channel, at: 9)
    #expect(stamps.take(now: 30_000).isEmpty && stamps.isNoted(channel))
    stamps.note(ChannelKey(2), at: 8)
    #expect(stamps.take(now: 30_000).map(\.channel) == [ChannelKey(2)])
    #expect(stamps.take(now: 61_000).map(\.moment) == [9])
    #expect(!stamps.isNoted(channel))
  }

  @Test("B22: a read is stored, and never takes a channel back in time")
  func stored() throws {
    let world = try EvictionWorld(channels: 1)
    let channel = world.channels[0].key
    func accessedAt() throws -> Int64? {
      try world.cache.read { try $0.db.first("SELECT accessed_at FROM channel") { $0.int64(0) } }
    }
    world.cache.noteAccess(channel, at: 2_000_000)
    try world.cache.storeAccess()
    #expect(try accessedAt() == 2_000_000)
    #expect(try world.cache.read { try $0.overview(after: nil, limit: 1).map(\.usedAt) } == [2_000_000])
    let other = try EvictionWorld(channels: 1)
    try other.list([ChannelWithMessages.message(1, at: 10)], limit: 10, in: 0)
    let position = Position(createdAt: 10, messageID: 1)
    try other.open("v", position...position, in: 0)
    other.cache.noteAccess(other.channels[0].key, at: 5)
    try other.cache.storeAccess()
    let kept = try other.cache.read { try $0.db.first("SELECT accessed_at FROM channel") { $0.int64(0) } }
    #expect(kept == 1_000_000)
  }
}
