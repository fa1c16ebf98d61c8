import ChatCache
import ChatModel
import MicroHTTP
import Platform
import Testing

@testable import ChatAPI

/// Users and channels whose names Swift takes for equal, although their bytes differ: they are strangers to
/// each other, in any order of requests and with anything remembered of the other (B1).
@Suite struct LookAlikeTests {
  /// Two users and two channels, alike in pairs.
  struct Pair: Sendable, CustomTestStringConvertible {
    let one: String
    let other: String
    var testDescription: String { one }
  }

  static let pairs = [
    Pair(one: "Karl", other: "\u{212A}arl"), Pair(one: "a;b", other: "a\u{37E}b"),
    Pair(one: "`x", other: "\u{1FEF}x"), Pair(one: "\u{E9}", other: "e\u{301}"),
  ]

  private static func encoded(_ text: String) -> String {
    text.utf8.map { "%" + (String($0, radix: 16).count < 2 ? "0" : "") + String($0, radix: 16) }.joined()
  }

  /// Both users, each in the channel of the same spelling, and both in one called general.
  private struct Setting {
    let secrets: SigningSecrets
    let world: CollectionWorld
    let pair: Pair
    var users: [String] { [pair.one, pair.other] }

    init(_ pair: Pair) throws {
      self.pair = pair
      secrets = try SigningSecrets("0123456789abcdef0123456789abcdef")
      world = try CollectionWorld(gate: Gate(.tokens(Keyring(secrets))))
      for name in [pair.one, pair.other] {
        try world.join(name, name, name: "mine")
        try world.join(name, "general", name: "General")
      }
      try world.list([1, 2], in: pair.one)
      try world.list([11, 12, 13], in: pair.other)
      try world.list([5], in: "general")
    }

    func ask(_ user: String, _ path: String, _ method: String = "GET", body: String = "", tag: String? = nil)
      -> Answer
    {
      let token = BearerToken(user: user, scopes: .chat, expires: Clock.system.wallMilliseconds() / 1000 + 60)
      var headers = [
        "Authorization": "Bearer \(token.signed(with: secrets))", "Content-Type": "application/json",
      ]
      if let tag { headers["If-None-Match"] = tag }
      return ChatAPITests.ask(world.server, path, method: method, headers: headers, body: body)
    }

    func channel(_ name: String) -> String { "/v1/channels/\(LookAlikeTests.encoded(name))" }
  }

