import ChatCache
import ChatModel
import Glibc
import JSON
import Platform
import TestFolders
import TestSupport
import Testing

@testable import ChatCollections

/// Random lists of channels that may hold only few of them: whatever channels come, move, go, are loaded,
/// lost and cleared, a client that applied its events to its snapshot has what a fresh snapshot has.
@Suite struct ListModelTests {
  @Test(
    "B9 B17 B22 B49: a bounded list converges from whatever cursor, by allowed events, and tells its end",
    arguments: 0..<12)
  func bounded(block: Int) throws {
    for seed in block * 10..<block * 10 + 10 {
      let run = try ListRun(seed: seed)
      defer { run.end() }
      for step in 0..<40 {
        try run.step()
        try #require(run.fault == nil, "seed \(seed), step \(step): \(run.fault ?? "")")
      }
    }
  }

  @Test("B22: the model lets go of channels, meets edges that were let go of, and crosses the borders")
  func meetsAll() throws {
    var met: Set<String> = []
    for seed in 0..<20 {
      let run = try ListRun(seed: seed)
      defer { run.end() }
      for _ in 0..<40 { try run.step() }
      met.formUnion(run.met)
    }
    let lists: Set = [
      "trimmed", "loaded", "full", "foreign edge", "old cursor", "restart", "proven end", "listed", "removed",
    ]
    let expected = lists.union(Crossings.all(at: 1)).union(Crossings.all(at: 3))
    #expect(met == expected)
  }
}

/// A client of a list: the channels it shows, and its knowledge of the list's end.
private struct Pane {
  struct Moment {
    var cursor: Int64
    var shown: Objects
    var hasMore: Bool
  }

  let id: String
  let user: UserID
  var now: Moment
  /// The last edge that the client got.
  var next: String? { didSet { if let next { edges = (edges + [next]).suffix(4) } } }
  /// The earlier edges, for a request that comes late.
  private(set) var edges: [String] = []
  /// The states before the last answers, for answers that are lost.
  var earlier: [Moment] = []
  /// The last two cursors that its view answered since the last start, each with whether the view knows
  /// exactly what the client has there.
  var answered: [(cursor: Int64, isExact: Bool)] = []

  mutating func note(_ cursor: Int64, isExact: Bool = true) {
    answered.removeAll { $0.cursor == cursor }
    answered = Array((answered + [(cursor, isExact)]).suffix(2))
  }

  func isExact(_ cursor: Int64) -> Bool { answered.contains { $0.cursor == cursor && $0.isExact } }

  /// Applies events. Returns a fault if one breaks the rules. `left`: the channels that lost a
  /// member.
  mutating func take(_ events: borrowing EventsBody, isExact: Bool, left: Set<String>) throws -> (
    fault: String?, isTrimmed: Bool
  ) {
    let text = [UInt8(ascii: "[")] + events.array + [UInt8(ascii: "]")]
    var (pane, fault, isTrimmed) = (self, nil as String?, false)
    try text.withUnsafeBytes { bytes in
      try JSONParser().parse(bytes) { json in
        for event in json.items {
          fault = fault ?? pane.take(event: event, isExact, left)
          if event["source"]?.string == "local.window_trimmed" { isTrimmed = true }
        }
      }
    }
    self = pane
    return (fault, isTrimmed)
  }

  private mutating func take(event: JSONValue, _ isExact: Bool, _ left: Set<String>) -> String? {
    var fault: String?
    let objects = event.objects("channels", by: "channel_url")
    switch event["type"]?.string ?? "" {
    case "channels.added":
      if isExact, let twice = objects.keys.first(where: { now.shown[$0] != nil }) {
        fault = "\(twice) added twice"
      }
      now.shown.merge(objects) { $1 }
    case "channels.updated":
      for (url, object) in objects {
        if now.shown[url] == nil || (isExact && now.shown[url] == object) {
          fault = "\(url) updated for nothing"
        }
      }
      now.shown.merge(objects) { $1 }
    case "channels.deleted":
      for item in event["channel_urls"]?.items ?? JSONValue.Items() {
        let url = item.string ?? "?"
        if isExact, now.shown[url] == nil { fault = "\(url) deleted and not there" }
        now.shown[url] = nil
      }
      if let hasMore = event["has_next"]?.bool { now.hasMore = hasMore }
      if let edge = event["next"]?.string { next = edge }
    case "cache.cleared":
      // Nobody was in the channel before somebody came back.
      for item in event["channel_urls"]?.items ?? JSONValue.Items() where !left.contains(item.string ?? "?") {
        fault = "\(item.string ?? "?") cleared"
      }
    case "channel.read":
      if !now.shown.take(readMark: event) { fault = "a read mark in a channel that is not shown" }
    default: fault = "no event of a list"
    }
    return fault
  }
}

