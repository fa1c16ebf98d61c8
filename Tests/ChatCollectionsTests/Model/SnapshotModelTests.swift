import ChatCache
import ChatModel
import Glibc
import JSON
import Platform
import TestSupport
import Testing

@testable import ChatCollections

/// Random views of random chats: whatever happens and whatever answers are lost, a client that applied its
/// events to its snapshot has what a fresh snapshot has, byte for byte. And all users see the same lists,
/// wherever the border between crowded and other channels is.
@Suite struct SnapshotModelTests {
  /// The number of seeds: PERCH_TORTURE_SEEDS, else 130. A test runs ten.
  private static let seeds =
    getenv("PERCH_TORTURE_SEEDS").flatMap { Int(String(cString: $0)) } ?? 130

  @Test(
    "B18 B49: snapshot and events are a fresh snapshot: filters, windows, floors, memberships, fills, restarts",
    arguments: 0..<(seeds + 9) / 10)
  func snapshotAndEvents(block: Int) throws {
    for seed in block * 10..<block * 10 + 10 {
      let run = try ModelRun(seed: seed)
      defer { run.world.end() }
      for step in 0..<30 {
        try run.step()
        try #require(run.difference == nil, "seed \(seed), step \(step): \(run.difference ?? "")")
      }
      #expect(run.isCrossed, "seed \(seed) met \(run.world.crossings.met.sorted())")
      let report = try run.world.cache.check()
      #expect(report.isSound, "seed \(seed): \(report.findings)")
    }
  }
}

/// One seed.
final class ModelRun {
  let world: ModelWorld
  private var random: SeededRandom
  private var chats: [ChatClient] = []
  private var lists: [ListClient] = []
  /// The difference between a client and a fresh snapshot, in words.
  private(set) var difference: String?
  /// What the run had to meet of the border, and whether it did.
  private let expected: Set<String>
  var isCrossed: Bool { expected.isSubset(of: world.crossings.met) }

  init(seed: Int) throws {
    random = SeededRandom(seed: UInt64(seed))
    // Every other seed has views with small windows.
    world = try ModelWorld(
      bound: seed % 2 == 0 ? WindowBound() : WindowBound(rows: 12, rowsLeft: 9), border: seed / 2)
    expected = try world.cross(0, byMessage: seed % 2 == 1, &random)
    for user in ["alice", "bob"] {
      for index in world.upstreams.indices { try world.join(user, index, &random) }
    }
    try world.join("carol", 1, &random)
    for _ in 0..<15 { try world.happen(&random) }
  }

  func step() throws {
    for _ in 0..<Int.random(in: 0...3, using: &random) { try world.happen(&random) }
    switch Int.random(in: 0..<10, using: &random) {
    case 0, 1: try openChat()
    case 2: try openList()
    case 3: try loadMore()
    default: break
    }
    if let index = chats.indices.randomElement(using: &random) {
      try poll(&chats[index])
      if chats[index].isOver { chats.remove(at: index) }
    }
    if difference == nil, let index = lists.indices.randomElement(using: &random) {
      try poll(&lists[index])
    }
    if difference == nil, random.chance(25) { difference = try world.differenceFromTwin() }
  }

  // MARK: Chats

  private func request(_ index: Int) throws -> MessageViewRequest {
    var json = JSONWriter()
    json.beginObject()
    json.field("channel_url", world.upstreams[index].url.text)
    if random.chance(40),
      let position = world.upstreams[index].positions.values.sorted().randomElement(using: &random)
    {
      json.field("starting_point", position.createdAt)
    }
    json.field("previous_size", Int.random(in: 0...6, using: &random))
    json.field("next_size", Int.random(in: 0...6, using: &random))
    json.field("inclusive", random.chance(80))
    if random.chance(20) { json.field("message_type", ["user", "file", "admin"].pick(&random)) }
    json.field("reply_type", ["none", "all", "only_reply_to_channel"].pick(&random))
    if random.chance(20) {
      MessageViewRequest.write("sender_user_ids", [["alice", "bob"].pick(&random)], into: &json)
    }
    if random.chance(20) {
      MessageViewRequest.write("custom_types", [["", "x"].pick(&random)], into: &json)
    }
    json.field("include_reactions", random.chance(50))
    json.field("include_parent_message", random.chance(50))
    json.endObject()
    let body = json.finish().array
    return try body.withUnsafeBytes { bytes in
      try JSONParser().parse(bytes) { try MessageViewRequest($0) }
    }
  }

  private func openChat() throws {
    let index = Int.random(in: 0..<world.upstreams.count, using: &random)
    let user = UserID(["alice", "bob", "bob", "carol"].pick(&random))
    let request = try request(index)
    do {
      let view = try world.collections.openMessages(request, of: user, named: Collections.name())
      let cursor = world.cache.cursor
      let body = try world.cache.read {
        try view.snapshot($0, world.collections.viewContext(view.url), at: cursor)
      }
      chats.append(
        ChatClient(
          id: view.id, user: user, index: index, cursor: cursor.sequence, content: try ChatContent(body)))
    } catch ViewError.channelNotFound { return }
    if chats.count > 5 { chats.removeFirst() }
  }

