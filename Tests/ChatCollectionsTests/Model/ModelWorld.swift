import ChatModel
import Glibc
import JSON
import Platform
import TestFolders
import TestSupport

@testable import ChatCache
@testable import ChatCollections

/// A cache and its views, which can be restarted, its twin without crowded channels, and the random upstreams
/// that fill both.
final class ModelWorld {
  let directory: String
  let syncRequests = ScriptedSync()
  private(set) var cache: Cache
  private(set) var collections: Collections
  private let twin: Twin
  /// How the channels came to the border.
  private(set) var crossings = Crossings()
  var upstreams = ["c0", "c1"].map { ModelUpstream(ChannelURL($0)) }
  static let users = ["alice", "bob", "carol", "dave", "erin"]
  /// The channels that each user is in.
  private var channels: [UserID: Set<String>] = [:]
  private var floors: [String: Int64] = [:]
  private var generation: Int64 = 1
  /// Requests of the outbox that were begun and have not ended, by lane.
  var underWay: [OutboxLaneName: OutboxJob] = [:]
  /// How many requests to send or change something were made.
  var requests = 0
  /// The cache's wall clock (ms).
  let wall: Guarded<Int64>

  /// The bound of the views' windows.
  private let bound: WindowBound

  /// The most members of channels that are not crowded: with each opening of the cache the next lower one, so
  /// that messages find channels too large.
  static let borders = [0, 1, 3, .max]
  private var opening: Int
  var border: Int { Self.borders[opening % Self.borders.count] }

  init(bound: WindowBound, border: Int) throws {
    self.bound = bound
    opening = border
    directory = TestFolder.make("model")
    wall = Guarded(1_700_000_000_000)
    let configuration = Self.configuration(directory, border, wall)
    (cache, collections) = try Self.open(configuration, syncRequests, bound)
    twin = try Twin(configuration)
  }

  private static func configuration(
    _ directory: String, _ opening: Int, _ wall: Guarded<Int64>
  ) -> Cache.Configuration {
    let clock = Clock(
      wallMilliseconds: { wall.withLock { $0 } }, monotonicNanoseconds: Clock.system.monotonicNanoseconds)
    var configuration = Cache.Configuration(directory: directory, clock: clock)
    configuration.mostChangedMembers = borders[opening % borders.count]
    configuration.mostCleared = opening % 2 == 0 ? 0 : 1000
    return configuration
  }

  private static func open(
    _ configuration: Cache.Configuration, _ syncRequests: ScriptedSync, _ bound: WindowBound
  ) throws -> (Cache, Collections) {
    let cache = try Cache(configuration)
    var settings = Collections.Settings()
    settings.bound = bound
    let collections = Collections(cache: cache, syncRequests: syncRequests, settings: settings)
    try collections.start()
    return (cache, collections)
  }

  func restart() throws {
    collections.stop()
    cache.close()
    opening += Self.borders.count - 1
    let configuration = Self.configuration(directory, opening, wall)
    (cache, collections) = try Self.open(configuration, syncRequests, bound)
    try twin.restart(configuration)
    underWay = [:]
    try accept { try $0.recoverOutbox() }
  }

  func end() {
    collections.stop()
    cache.close()
    for name in ["perch.db", "perch.db-wal", "perch.db-shm", "perch.lock"] {
      unlink("\(directory)/\(name)")
    }
    rmdir(directory)
    twin.end()
  }

  /// Writes to both caches, and looks whether channels crossed the border.
  @discardableResult
  private func write<Result: Sendable>(
    _ body: @escaping @Sendable (CacheWriter) throws -> Result
  ) throws -> Result {
    try twin.align(cache)
    let result = try cache.write(body)
    _ = try twin.cache.write(body)
    try look()
    return result
  }

  /// The same for what clients ask for. Returns the result in the first cache.
  func accept<Result: Sendable>(_ body: @escaping @Sendable (CacheWriter) throws -> Result) throws -> Result {
    try twin.align(cache)
    let (own, other) = (
      Swift.Result { try cache.accept(body) }, Swift.Result { try twin.cache.accept(body) }
    )
    try look()
    let result = try own.get()
    // What the first cache accepted, the twin accepts.
    _ = try other.get()
    return result
  }

  private func look() throws {
    try twin.align(cache)
    for upstream in upstreams { try crossings.look(at: upstream.url, in: cache, border: border) }
  }

  /// The first difference between what users see here and in the twin; nil: there is none.
  func differenceFromTwin() throws -> String? { try twin.difference(from: cache, channels) }

  // MARK: Channels