/// One seed.
private final class ListRun {
  private static let bound = WindowBound(rows: 8, rowsLeft: 6)
  private static let users = ["alice", "bob", "carol", "dave", "erin"].map { UserID($0) }
  private let directory: String
  private let syncRequests = ScriptedSync()
  /// Which of the borders between crowded and other channels the cache has.
  private var border: Int
  private var cache: Cache
  private let twin: Twin
  private var crossings = Crossings()
  private var collections: Collections
  private var random: SeededRandom
  private var panes: [Pane] = []
  private var messages: Int64 = 0
  /// The channels that each user has joined, as they were stored last.
  private var records: [UserID: [Int: ChannelRecord]] = [:]
  /// The channels that lost a member.
  private var left: Set<String> = []
  /// The users whose first listing is running: their channels come in pages.
  private var listing: Set<UserID> = []
  private var seen: Set<String> = []
  private(set) var fault: String?

  init(seed: Int) throws {
    random = SeededRandom(seed: UInt64(seed))
    if random.chance(50) { listing = Set(Self.users) }
    directory = TestFolder.make("lists")
    border = seed
    let configuration = Self.configuration(directory, border)
    (cache, collections) = try Self.open(configuration, syncRequests)
    twin = try Twin(configuration)
    try join(Self.users[0], 0)
    for _ in 0..<24 { try happen() }
  }

  private static func configuration(_ directory: String, _ border: Int) -> Cache.Configuration {
    // In a time that stands still, the channels in both caches were updated at the same time.
    let clock = Clock(
      wallMilliseconds: { 1_700_000_000_000 }, monotonicNanoseconds: Clock.system.monotonicNanoseconds)
    var configuration = Cache.Configuration(directory: directory, clock: clock)
    configuration.mostChangedMembers = ModelWorld.borders[border % ModelWorld.borders.count]
    return configuration
  }

  private static func open(
    _ configuration: Cache.Configuration, _ syncRequests: ScriptedSync
  ) throws -> (Cache, Collections) {
    let cache = try Cache(configuration)
    var settings = Collections.Settings()
    settings.bound = bound
    let collections = Collections(cache: cache, syncRequests: syncRequests, settings: settings)
    try collections.start()
    return (cache, collections)
  }

  func end() {
    collections.stop()
    cache.close()
    for name in ["perch.db", "perch.db-wal", "perch.db-shm", "perch.lock"] { unlink("\(directory)/\(name)") }
    rmdir(directory)
    twin.end()
  }

  /// What the run met: of its lists, and of the borders.
  var met: Set<String> { seen.union(crossings.met) }

  func step() throws {
    let isBurst = random.chance(10)
    for _ in 0..<Int.random(in: 0...(isBurst ? 14 : 3), using: &random) { try happen() }
    if panes.isEmpty || random.chance(8) { try openList() }
    guard let index = panes.indices.randomElement(using: &random) else { return }
    switch Int.random(in: 0..<10, using: &random) {
    case 0...3: try load(&panes[index])
    case 4: try readAgain(&panes[index])
    default: break
    }
    try poll(&panes[index])
    if panes.count > 3 { panes.removeFirst() }
    if random.chance(40) { try compareUsers() }
  }

  /// Compares what all users see with the twin and with their memberships.
  private func compareUsers() throws {
    let channels = Self.users.map { user in (user, Set((records[user] ?? [:]).keys.map { "c\($0)" })) }
    let difference = try twin.difference(from: cache, Dictionary(uniqueKeysWithValues: channels))
    fault = fault ?? difference
  }

  // MARK: Changes

  /// Writes to both caches.
  private func write(_ index: Int, _ body: @escaping @Sendable (CacheWriter) throws -> Void) throws {
    try cache.write(body)
    try twin.cache.write(body)
    let border = ModelWorld.borders[border % ModelWorld.borders.count]
    try crossings.look(at: ChannelURL("c\(index)"), in: cache, border: border)
  }

  private func happen() throws {
    let index = Int.random(in: 0..<16, using: &random)
    let user = Self.users.pick(&random)
    switch Int.random(in: 0..<14, using: &random) {
    case 0...3 where listing.contains(user): try list(user)
    case 4 where listing.contains(user) && random.chance(10):
      listing.remove(user)
      try write(index) { try $0.endListing(of: user) }
    case 0...6: try join(user, index)
    case 7: try leave(user, index)
    case 8...10: try send(index)
    case 11: try read(user, index)
    case 12 where random.chance(20): try remove(user)
    default:
      guard random.chance(20) else { return }
      try restart()
    }
  }