  private func loadMore() throws {
    guard let index = chats.indices.randomElement(using: &random) else { return }
    let view = try world.collections.readyMessages(chats[index].id, of: chats[index].user)
    let isOlder = random.chance(60)
    let range = view.range
    guard let position = isOlder ? range.loaded?.lowerBound : range.loaded?.upperBound,
      isOlder ? range.hasPrevious : range.hasNext
    else { return }
    let query = view.pageQuery(beyond: position, isOlder: isOlder, limit: 3)
    let viewContext = world.collections.viewContext(view.url)
    do {
      let body = try world.cache.read { reader in
        try view.more(
          try view.page(query, reader, viewContext), isOlder: isOlder, isCutOff: false, reader, viewContext)
      }
      try world.collections.moved(view)
      // Else the next request of any client finds the window too large.
      if random.chance(50) { try world.collections.bound(view) }
      try chats[index].take(page: body)
    } catch ViewError.channelNotFound { return }
  }

  private func poll(_ client: inout ChatClient) throws {
    let view = try world.collections.readyMessages(client.id, of: client.user)
    if random.chance(15), let earlier = client.earlier {
      (client.cursor, client.content) = earlier
    }
    client.earlier = (client.cursor, client.content)
    var hasMore = true
    while hasMore, !client.isOver {
      let (viewContext, before, since) = (world.collections.viewContext(view.url), view.range, client.cursor)
      let answer = try world.cache.read {
        try view.changes($0, since: since, until: try $0.lastChange(), viewContext)
      }
      answer.settle(answer.end)
      try client.take(answer.body)
      client.cursor = answer.end
      if view.range != before { try world.collections.moved(view) }
      let after = view.range
      _ = try world.collections.readyMessages(client.id, of: client.user)
      hasMore = answer.hasMore || view.range != after
    }
    if !client.isOver { try compare(client, view) }
  }

  private func compare(_ client: ChatClient, _ view: MessageCollection) throws {
    let fresh = MessageCollection(
      id: "fresh", user: view.user, userID: view.userID, channel: view.channel,
      request: view.request, range: view.range, accessedAt: 0, epoch: 0)
    let viewContext = world.collections.viewContext(view.url)
    let body = try world.cache.read {
      try fresh.snapshot($0, viewContext, at: EventCursor(epoch: 0, run: 1, sequence: 0))
    }
    let coverage = try world.cache.read { try $0.coverage(of: view.channel) }
    let (content, wanted) = (client.content, try ChatContent(body))
    // Cleared messages were not deleted: clients may keep them until they are cached again (B58).
    let upstream = world.upstreams[client.index]
    let kept = content.shown.filter { id, _ in
      guard wanted.shown[id] == nil, let number = Int64(id), upstream.letGo.contains(number) else {
        return true
      }
      return upstream.positions[number].map { coverage.segment(at: $0).isCovered } ?? true
    }
    difference =
      Self.difference("messages", kept, wanted.shown)
      ?? Self.difference("unsent", content.unsent, wanted.unsent)
      ?? Self.difference("gaps", content.gaps, wanted.gaps)
    if let found = difference {
      difference =
        "\(found)\nview \(String(decoding: view.request.json, as: UTF8.self)) \(view.range)"
    }
  }

  private static func difference(_ name: String, _ has: Objects, _ wanted: Objects) -> String? {
    guard has != wanted else { return nil }
    let missing = wanted.filter { has[$0.key] == nil }
    let extra = has.filter { wanted[$0.key] == nil }
    let stale = wanted.filter { has[$0.key] != nil && has[$0.key] != $0.value }
    return
      "\(name): missing \(missing.values.sorted()), too many \(extra.values.sorted()), stale \(stale.values.sorted())"
  }

  // MARK: Lists

  private func query() -> ChannelQuery {
    var query = ChannelQuery()
    query.order = [.latestLastMessage, .chronological, .name].pick(&random)
    query.limit = Int.random(in: 1...3, using: &random)
    query.includesEmpty = random.chance(70)
    query.includesFrozen = random.chance(70)
    query.includesMetadata = random.chance(50)
    query.hidden = [.unhidden, .hidden, .all].pick(&random)
    if random.chance(20) { query.unread = .unreadMessage }
    if random.chance(20) { query.customTypes = ["x"] }
    if random.chance(20) { query.nameContains = "a" }
    if random.chance(20) { query.publicity = .isPublic }
    return query
  }

  private func openList() throws {
    let user = UserID(["alice", "bob", "bob", "carol"].pick(&random))
    let view = try world.collections.openChannels(query(), of: user)
    let cursor = world.cache.cursor
    let body = try world.cache.read {
      try view.snapshot($0, at: cursor)
    }
    try world.collections.moved(view)
    lists.append(
      ListClient(id: view.id, user: user, cursor: cursor.sequence, shown: try ListClient.read(body)))
    if lists.count > 3 { lists.removeFirst() }
  }

  private func poll(_ client: inout ListClient) throws {
    let view = try world.collections.readyChannels(client.id, of: client.user)
    if random.chance(15), let earlier = client.earlier { (client.cursor, client.shown) = earlier }
    client.earlier = (client.cursor, client.shown)
    var hasMore = true
    while hasMore {
      let since = client.cursor
      let answer = try world.cache.read {
        try view.changes($0, since: since, until: try $0.lastChange())
      }
      answer.settle(answer.end)
      try client.take(answer.body)
      client.cursor = answer.end
      hasMore = answer.hasMore
    }
    let fresh = ChannelCollection(
      id: "fresh", user: view.user, userID: view.userID, query: view.query, window: view.window,
      accessedAt: 0, epoch: 0)
    let body = try world.cache.read {
      try fresh.snapshot($0, at: EventCursor(epoch: 0, run: 1, sequence: 0))
    }
    let shown = try ListClient.read(body)
    difference = client.shown.shows(shown) ? nil : Self.difference("channels", client.shown, shown)
    if let found = difference {
      difference =
        "\(found)\nlist \(String(decoding: view.query.json, as: UTF8.self)) \(view.window)"
    }
  }
}
