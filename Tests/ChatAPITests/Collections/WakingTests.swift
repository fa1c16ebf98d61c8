import ChatCache
import ChatCollections
import ChatModel
import Glibc
import JSON
import Platform
import Synchronization
import Testing

@testable import ChatAPI

/// Which commits wake which polls.
@Suite struct WakingTests {
  private final class Woken: Sendable {
    private let state = Watched<[String: Int]>([:])
    func note(_ name: String) { state.update { $0[name, default: 0] += 1 } }
    func wait(for name: String) -> Bool {
      let end = Clock.system.monotonicNanoseconds() + 5_000_000_000
      return state.wait(until: end) { $0[name, default: 0] > 0 ? true : nil } ?? false
    }
    func count(_ name: String) -> Int { state.read { $0[name, default: 0] } }
  }

  private final class Named: Wakeable {
    private let name: String
    private let woken: Woken
    init(_ name: String, _ woken: Woken) { (self.name, self.woken) = (name, woken) }
    func wake() { woken.note(name) }
  }

  private func keys(_ world: CollectionWorld, _ user: String, _ channel: String) throws -> Member {
    try world.cache.read { reader in
      let user = try #require(try reader.userKey(of: UserID(user)))
      let url = ChannelURL(channel)
      // Any member's view has the channel's key.
      for member in ["alice", "bob"] {
        if let key = try reader.userKey(of: UserID(member)), let view = try reader.view(of: url, for: key) {
          return Member(channel: view.channel, user: user)
        }
      }
      throw ViewError.channelNotFound
    }
  }

  @Test("B51: a change wakes exactly those it concerns: the channel's views, its members' feeds, one member")
  func exactly() throws {
    let world = try CollectionWorld()
    defer { world.stop() }
    for (user, channel) in [("alice", "general"), ("bob", "general"), ("carol", "random"), ("bob", "random")]
    {
      try world.join(user, channel, name: channel)
    }
    let general = try keys(world, "alice", "general")
    let random = try keys(world, "carol", "random")
    let bob = try keys(world, "bob", "general").user
    let subscriptions = world.collections.subscriptions
    let woken = Woken()
    func wait(_ name: String, _ topics: ChangeSubscriptions.Topics) {
      _ = subscriptions.subscribe(Named(name, woken), to: topics)
    }
    func answer(_ view: String) throws {
      try world.cache.write {
        var change = Change(.collectionAnswered, .apiResult, channel: general.channel)
        change.collection = view
        try $0.append(change)
      }
    }
    // Changes wake in order: once this one has woken its poll, the earlier join wakes no more polls.
    wait("the first view", ChangeSubscriptions.Topics(of: random.user, collections: ["zero"]))
    try answer("zero")
    #expect(woken.wait(for: "the first view"))
    wait("alice's view", ChangeSubscriptions.Topics(of: general.user, channels: [general.channel]))
    wait("bob's view", ChangeSubscriptions.Topics(of: bob, channels: [general.channel]))
    wait("carol's view", ChangeSubscriptions.Topics(of: random.user, channels: [random.channel]))
    wait("alice's feed", ChangeSubscriptions.Topics(of: general.user, user: general.user))
    wait("bob's feed", ChangeSubscriptions.Topics(of: bob, user: bob))
    wait("carol's feed", ChangeSubscriptions.Topics(of: random.user, user: random.user))
    wait("a view", ChangeSubscriptions.Topics(of: random.user, collections: ["one"]))
    wait("another", ChangeSubscriptions.Topics(of: general.user, collections: ["two"]))

    try world.list([1], in: "general")
    for name in ["alice's view", "bob's view", "alice's feed", "bob's feed"] {
      #expect(woken.wait(for: name))
    }
    // The same again: once the last change has woken its poll, the first wakes no more polls.
    try world.cache.write { try $0.append(Change(.membership, .read, channel: general.channel, user: bob)) }
    try answer("one")
    #expect(woken.wait(for: "a view"))
    #expect(woken.count("alice's view") == 1 && woken.count("alice's feed") == 1)
    #expect(woken.count("bob's view") == 2 && woken.count("bob's feed") == 2)
    #expect(woken.count("carol's view") == 0 && woken.count("carol's feed") == 0)
    #expect(woken.count("another") == 0)
  }

  @Test("a view's waiters are told each time, and what nobody waits in is forgotten each minute")
  func forgetting() throws {
    let world = try CollectionWorld()
    defer { world.stop() }
    try world.join("alice", "general", name: "general")
    let alice = try keys(world, "alice", "general")
    let subscriptions = world.collections.subscriptions
    let woken = Woken()
    let view = ChangeSubscriptions.Topics(of: alice.user, channels: [alice.channel], isOfView: true)
    for round in Int64(1)...3 {
      _ = subscriptions.subscribe(Named("view \(round)", woken), to: view, isOnce: true)
      _ = subscriptions.subscribe(
        Named("feed \(round)", woken), to: ChangeSubscriptions.Topics(of: alice.user, user: alice.user),
        isOnce: true)
      #expect(subscriptions.count == 2 && subscriptions.topics == 2)
      try world.list([round], in: "general")
      #expect(woken.wait(for: "view \(round)") && woken.wait(for: "feed \(round)"))
      #expect(subscriptions.count == 0 && subscriptions.topics == 1, "only the view's stays")
      if round == 2 { subscriptions.forgetEmpty() }
    }
    let ticket = try #require(subscriptions.subscribe(Named("late", woken), to: view, isOnce: true))
    subscriptions.forgetEmpty()
    #expect(subscriptions.topics == 1, "somebody waits")
    subscriptions.unsubscribe(ticket)
    #expect(subscriptions.count == 0 && subscriptions.topics == 1)
    subscriptions.forgetEmpty()
    #expect(subscriptions.topics == 0)
    #expect((1...3).allSatisfy { woken.count("view \($0)") == 1 } && woken.count("late") == 0)
  }

  @Test("B51: what a feed reads grows with what concerns its user, not with what others do")
  func proportional() throws {
    let world = try CollectionWorld()
    defer { world.stop() }
    try world.join("alice", "general", name: "general")
    try world.join("bob", "random", name: "random")
    try world.list([1], in: "general")
    let cursor = world.ask("/v1/events?since=now").text("cursor")
    let random = try keys(world, "bob", "random")
    try world.cache.write { writer in
      for _ in 0..<5000 { try writer.append(Change(.channel, .channelChanged, channel: random.channel)) }
    }
    try world.send(2, in: "general")
    let poll = world.ask("/v1/events?since=\(cursor)&wait=0")
    #expect(poll.events == ["message.received 2"] && !poll.hasMore, "one look passes over all the others'")
    let alice = try keys(world, "alice", "general").user
    let since = try #require(EventCursor(cursor)).sequence
    let found = try world.cache.read { try $0.changes(for: alice, after: since, limit: 1000) }
    #expect(found.isWhole && found.changes.map(\.change.kind) == [.messages])
  }
}