  private func leave(_ user: UserID, _ index: Int) throws {
    let url = ChannelURL("c\(index)")
    records[user]?[index] = nil
    left.insert(url.text)
    try write(index) { try $0.removeMembership(of: user, in: url, .memberLeft) }
  }

  /// Alice stays, because the lists are hers.
  private func remove(_ user: UserID) throws {
    guard user != Self.users[0] else { return }
    for index in (records.removeValue(forKey: user) ?? [:]).keys.sorted() { left.insert("c\(index)") }
    panes.removeAll { $0.user == user }
    seen.insert("removed")
    try write(0) { try $0.remove(user) }
  }

  /// Opens the caches again, the first with the next lower border. Then messages find channels too large.
  private func restart() throws {
    collections.stop()
    cache.close()
    border += ModelWorld.borders.count - 1
    let configuration = Self.configuration(directory, border)
    (cache, collections) = try Self.open(configuration, syncRequests)
    try twin.restart(configuration)
    for index in panes.indices { panes[index].answered = [] }
    seen.insert("restart")
  }

  private func join(_ user: UserID, _ index: Int) throws {
    let (record, isListing) = (record(index), listing.contains(user))
    records[user, default: [:]][index] = record
    try write(index) { writer in
      try writer.acknowledge(user)
      _ = try writer.store([record], of: user, .refresh(.channelChanged))
      if !isListing { try writer.endListing(of: user) }
    }
  }

  /// A page of the user's first listing.
  private func list(_ user: UserID) throws {
    let indices = (0..<16).shuffled(using: &random).prefix(Int.random(in: 1...8, using: &random))
    let page = indices.map { record($0) }
    for (index, record) in zip(indices, page) { records[user, default: [:]][index] = record }
    seen.insert("listed")
    try write(indices[0]) { writer in
      try writer.acknowledge(user)
      _ = try writer.store(page, of: user, .listing(sweep: 1))
    }
  }

  /// Members read on, and nothing else of the channel changes. Seldom there are more of them than events
  /// name.
  private func read(_ user: UserID, _ index: Int) throws {
    guard let record = records[user]?[index] else { return }
    let count = random.chance(10) ? 25 : Int.random(in: 1...3, using: &random)
    var marked = record
    messages += 1
    let members = (0..<count).map { ExactText("u\($0)") }
    marked.readReceipts = ReadReceipts(Dictionary(uniqueKeysWithValues: members.map { ($0, messages) }))
    try write(index) { [marked] in
      _ = try $0.store([marked], of: user, .refresh(.channelChanged))
    }
  }

  private func record(_ index: Int) -> ChannelRecord {
    var json = JSONWriter()
    let name = ["Ant", "bee", "Cat", ""].pick(&random)
    json.field("channel_url", "c\(index)")
    json.field("name", name)
    return ChannelRecord(
      url: ChannelURL("c\(index)"), name: name, customType: ["", "", "x"].pick(&random),
      createdAt: Int64(index % 5 + 1), isDistinct: false, isPublic: false, isSuper: false, isFrozen: false,
      memberCount: 2, joinedMemberCount: 2, body: json.finish().array, lastMessage: .absent,
      membership: MembershipRecord(
        state: .joined, isOperator: false, isMuted: false,
        hiddenState: ["unhidden", "unhidden", "hidden_allow_auto_unhide"].pick(&random), floorAt: 0,
        lastReadAt: 0, unread: 0, mentions: 0, joinedAt: 1, invitedAt: 0))
  }

  private func send(_ index: Int) throws {
    messages += 1
    let url = ChannelURL("c\(index)")
    var json = JSONWriter()
    json.name("message_id")
    json.value(quoting: messages)
    json.field("created_at", 1000 + messages)
    let row = MessageRecord(
      messageID: messages, createdAt: 1000 + messages, updatedAt: 0, kind: .user, isSilent: false,
      isReplyToChannel: false, parentID: nil, parentAt: nil, sender: "bob", customType: "", requestID: "",
      mentions: .nobody, body: json.finish().array, parent: nil)
    let isKnown = try cache.read { reader in
      try reader.channelKey(of: url) != nil
    }
    if isKnown { try write(index) { try $0.store(row, in: url, .messageReceived) } }
  }

  // MARK: Clients

  private func openList() throws {
    var query = ChannelQuery()
    query.order = [.latestLastMessage, .latestLastMessage, .chronological, .name].pick(&random)
    query.limit = Int.random(in: 1...4, using: &random)
    query.includesEmpty = random.chance(80)
    query.hidden = [.unhidden, .all].pick(&random)
    if random.chance(20) { query.customTypes = ["x"] }
    let known = Self.users.filter { records[$0] != nil }
    let user = random.chance(50) ? Self.users[0] : known.pick(&random)
    let view = try collections.openChannels(query, of: user)
    var pane = Pane(id: view.id, user: user, now: Pane.Moment(cursor: 0, shown: [:], hasMore: true))
    try read(view, &pane)
    try collections.moved(view)
    panes.append(pane)
  }

