import ChatCache
import ChatModel
import JSON
import TestSupport
import Testing

@testable import ChatAPI

/// Random clients of chats and lists: they poll, lose answers, come back with the cursor before, load older
/// pages, while messages come, change and go, members leave and come back, floors rise and the service
/// restarts with another border of crowded channels.
@Suite struct CollectionModelTests {
  /// A client: the rows it shows, and the events it may get.
  private struct Client {
    let user: String
    let path: String
    let isList: Bool
    let channel: String
    var cursor: String
    /// Each message or channel with its content.
    var shown: [String: String]
    /// The state before the last answer, for answers that are lost.
    var earlier: (cursor: String, shown: [String: String])?
    /// The last two cursors that its view answered since the last start. From these it gets exact
    /// differences.
    var answered: [String] = []
    /// The number of reasons so far for a `replaced` event.
    var reasons = 0
    /// Whether the upstream's answer to its opening is in the log.
    var isAnswered = false

    var name: String { isList ? "channels" : "messages" }

    mutating func note(_ cursor: String) {
      answered.removeAll { $0 == cursor }
      answered = Array((answered + [cursor]).suffix(2))
    }
  }

  private struct Event {
    let type: String
    let source: String
    let items: [(name: String, content: String)]
    let gone: [String]

    init(_ json: JSONValue) {
      type = json["type"]?.string ?? "?"
      source = json["source"]?.string ?? ""
      items = Event.items(json["messages"] ?? json["channels"])
      var gone: [String] = []
      for item in json["message_refs"]?.items ?? JSONValue.Items() {
        gone.append(item["message_id"]?.string ?? "")
      }
      for item in json["channel_urls"]?.items ?? JSONValue.Items() { gone.append(item.string ?? "") }
      self.gone = gone
    }

    static func items(_ json: JSONValue?) -> [(name: String, content: String)] {
      var items: [(name: String, content: String)] = []
      for item in json?.items ?? JSONValue.Items() {
        let name = item["message_id"]?.string ?? item["channel_url"]?.string ?? ""
        let content = item["message"]?.string ?? item["name"]?.string ?? ""
        items.append((name, content + "/" + (item["last_message"]?["message_id"]?.string ?? "")))
      }
      return items
    }
  }

  private func events(_ answer: Answer) throws -> [Event] {
    try JSONParser().parse(answer.body) { json in (json["events"]?.items).map { $0.map(Event.init) } ?? [] }
  }

  private func window(_ answer: Answer, _ name: String) throws -> [String: String] {
    try JSONParser().parse(answer.body) { json in
      Dictionary(Event.items(json.field(named: name)).map { ($0.name, $0.content) }) { $1 }
    }
  }

