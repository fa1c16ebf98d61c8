import ChatModel
import JSON
import TestFolders
import TestSupport
import Testing

@testable import ChatCache
@testable import ChatCollections

/// A page of a list may be read in a snapshot from before its user left a channel, and be answered after the
/// client was told that the channel is gone.
@Suite struct LeftWhileLoadingTests {
  private let alice = UserID("alice")
  private let bob = UserID("bob")
  private let left = ChannelURL("channel-0")
  private let kept = ChannelURL("channel-1")

  @Test("B1: a list is told nothing of a channel that its user left, although a late page had it")
  func latePage() throws {
    let cache = try Cache(Cache.Configuration(directory: TestFolder.make("left-while-loading")))
    defer { cache.close() }
    for user in [alice, bob] {
      try cache.write { writer in
        try writer.acknowledge(user)
        _ = try writer.store(
          (0...1).map { FirstListingTests.record($0, of: user) }, of: user, .listing(sweep: 1))
        try writer.endListing(of: user)
      }
    }
    func say(_ id: Int64, in url: ChannelURL) throws {
      try cache.write { try $0.store(ModelUpstream.message(id, at: id * 10), in: url, .messageReceived) }
    }
    try say(1, in: left)
    try say(2, in: kept)
    let key = try cache.read { try #require(try $0.userKey(of: alice)) }
    let view = ChannelCollection(
      id: "list", user: key, userID: alice, query: ChannelQuery(), window: .closed, accessedAt: 0,
      epoch: cache.cursor.epoch)
    try cache.read { try view.begin($0) }
    let start = cache.cursor
    _ = try cache.read { try view.snapshot($0, at: start).count }
    func told(since: Int64) throws -> (events: String, end: Int64) {
      try cache.read { reader in
        let answer = try view.changes(reader, since: since, until: try reader.lastChange())
        answer.settle(answer.end)
        return (String(decoding: answer.body.array, as: UTF8.self), answer.end)
      }
    }
    let gone = try cache.read { old in
      _ = try old.lastChange()
      try cache.write { try $0.removeMembership(of: alice, in: left, .memberLeft) }
      let gone = try told(since: start.sequence)
      let page = try view.more(old, after: nil, limit: nil).array
      #expect(String(decoding: page, as: UTF8.self).contains("\"channel-0\""), "the page is from before")
      return gone
    }
    #expect(gone.events.contains("channels.deleted"))
    for id in [Int64(3), 4] {
      try say(id, in: left)
      #expect(try told(since: gone.end).events.isEmpty)
    }
    try say(5, in: kept)
    let news = try told(since: gone.end)
    #expect(news.events.contains("\"channel-1\"") && !news.events.contains("\"channel-0\""))
  }
}