  @Test(
    "B1: one's channel, page, message and members are not there for the other, in whatever order they ask",
    arguments: pairs)
  func channels(pair: Pair) throws {
    let setting = try Setting(pair)
    defer { setting.world.stop() }
    #expect(pair.one == pair.other, "else nothing is tried here")
    let own = [(pair.one, "1", "11"), (pair.other, "11", "1")]
    for order in [[0, 1], [1, 0], [0, 0, 1, 1, 0, 1]] {
      for (user, mine, theirs) in order.map({ own[$0] }) {
        let page = setting.ask(user, setting.channel(user) + "/messages")
        #expect(page.status == 200 && page.body.contains("\"message_id\":\"\(mine)\""), "\(page)")
        #expect(!page.body.contains("\"message_id\":\"\(theirs)\""))
        let foreign = user.utf8.elementsEqual(pair.one.utf8) ? pair.other : pair.one
        for path in ["", "/messages", "/messages/\(theirs)", "/members", "/gaps"] {
          let answer = setting.ask(user, setting.channel(foreign) + path)
          #expect(answer.text("code") == "channel_not_found", "\(path) \(answer)")
        }
        let list = setting.ask(user, "/v1/channels?include_empty=true")
        #expect(
          list.body.utf8.contains(sequence: "\"\(user)\"")
            && !list.body.utf8.contains(sequence: "\"\(foreign)\""))
        let filtered = setting.ask(
          user, "/v1/channels?include_empty=true&channel_urls=\(LookAlikeTests.encoded(foreign))")
        #expect(filtered.body.contains(#""items":[]"#), "\(filtered)")
      }
    }
  }

  @Test("B1: no tag of one's answer is the other's 304", arguments: pairs)
  func tags(pair: Pair) throws {
    let setting = try Setting(pair)
    defer { setting.world.stop() }
    for path in ["/v1/channels/general/messages", "/v1/channels/general", "/v1/channels?include_empty=true"] {
      for (one, other) in [(pair.one, pair.other), (pair.other, pair.one)] {
        let tag = try #require(setting.ask(one, path)["ETag"])
        #expect(setting.ask(one, path, tag: tag).status == 304)
        #expect(setting.ask(other, path, tag: tag).status == 200)
        #expect(setting.ask(one, path, tag: tag).status == 304)
      }
    }
  }

  @Test("B1: one's views are not the other's: to read, load, follow, reset or dispose of", arguments: pairs)
  func views(pair: Pair) throws {
    let setting = try Setting(pair)
    defer { setting.world.stop() }
    for (one, other) in [(pair.one, pair.other), (pair.other, pair.one)] {
      let chat = setting.ask(
        one, "/v1/message-collections", "POST", body: #"{"channel_url":"\#(one)","previous_size":1}"#)
      let list = setting.ask(one, "/v1/channel-collections", "POST", body: "{}")
      let foreign = setting.ask(
        other, "/v1/message-collections", "POST", body: #"{"channel_url":"\#(one)"}"#)
      #expect(foreign.text("code") == "channel_not_found")
      let paths = [
        "/v1/message-collections/\(chat.text("id"))", "/v1/channel-collections/\(list.text("id"))",
      ]
      let edge = #"{"before":"\#(chat.text("previous"))"}"#
      let asks: [(String, String, String)] = [
        (paths[0], "GET", ""), (paths[0] + "/events?wait=0&since=now", "GET", ""),
        (paths[0] + "/previous", "POST", edge), (paths[0] + "/reset", "POST", "{}"),
        (paths[0] + "/failed", "DELETE", ""), (paths[0], "DELETE", ""), (paths[1], "GET", ""),
        (paths[1] + "/events?wait=0&since=now", "GET", ""), (paths[1], "DELETE", ""),
        ("/v1/events?wait=0&since=now&collections=\(chat.text("id"))", "GET", ""),
      ]
      for (path, method, body) in asks {
        #expect(
          setting.ask(other, path, method, body: body).text("code") == "collection_not_found", "\(path)")
      }
      for path in paths { #expect(setting.ask(one, path).status == 200) }
    }
  }

  @Test("B1: what happens to one is no event of the other's", arguments: pairs)
  func events(pair: Pair) throws {
    let setting = try Setting(pair)
    defer { setting.world.stop() }
    let since = setting.world.cache.cursor
    try setting.world.send(3, in: pair.one)
    for user in [pair.other, pair.one, pair.other] {
      let feed = setting.ask(user, "/v1/events?wait=0&since=\(since)")
      let isOne = user.utf8.elementsEqual(pair.one.utf8)
      #expect(feed.events.contains { $0.hasPrefix("message") } == isOne, "\(feed)")
    }
  }

  @Test(
    "B12: a filter by one sender shows nothing of the other's, also where answers are shared",
    arguments: pairs)
  func senders(pair: Pair) throws {
    let setting = try Setting(pair)
    defer { setting.world.stop() }
    let views = [pair.one, pair.other].map { sender in
      setting.ask(
        pair.one, "/v1/message-collections", "POST",
        body: #"{"channel_url":"general","sender_user_ids":["\#(sender)"]}"#)
    }
    let since = try #require(views.last).text("cursor")
    let fresh = views.map { setting.ask(pair.one, "/v1/message-collections/\($0.text("id"))") }
    #expect(fresh.allSatisfy { $0.text("cursor") == since })
    var row = CollectionWorld.message(6, at: 60)
    row.sender = pair.one
    let sent = row
    try setting.world.cache.write { try $0.store(sent, in: ChannelURL("general"), .messageReceived) }
    for order in [[0, 1], [1, 0]] {
      for index in order {
        let path = "/v1/message-collections/\(views[index].text("id"))/events?wait=0&since=\(since)"
        let answer = setting.ask(pair.one, path)
        #expect(answer.events == (index == 0 ? ["messages.added 6"] : []), "\(answer)")
      }
    }
    for (sender, found) in [(pair.one, true), (pair.other, false)] {
      let page = setting.ask(
        pair.one, "/v1/channels/general/messages?sender_user_ids=\(LookAlikeTests.encoded(sender))")
      #expect(page.body.contains("\"message_id\":\"6\"") == found)
    }
  }

  @Test("B1: members, read positions and metadata of similar names are kept apart", arguments: pairs)
  func rows(pair: Pair) throws {
    let setting = try Setting(pair)
    defer { setting.world.stop() }
    var record = CollectionWorld.channel("general", floor: 0, name: "General", last: nil)
    record.readReceipts = ReadReceipts([ExactText(pair.one): 7, ExactText(pair.other): 9])
    record.metadata = [ExactText(pair.one): "a"]
    record.metadata?[ExactText(pair.other)] = "b"
    record.members = [pair.one, pair.other].map { name in
      MemberRecord(userID: name, nickname: "", state: .joined, body: Array("\"user_id\":\"\(name)\"".utf8))
    }
    let stored = record
    try setting.world.cache.write { [user = UserID(pair.one)] in
      _ = try $0.store([stored], of: user, .refresh(.channelChanged))
    }
    let members = setting.ask(pair.one, "/v1/channels/general/members")
    let channel = setting.ask(pair.one, "/v1/channels/general?include_metadata=true")
    for name in [pair.one, pair.other] {
      #expect(members.body.utf8.contains(sequence: "\"user_id\":\"\(name)\""), "\(members)")
    }
    #expect(channel.body.utf8.contains(sequence: "\"\(pair.one)\":\"a\""), "\(channel)")
    #expect(channel.body.utf8.contains(sequence: "\"\(pair.other)\":\"b\""), "\(channel)")
    #expect(members.body.contains("7") && members.body.contains("9"))
  }

  @Test("B51: one's ticket is not the other's")
  func tickets() throws {
    let pair = Self.pairs[0]
    let setting = try Setting(pair)
    defer { setting.world.stop() }
    let ticket = setting.ask(pair.one, "/v1/events/ticket", "POST", body: #"{"path":"/v1/events"}"#)
      .text("ticket")
    #expect(setting.ask(pair.one, "/v1/events?since=now&ticket=\(ticket)").status == 200)
    #expect(setting.ask(pair.other, "/v1/events?since=now&ticket=\(ticket)").status == 401)
  }
}

extension String.UTF8View {
  /// Whether it contains the bytes of `part`.
  fileprivate func contains(sequence part: String) -> Bool {
    let (text, part) = (Array(self), Array(part.utf8))
    guard part.count <= text.count else { return false }
    return (0...(text.count - part.count)).contains { text[$0..<($0 + part.count)].elementsEqual(part) }
  }
}
