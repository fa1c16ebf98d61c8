import ChatModel
import Testing

@testable import ChatCache

/// Views in the database.
@Suite struct StoredViewTests {
  @Test("B58: a view that two requests begin anew at once is stored once")
  func begunTwice() throws {
    let world = try ChannelWithMessages()
    defer { world.cache.close() }
    let user = try #require(try world.cache.userKey(of: world.alice))
    let view = StoredCollection(
      id: "v", user: user, userID: world.alice, kind: .channels, query: Array("{}".utf8),
      loaded: Array("{}".utf8), accessedAt: 0)
    for _ in 0..<2 { try world.cache.accept { try $0.open(view) } }
    #expect(try world.cache.read { try $0.collections() }.map(\.id) == ["v"])
  }

  @Test("B58: a view whose user or channel was cleared meanwhile has nothing to stand on")
  func cleared() throws {
    let world = try ChannelWithMessages()
    defer { world.cache.close() }
    let user = try #require(try world.cache.userKey(of: world.alice))
    let channel = try #require(try world.cache.read { try $0.channelKey(of: world.url) })
    func holdsGround(_ user: UserKey, _ channel: ChannelKey?) throws -> Bool {
      let view = StoredCollection(
        id: "v", user: user, userID: world.alice, kind: .messages, channel: channel.map { ($0, world.url) },
        query: [], loaded: [], accessedAt: 0)
      return try world.cache.read { try $0.holdsGround(of: view) }
    }
    #expect(try holdsGround(user, nil) && holdsGround(user, channel))
    #expect(try !holdsGround(UserKey(999), nil) && !holdsGround(UserKey(999), channel))
    #expect(try !holdsGround(user, ChannelKey(999)))
  }
}