  private func read(_ view: ChannelCollection, _ pane: inout Pane) throws {
    let cursor = cache.cursor
    let body = try cache.read { try view.snapshot($0, at: cursor) }
    (pane.now.shown, pane.now.hasMore, pane.next) = try JSONParser().parse(body.bytes) { json in
      (
        json.objects("channels", by: "channel_url"), json["has_next"]?.bool ?? true, json["next"]?.string
      )
    }
    pane.now.cursor = cursor.sequence
    pane.note(cursor.sequence)
    if !view.isPerhapsTooLarge, pane.now.shown.count > Self.bound.rows {
      fault = "\(pane.now.shown.count) channels at once"
    }
  }

  private func readAgain(_ pane: inout Pane) throws {
    let view = try collections.readyChannels(pane.id, of: pane.user)
    try read(view, &pane)
    guard view.isPerhapsTooLarge else { return }
    try collections.bound(view)
    try read(view, &pane)
  }

  private func load(_ pane: inout Pane) throws {
    guard let next = random.chance(70) ? pane.next : pane.edges.randomElement(using: &random) else { return }
    let view = try collections.readyChannels(pane.id, of: pane.user)
    do {
      let key = try view.key(ofEdge: next)
      let body = try cache.read { try view.more($0, after: key, limit: nil) }
      try collections.moved(view)
      let (page, edge, hasMore) = try JSONParser().parse(body.bytes) { json in
        (json.objects("items", by: "channel_url"), json["next"]?.string, json["has_next"]?.bool ?? true)
      }
      // The answered channels count as shown at every cursor (B17).
      pane.now.shown.merge(page) { $1 }
      for index in pane.earlier.indices { pane.earlier[index].shown.merge(page) { $1 } }
      pane.now.hasMore = hasMore
      pane.next = edge
      seen.insert(hasMore ? edge == nil ? "full" : "loaded" : "proven end")
    } catch ViewError.foreignEdge { seen.insert("foreign edge") }
  }

  private func poll(_ pane: inout Pane) throws {
    if random.chance(25), let index = pane.earlier.indices.randomElement(using: &random) {
      pane.now = pane.earlier[index]
      pane.earlier.removeSubrange(index...)
      if !pane.isExact(pane.now.cursor) { seen.insert("old cursor") }
    }
    pane.earlier = (pane.earlier + [pane.now]).suffix(4)
    var (hasMore, answers) = (true, 0)
    while hasMore {
      answers += 1
      guard answers < 20 else { return fault = fault ?? "there is no end of answers" }
      let view = try collections.readyChannels(pane.id, of: pane.user)
      let since = pane.now.cursor
      let last = try cache.read { try $0.lastChange() }
      // The answer may end before the newest change.
      let until = random.chance(20) ? Int64.random(in: min(since, last)...last, using: &random) : last
      let answer = try cache.read { try view.changes($0, since: since, until: until) }
      answer.settle(answer.end)
      let isExact = pane.isExact(since)
      let told = try pane.take(answer.body, isExact: isExact, left: left)
      if told.isTrimmed { seen.insert("trimmed") }
      fault = fault ?? told.fault
      pane.now.cursor = answer.end
      // If the view does not remember the client, its knowledge also has the changes since that end.
      pane.note(answer.end, isExact: isExact || answer.end == last)
      hasMore = answer.end < last || answer.hasMore || view.isPerhapsTooLarge
    }
    try compare(pane)
  }

  private func compare(_ pane: Pane) throws {
    let view = try collections.readyChannels(pane.id, of: pane.user)
    let fresh = ChannelCollection(
      id: "fresh", user: view.user, userID: view.userID, query: view.query, window: view.window,
      accessedAt: 0, epoch: 0)
    let body = try cache.read { try fresh.snapshot($0, at: EventCursor(epoch: 0, run: 1, sequence: 0)) }
    let shown = try ListClient.read(body)
    if view.window.hasMore, !pane.now.hasMore { fault = fault ?? "it was not told that the list goes on" }
    guard !pane.now.shown.shows(shown) else { return }
    let (missing, extra) = (
      shown.filter { pane.now.shown[$0.key] != $0.value }.keys.sorted(),
      pane.now.shown.filter { shown[$0.key] == nil }.keys.sorted()
    )
    fault =
      fault ?? "missing or stale \(missing), too many \(extra), \(view.window), "
      + String(decoding: view.query.json, as: UTF8.self)
  }
}
