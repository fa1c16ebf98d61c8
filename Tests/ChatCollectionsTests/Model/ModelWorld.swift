import ChatModel
import Glibc
import JSON
import Platform
import TestFolders
import TestSupport

@testable import ChatCache
@testable import ChatCollections

/// A cache and its views, which can be restarted, and the random upstreams that fill it.
final class ModelWorld {
  let directory: String
  let syncRequests = ScriptedSync()
  private(set) var cache: Cache
  private(set) var collections: Collections
  var upstreams = ["c0", "c1"].map { ModelUpstream(ChannelURL($0)) }
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

  /// The most members of channels that are not crowded: another with each opening of the cache.
  static let borders = [0, 1, 3, .max]
  private var border: Int

  init(bound: WindowBound, border: Int) throws {
    self.bound = bound
    self.border = border
    directory = TestFolder.make("model")
    wall = Guarded(1_700_000_000_000)
    (cache, collections) = try Self.open(directory, syncRequests, bound, border, wall)
  }

  private static func open(
    _ directory: String, _ syncRequests: ScriptedSync, _ bound: WindowBound, _ border: Int,
    _ wall: Guarded<Int64>
  ) throws -> (Cache, Collections) {
    let clock = Clock(
      wallMilliseconds: { wall.withLock { $0 } }, monotonicNanoseconds: Clock.system.monotonicNanoseconds)
    var configuration = Cache.Configuration(directory: directory, clock: clock)
    configuration.mostChangedMembers = borders[border % borders.count]
    configuration.mostCleared = border % 2 == 0 ? 0 : 1000
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
    border += 1
    (cache, collections) = try Self.open(directory, syncRequests, bound, border, wall)
    underWay = [:]
    try cache.accept { try $0.recoverOutbox() }
  }

  func end() {
    collections.stop()
    cache.close()
    for name in ["perch.db", "perch.db-wal", "perch.db-shm", "perch.lock"] {
      unlink("\(directory)/\(name)")
    }
    rmdir(directory)
  }

  private func write(_ body: @escaping @Sendable (CacheWriter) throws -> Void) throws {
    try cache.write(body)
  }

  // MARK: Channels

  func join(_ user: String, _ index: Int, _ random: inout SeededRandom) throws {
    let (user, record, isListed) = (UserID(user), record(user, index, &random), random.chance(30))
    try write { writer in
      try writer.acknowledge(user)
      // All of the user's channels may be listed again, as after the whole cache was cleared.
      if isListed { try writer.db.execute("UPDATE user SET is_synced = 0 WHERE user_id = '\(user.text)'") }
      _ = try writer.store([record], of: user, isListed ? .listing(sweep: 1) : .refresh(.channelChanged))
      try writer.endListing(of: user)
    }
  }

  func leave(_ user: String, _ index: Int) throws {
    let url = upstreams[index].url
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
    switch Int.random(in: 0..<26, using: &random) {
    case 0...4:
      let message = upstreams[index].send(&random).record
      if random.chance(40) { try write { try $0.store(message, in: url, .messageReceived) } }
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
    case 17: try membership(index, &random)
    case 18...20: try ask(index, &random)
    default: try send(index, &random)
    }
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
    default: try restart()
    }
  }

  private func membership(_ index: Int, _ random: inout SeededRandom) throws {
    let user = ["alice", "alice", "bob"].pick(&random)
    if random.chance(12) { try leave(user, index) } else { try join(user, index, &random) }
  }
}
