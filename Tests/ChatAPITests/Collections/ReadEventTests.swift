import ChatCache
import ChatModel
import Testing

@testable import ChatAPI

/// The events of a member who reads on.
@Suite struct ReadEventTests {
  /// Stores the members' read receipts and the channel's name, as the upstream sends them.
  private func read(_ receipts: [ExactText: Int64], name: String = "General", in world: CollectionWorld)
    throws
  {
    var record = CollectionWorld.channel("general", floor: 0, name: name, last: nil)
    record.readReceipts = ReadReceipts(receipts)
    let stored = record
    _ = try world.cache.write { try $0.store([stored], of: UserID("alice"), .refresh(.channelChanged)) }
  }

  private func opened() throws -> (world: CollectionWorld, paths: [String]) {
    let world = try CollectionWorld()
    try world.join("alice", "general", name: "General")
    try world.list([1, 2], in: "general")
    // The first refresh makes its own changes before the view is opened.
    try read([:], in: world)
    let open = world.post("/v1/message-collections", #"{"channel_url":"general"}"#)
    let since = "since=\(open.text("cursor"))&wait=0"
    let list = world.post("/v1/channel-collections", "{}")
    return (
      world,
      [
        "/v1/message-collections/\(open.text("id"))/events?\(since)", "/v1/events?\(since)",
        "/v1/channel-collections/\(list.text("id"))/events?\(since)",
      ]
    )
  }

  @Test("B18 B50: views, lists and the user's feed tell each member who read on, without the channel")
  func each() throws {
    let (world, paths) = try opened()
    defer { world.stop() }
    try read(["bob": 1], in: world)
    try read(["bob": 2, "carol": 1], in: world)
    for path in paths {
      let poll = world.ask(path)
      #expect(poll.events == ["channel.read", "channel.read"], "\(path)")
      for (user, moment) in [("bob", 2), ("carol", 1)] {
        #expect(
          poll.body.contains(
            #""source":"event.read","is_realtime":true,"channel_url":"general","user_id":"\#(user)","read_at":\#(moment)}"#
          ), "\(path): \(poll.body)")
      }
    }
    #expect(world.ask("/v1/channels/general").body.contains(#""read_receipts":{"bob":2,"carol":1}"#))
    // A receipt that is already known makes no event.
    try read(["bob": 1], in: world)
    #expect(paths.allSatisfy { world.ask($0).events.count == 2 })
  }

  @Test(
    "B18: the reader with whom a channel has many changes the channel, as each new one; others are told alone"
  )
  func many() throws {
    let (world, paths) = try opened()
    defer { world.stop() }
    let receipts = { (users: Range<Int>, moment: Int64) in
      Dictionary(uniqueKeysWithValues: users.map { (ExactText("u\($0)"), moment) })
    }
    func events(_ change: () throws -> Void) throws -> [String] {
      let since = "since=\(world.cache.cursor.description)&wait=0"
      try change()
      let views = paths.map { "\($0.split(separator: "?")[0])?\(since)" }
      return views.flatMap { world.ask($0).events }
    }
    // The list is told what it does not know yet.
    _ = try events { try read(receipts(0..<99, 1), in: world) }
    #expect(
      try events { try read(receipts(99..<100, 1), in: world) } == [
        "channel.read", "channel.read", "channel.read",
      ])
    let crossing = try events { try read(receipts(100..<101, 1), in: world) }
    #expect(crossing == ["channel.updated general", "channel.changed general", "channels.updated general"])
    #expect(world.ask("/v1/channels/general").body.contains(#""read_receipts":{},"reader_count":101"#))
    #expect(
      try events { try read(receipts(5..<6, 2), in: world) } == [
        "channel.read", "channel.read", "channel.read",
      ])
    let added = try events { try read(receipts(101..<102, 1), in: world) }
    #expect(added == ["channel.updated general", "channel.changed general", "channels.updated general"])
  }

  @Test("B1: readers whose ids only look alike have an event each")
  func lookAlike() throws {
    let (world, paths) = try opened()
    defer { world.stop() }
    try read(["K": 1, "\u{212A}": 2, "e\u{301}": 3, "\u{E9}": 4], in: world)
    for path in paths {
      let poll = world.ask(path)
      #expect(poll.events.count == 4, "\(path): \(poll.events)")
      for moment in 1...4 { #expect(poll.body.contains(#""read_at":\#(moment)}"#), "\(path)") }
    }
  }

  @Test("B18 B50: where more of the channel changed, or many read on, the whole channel is told")
  func whole() throws {
    let (world, paths) = try opened()
    defer { world.stop() }
    try read(["bob": 1], in: world)
    try read(["bob": 2], name: "Everybody", in: world)
    #expect(world.ask(paths[0]).events == ["channel.updated general"])
    #expect(world.ask(paths[1]).events == ["channel.read", "channel.changed general"])
    #expect(world.ask(paths[2]).events == ["channels.updated general"])
    for count in [20, 21, 50, 51] {
      let many = Dictionary(uniqueKeysWithValues: (0..<count).map { (ExactText("member\($0)"), Int64(5)) })
      let (other, more) = try opened()
      defer { other.stop() }
      try read(many, in: other)
      let each = [String](repeating: "channel.read", count: count)
      #expect(other.ask(more[0]).events == (count > 50 ? ["channel.updated general"] : each))
      #expect(other.ask(more[1]).events == (count > 50 ? ["channel.changed general"] : each))
      #expect(other.ask(more[2]).events == (count > 20 ? ["channels.updated general"] : each))
    }
  }

  @Test("B18: a view is told the whole channel if more than 100 members have read on since its cursor")
  func manySince() throws {
    let (world, paths) = try opened()
    defer { world.stop() }
    let crowd = (0..<150).map { (ExactText("member\($0)"), Int64(1)) }
    try read(Dictionary(uniqueKeysWithValues: crowd), in: world)
    let view = "\(paths[0].split(separator: "?")[0])?since=\(world.cache.cursor.description)&wait=0"
    for number in 0..<100 { try read([ExactText("member\(number)"): 2], in: world) }
    try read(["member7": 3], in: world)
    #expect(world.ask(view).events == [String](repeating: "channel.read", count: 100))
    try read(["member100": 2], in: world)
    try read(["member101": 2], in: world)
    let poll = world.ask(view)
    #expect(poll.events == ["channel.updated general"])
    #expect(poll.body.contains(#""source":"event.read""#))
    // The next answer begins anew.
    try read(["member102": 2], in: world)
    let next = world.ask("\(paths[0].split(separator: "?")[0])?since=\(poll.text("cursor"))&wait=0")
    #expect(next.events == ["channel.read"])
  }
}