  func join(_ user: String, _ index: Int, _ random: inout SeededRandom) throws {
    channels[UserID(user), default: []].insert(upstreams[index].url.text)
    let (user, record, isListed) = (UserID(user), record(user, index, &random), random.chance(30))
    let activities = try write { writer in
      try writer.acknowledge(user)
      // All of the user's channels may be listed again, as after the whole cache was cleared.
      if isListed { try writer.db.execute("UPDATE user SET is_synced = 0 WHERE user_id = '\(user.text)'") }
      let origin = isListed ? ChannelOrigin.listing(sweep: 1) : .refresh(.channelChanged)
      let activities = try writer.store([record], of: user, origin)
      try writer.endListing(of: user)
      return activities
    }
    // An answer that is ahead of a crowded channel's messages does not change its last one. The worker lists
    // them at once.
    if activities.contains(where: \.isBehind), try cache.read({ try $0.isCrowded(record.url) }) {
      try store(upstreams[index].newest(8, askedAt: cache.cursor.sequence), index, .apiResult)
    }
  }

  func leave(_ user: String, _ index: Int) throws {
    let url = upstreams[index].url
    channels[UserID(user)]?.remove(url.text)
    try write { try $0.removeMembership(of: UserID(user), in: url, .memberLeft) }
  }

  private func record(_ user: String, _ index: Int, _ random: inout SeededRandom) -> ChannelRecord {
    let upstream = upstreams[index]
    let name = ["Ant", "bee", "Cat", ""].pick(&random)
    let floorName = "\(user) \(index)"
    if random.chance(20), let position = upstream.inOrder.randomElement(using: &random)?.createdAt {
      floors[floorName] = max(floors[floorName] ?? 0, position)
    }
    var json = JSONWriter()
    json.field("channel_url", upstream.url.text)
    json.field("name", name)
    let last = upstream.inOrder.last { $0.record.parentID == nil || $0.isInChannel }
    var record = ChannelRecord(
      url: upstream.url, name: name, customType: ["", "x"].pick(&random),
      createdAt: Int64(index + 1),
      isDistinct: false, isPublic: random.chance(50), isSuper: false, isFrozen: random.chance(20),
      memberCount: 2, joinedMemberCount: 2, body: json.finish().array,
      lastMessage: random.chance(50) ? .absent : last.map { .message($0.record) } ?? .none,
      membership: MembershipRecord(
        state: .joined, isOperator: random.chance(20), isMuted: false,
        hiddenState: [
          "unhidden", "unhidden", "hidden_allow_auto_unhide", "hidden_prevent_auto_unhide",
        ].pick(
          &random),
        floorAt: floors[floorName] ?? 0, lastReadAt: 0,
        unread: Int64.random(in: 0...2, using: &random),
        mentions: 0, joinedAt: 1, invitedAt: 0))
    record.metadata = random.chance(50) ? ["colour": ["red", "green"].pick(&random)] : nil
    record.readReceipts = ["bob": Int64.random(in: 0...3, using: &random)]
    return record
  }

  // MARK: Messages

  private func store(
    _ listing: MessageListing, _ index: Int, _ source: ChangeSource, fills: Int64? = nil
  )
    throws
  {
    let url = upstreams[index].url
    var context = ListingContext(source: source, generation: generation)
    context.fillsGap = fills
    let asked = context
    try write { try $0.store([listing], in: url, asked) }
  }

  /// One random event upstream, or between the upstream and the cache.
  func happen(_ random: inout SeededRandom) throws {
    let index = Int.random(in: 0..<upstreams.count, using: &random)
    let url = upstreams[index].url
    let now = cache.cursor.sequence
    switch Int.random(in: 0..<28, using: &random) {
    case 0...4: try send(to: index, isReceived: random.chance(40), &random)
    case 5:
      if let edited = upstreams[index].edit(&random)?.record, random.chance(50) {
        try write { try $0.store(edited, in: url, .messageUpdated) }
      }
    case 6 where random.chance(30): try deleteWrongly(index, &random)
    case 6:
      if let gone = upstreams[index].delete(&random), random.chance(50) {
        try write { try $0.delete(message: gone, in: url, .messageDeleted) }
      }
    case 7...9:
      try store(
        upstreams[index].newest(Int.random(in: 1...8, using: &random), askedAt: now), index,
        .apiResult)
    case 10: try listSomewhere(index, &random)
    case 11: try fill(index, &random)
    case 12:
      let changes = upstreams[index].changes()
      try write { try $0.store(changes, in: url, .messageChangelog) }
    case 13:
      let page = upstreams[index].newest(6, askedAt: now)
      upstreams[index].late.append(page)
    case 14:
      guard !upstreams[index].late.isEmpty else { return }
      try store(upstreams[index].late.removeFirst(), index, .apiResult)
    case 15: generation += 1
    case 16: try rare(index, &random)
    case 17, 26, 27: try membership(index, &random)
    case 18...20: try ask(index, &random)
    default: try send(index, &random)
    }
  }