  /// Applies one event, and checks it against the rules.
  private func take(
    _ event: Event, _ client: inout Client, _ truth: Truth, _ isExact: Bool, _ context: String
  ) {
    switch event.type {
    case "messages.added", "channels.added":
      for item in event.items {
        if isExact { #expect(client.shown[item.name] == nil, "added twice: \(item.name) \(context)") }
        client.shown[item.name] = item.content
      }
    case "messages.updated", "channels.updated":
      for item in event.items {
        #expect(client.shown[item.name] != nil, "updated but never added: \(item.name) \(context)")
        if isExact, !client.isList {
          #expect(client.shown[item.name] != item.content, "nothing changed: \(item.name) \(context)")
        }
        client.shown[item.name] = item.content
      }
    case "messages.deleted", "channels.deleted":
      for name in event.gone {
        if isExact { #expect(client.shown[name] != nil, "deleted but not there: \(name) \(context)") }
        client.shown[name] = nil
      }
    case "messages.replaced":
      #expect(client.reasons > 0, "replaced without a reason \(context)")
      #expect(event.source == "channel_refresh" || (event.source == "api_result" && client.isAnswered))
      client.shown = Dictionary(event.items.map { ($0.name, $0.content) }) { $1 }
    case "api_result": #expect(client.isAnswered, "\(context)")
    case "channel.deleted", "channel.updated", "gap.changed": break
    case "cache.cleared":
      #expect(client.isList && event.gone.count == 1, "\(context)")
      for url in event.gone {
        #expect(truth.cleared.contains(url) && truth.members.contains("\(client.user)/\(url)"), "\(context)")
      }
    default: Issue.record("\(event.type) is no event of this view \(context)")
    }
  }

  /// The state upstream.
  private struct Truth {
    var next: Int64 = 31
    var members: Set<String> = ["alice/general", "bob/general", "alice/random", "bob/random"]
    var floors: [String: Int64] = [:]
    var edits = 0
    /// The channels into which somebody came when nobody was in them.
    var cleared: Set<String> = []

    /// Returns whether the user came in, and was not there before.
    mutating func join(_ user: String, _ channel: String) -> Bool {
      if !members.contains(where: { $0.hasSuffix("/" + channel) }) { cleared.insert(channel) }
      return members.insert("\(user)/\(channel)").inserted
    }
  }

  @Test(
    "B9 B18 B19 B49: whatever is lost, left, hidden and restarted, each client converges by allowed events",
    arguments: 0..<16)
  func converges(seed: Int) throws {
    var random = SeededRandom(seed: UInt64(seed))
    let world = try CollectionWorld(mostChangedMembers: Self.border(seed))
    defer { world.stop() }
    for user in ["alice", "bob"] {
      for channel in ["general", "random"] { try world.join(user, channel, name: channel) }
    }
    for channel in ["general", "random"] { try world.list(Array(1...30), in: channel) }
    var clients = try ["alice", "bob"].flatMap { user in
      try [3, 40].map { try open(world, user, "general", size: $0) } + [try openList(world, user)]
    }
    var truth = Truth()
    for step in 0..<80 {
      try change(world, &truth, &clients, seed, step, &random)
      let index = Int.random(in: 0..<clients.count, using: &random)
      let context = "(seed \(seed), step \(step), \(clients[index].user) \(clients[index].name))"
      try poll(world, &clients[index], truth, context, &random)
    }
    for index in clients.indices {
      try poll(world, &clients[index], truth, "(seed \(seed), at last)", &random)
    }
  }

  private func open(
    _ world: CollectionWorld, _ user: String, _ channel: String, size: Int
  ) throws -> Client {
    let open = world.post(
      "/v1/message-collections", #"{"channel_url":"\#(channel)","previous_size":\#(size)}"#, as: user)
    var client = Client(
      user: user, path: "/v1/message-collections/\(open.text("id"))", isList: false, channel: channel,
      cursor: open.text("cursor"), shown: try window(open, "messages"), earlier: nil)
    client.note(client.cursor)
    return client
  }

  private func openList(_ world: CollectionWorld, _ user: String) throws -> Client {
    let open = world.post("/v1/channel-collections", "{}", as: user)
    var client = Client(
      user: user, path: "/v1/channel-collections/\(open.text("id"))", isList: true, channel: "",
      cursor: open.text("cursor"), shown: try window(open, "channels"), earlier: nil)
    client.note(client.cursor)
    return client
  }

  /// With more members a channel is crowded: all are, those with two members, or none.
  private static func border(_ start: Int) -> Int { [0, 1, 3, .max][start % 4] }

  /// Makes a random change.
  private func change(
    _ world: CollectionWorld, _ truth: inout Truth, _ clients: inout [Client], _ seed: Int, _ step: Int,
    _ random: inout SeededRandom
  ) throws {
    let channel = Bool.random(using: &random) ? "general" : "random"
    let user = Bool.random(using: &random) ? "alice" : "bob"
    let membership = "\(user)/\(channel)"
    switch Int.random(in: 0..<14, using: &random) {
    case 0...3:
      try world.send(truth.next, in: channel)
      truth.next += 1
    case 4: try world.delete(Int64.random(in: 1..<truth.next, using: &random), in: channel)
    case 5, 6:
      truth.edits += 1
      let id = Int64.random(in: 1..<truth.next, using: &random)
      try world.send(id, in: channel, text: "edit \(truth.edits)", updatedAt: Int64(1000 + truth.edits))
    case 7:
      try world.leave(user, channel)
      truth.members.remove(membership)
    case 8, 9:
      try world.join(user, channel, floor: truth.floors[membership] ?? 0, name: channel)
      if truth.join(user, channel) { allow(membership, &clients) }
    case 10 where truth.members.contains(membership):
      let floor = max(truth.floors[membership] ?? 0, Int64.random(in: 0..<truth.next, using: &random) * 10)
      if floor > truth.floors[membership] ?? 0 { allow(membership, &clients) }
      truth.floors[membership] = floor
      try world.join(user, channel, floor: floor, name: channel)
    case 11 where channel == "random":
      try world.join(user, "new-\(step)", name: "named \(step)")
    case 11:
      try world.join(user, channel, floor: truth.floors[membership] ?? 0, name: "named \(step)")
      if truth.join(user, channel) { allow(membership, &clients) }
    case 12 where step % 4 == 3:
      try world.restart(mostChangedMembers: Self.border(seed + step / 4))
      for index in clients.indices { clients[index].answered = [] }
    case 13: try answer(world, &clients, &random)
    default: break
    }
  }

  /// Stores the upstream's answer to one opening, which has only one (B16).
  private func answer(
    _ world: CollectionWorld, _ clients: inout [Client], _ random: inout SeededRandom
  ) throws {
    let index = Int.random(in: 0..<clients.count, using: &random)
    guard !clients[index].isList, !clients[index].isAnswered,
      let id = clients[index].path.split(separator: "/").last
    else { return }
    clients[index].isAnswered = true
    clients[index].reasons += 1
    let url = ChannelURL(clients[index].channel)
    try world.cache.write { try $0.answered(views: [String(id)], in: url, failure: nil) }
  }

  /// Allows a `replaced` event, because membership was gained or a floor rose.
  private func allow(_ membership: String, _ clients: inout [Client]) {
    for index in clients.indices where "\(clients[index].user)/\(clients[index].channel)" == membership {
      clients[index].reasons += 1
    }
  }

  /// A client polls, perhaps again with the cursor before, and perhaps loads an older page first.
  private func poll(
    _ world: CollectionWorld, _ client: inout Client, _ truth: Truth, _ context: String,
    _ random: inout SeededRandom
  ) throws {
    if Int.random(in: 0..<5, using: &random) == 0, let earlier = client.earlier {
      (client.cursor, client.shown) = earlier
    }
    let isMember = client.isList || truth.members.contains("\(client.user)/\(client.channel)")
    if !client.isList, isMember, Int.random(in: 0..<6, using: &random) == 0 {
      try loadOlder(world, &client)
    }
    let poll = world.ask("\(client.path)/events?since=\(client.cursor)&wait=0", as: client.user)
    guard isMember else {
      // The event comes once, and again for the same cursor; after it the view is gone.
      #expect(poll.status == 404 || poll.events == ["channel.deleted \(client.channel)"], "\(context)")
      return
    }
    #expect(poll.status == 200, "\(poll.body) \(context)")
    let before = (client.cursor, client.shown)
    let told = try events(poll)
    #expect(told.count { $0.type == "messages.replaced" } <= 1, "\(context)")
    let isExact = client.answered.contains(client.cursor)
    for event in told { take(event, &client, truth, isExact, context) }
    client.earlier = before
    client.cursor = poll.text("cursor")
    client.note(client.cursor)
    let fresh = world.ask(client.path, as: client.user)
    client.note(fresh.text("cursor"))
    let now = try window(fresh, client.name)
    #expect(client.shown == now, "\(told.map { "\($0.type) \($0.items) \($0.gone)" }) \(context)")
  }

  private func loadOlder(_ world: CollectionWorld, _ client: inout Client) throws {
    let view = world.ask(client.path, as: client.user)
    client.note(view.text("cursor"))
    let token = view.text("previous")
    guard !token.isEmpty else { return }
    let page = world.post("\(client.path)/previous", #"{"before":"\#(token)"}"#, as: client.user)
    #expect(page.status == 200)
    for (name, content) in try window(page, "items") { client.shown[name] = content }
    client.earlier = nil
  }
}