  /// A message is sent upstream, and the cache may get it.
  func send(to index: Int, isReceived: Bool, _ random: inout SeededRandom) throws {
    let (url, message) = (upstreams[index].url, upstreams[index].send(&random).record)
    if isReceived { try write { try $0.store(message, in: url, .messageReceived) } }
  }

  /// A message is told as deleted that is not; asked for by its id, it comes back.
  private func deleteWrongly(_ index: Int, _ random: inout SeededRandom) throws {
    let (url, messages) = (upstreams[index].url, upstreams[index].messages)
    guard let message = messages.keys.sorted().randomElement(using: &random).flatMap({ messages[$0] }) else {
      return
    }
    let record = message.record
    try write { try $0.delete(message: record.messageID, in: url, .messageDeleted) }
    let asked = cache.cursor.sequence
    try write { try $0.store(record, in: url, .messageUpdated, askedAt: asked) }
  }

  private func listSomewhere(_ index: Int, _ random: inout SeededRandom) throws {
    guard let position = upstreams[index].positions.values.sorted().randomElement(using: &random) else {
      return
    }
    let page = upstreams[index].around(
      position, older: Int.random(in: 1...5, using: &random),
      newer: Int.random(in: 1...5, using: &random),
      askedAt: cache.cursor.sequence)
    try store(page, index, .apiResult)
  }

  private func fill(_ index: Int, _ random: inout SeededRandom) throws {
    let url = upstreams[index].url
    let gaps = try cache.read { try $0.line(of: url)?.gaps ?? [:] }
    guard let name = gaps.keys.sorted().randomElement(using: &random), let gap = gaps[name] else {
      return
    }
    if random.chance(30) { try write { try $0.endFill(name, in: url) } }
    try write { _ = try $0.beginFill(name, in: url) }
    guard gap.upperBound < .end else { return }
    let page = upstreams[index].before(
      gap.upperBound, Int.random(in: 2...8, using: &random), askedAt: cache.cursor.sequence)
    try store(page, index, .messageFill, fills: name)
  }

  private func rare(_ index: Int, _ random: inout SeededRandom) throws {
    let url = upstreams[index].url
    switch Int.random(in: 0..<7, using: &random) {
    case 0, 1:
      upstreams[index].clear()
      try write { try $0.clear(url) }
    case 2, 3: try write { try $0.doubt(url) }
    case 4:
      // A channel whose counts are wrong is reset by the self-check (B64).
      upstreams[index].clear()
      try write {
        try $0.db.execute("UPDATE channel SET cached_bytes = -1 WHERE channel_url = '\(url.text)'")
      }
      _ = try cache.check()
      _ = try twin.cache.check()
    default: try restart()
    }
  }

  private func membership(_ index: Int, _ random: inout SeededRandom) throws {
    let user = Self.users.pick(&random)
    if random.chance(5) { return try remove(user) }
    if random.chance(20) { try leave(user, index) } else { try join(user, index, &random) }
  }

  /// The user is forgotten, and may come back. Those who send and have views stay.
  private func remove(_ user: String) throws {
    guard !["alice", "bob", "carol"].contains(user) else { return }
    channels[UserID(user)] = nil
    try write { try $0.remove(UserID(user)) }
  }

  /// Lets members and messages of a channel come to the border and cross it: by a member who comes, or by a
  /// message after the border was lowered. Returns what is met then, as in `crossings`.
  func cross(_ index: Int, byMessage: Bool, _ random: inout SeededRandom) throws -> Set<String> {
    let (border, users) = (byMessage ? Self.borders[(opening + 3) % 4] : border, Self.users)
    guard (1..<users.count).contains(border) else { return [] }
    for user in users.prefix(border) { try join(user, index, &random) }
    try send(to: index, isReceived: true, &random)
    try join(users[border], index, &random)
    if byMessage { try restart() }
    // Only a message that counts as new finds the channel too large.
    for _ in 0..<20 where try cache.read({ try !$0.isCrowded(upstreams[index].url) }) {
      try send(to: index, isReceived: true, &random)
    }
    return byMessage ? ["\(border): a message came"] : ["\(border): at", "\(border): a member came"]
  }
}
