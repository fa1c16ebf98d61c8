import ChatModel
import Glibc
import Platform
import SQLite
import TestFolders
import Testing

@testable import ChatCache
@testable import ChatSync

/// The two stores, the cache on its file and the small one over dictionaries, get the same input and must
/// have the same result.
@Suite struct StoreContractTests {
  private static let url = ChannelURL("general")
  private static let alice = UserID("alice")

  private static func open() throws -> (Cache, CacheStore) {
    let cache = try Cache(Cache.Configuration(directory: TestFolder.make("contract") + "/data"))
    return (cache, CacheStore(cache))
  }

  @Test(
    "B21 B24 B27 B31: both stores come to the same line, rows and tombstones, over seeds",
    arguments: 1...30 as ClosedRange<UInt64>)
  func same(seed: UInt64) async throws {
    let (cache, store) = try Self.open()
    defer { cache.close() }
    let model = MemoryStore()
    let stores: [any SyncStore] = [store, model]
    for store in stores {
      try await store.acknowledge(Self.alice)
      _ = try await store.store([Self.channel()], of: Self.alice, .listing(sweep: 1))
    }
    var world = StoreWorld(seed: seed)
    for step in 0..<60 {
      let made = world.step()
      for store in stores { try await made.apply(to: store, Self.url) }
      let line = try store.line(of: Self.url)
      #expect(line == (try model.line(of: Self.url)), "seed \(seed), step \(step): \(made)")
      let rows = try cache.read { try $0.everyMessage(of: Self.url) }
      let expected = model.state.withLock { state in
        (state.channels[Self.url]?.rows.values.map { $0 } ?? [])
          .sorted { $0.position < $1.position }.map(\.body)
      }
      #expect(rows == expected, "seed \(seed), step \(step): \(made)")
      if line != (try model.line(of: Self.url)) || rows != expected { return }
      let before = cache.cursor
      // The same input again, with present marks, makes no event.
      if case .listings = made { continue }
      try await made.apply(to: store, Self.url)
      #expect(cache.cursor == before, "seed \(seed), step \(step): \(made) told something twice")
    }
  }

  @Test("B4: both stores know who is there, and the channels of each in slices")
  func attended() async throws {
    let (cache, store) = try Self.open()
    defer { cache.close() }
    let odd = UserID(#"b"o\b, 'x' [1]"#)
    for store in [store, MemoryStore()] as [any SyncStore] {
      for user in [Self.alice, odd] {
        try await store.acknowledge(user)
        _ = try await store.store([Self.channel()], of: user, .listing(sweep: 1))
      }
      #expect(Set(try store.connectedMembers(of: Self.url)) == [Self.alice, odd])
      #expect(try store.connectedMembers(of: Self.url, atMost: 1).count == 1)
      let keys = try [Self.alice, odd].map { try #require(try store.userKey(of: $0)).rawValue }.sorted()
      let first = try store.connectedMembers(of: Self.url, after: nil, limit: 1)
      let rest = try store.connectedMembers(of: Self.url, after: first.last?.key, limit: 9)
      #expect((first + rest).map(\.key.rawValue) == keys)
      #expect(try store.userKey(of: UserID("nobody")) == nil)
      #expect(try !store.isConnectedMember(UserID("nobody"), of: Self.url))
      for user in [Self.alice, odd] {
        #expect(try store.isConnectedMember(user, of: Self.url))
        #expect(try !store.isConnectedMember(user, of: ChannelURL("other")))
        let found = try store.channels(of: user, after: nil, limit: 10)
        #expect(found.map(\.url) == [Self.url])
        #expect(try store.channels(of: user, after: found.last?.key, limit: 10).isEmpty)
      }
      try await store.stop(odd)
      #expect(try store.connectedMembers(of: Self.url) == [Self.alice])
      #expect(try !store.isConnectedMember(odd, of: Self.url))
      try await store.stop(Self.alice)
      #expect(try store.connectedMembers(of: Self.url).isEmpty)
    }
  }

  static func channel() -> ChannelRecord {
    ChannelRecord(
      url: url, name: "General", customType: "", createdAt: 1, isDistinct: false, isPublic: false,
      isSuper: false, isFrozen: false, memberCount: 1, joinedMemberCount: 1, body: Array(#""a":1"#.utf8),
      lastMessage: .absent,
      membership: MembershipRecord(
        state: .joined, isOperator: false, isMuted: false, hiddenState: "unhidden", floorAt: 0, lastReadAt: 0,
        unread: 0, mentions: 0, joinedAt: 1, invitedAt: 0))
  }
}

extension CacheReader {
  /// The bodies of all stored messages in order.
  fileprivate func everyMessage(of url: ChannelURL) throws -> [[UInt8]] {
    try db.all(
      """
      SELECT m.body
      FROM channel AS c
      JOIN message AS m ON m.channel = c.id
      WHERE c.channel_url = ?1
      ORDER BY m.created_at, m.message_id
      """
    ) {
      $0.bind(1, url.text)
    } _: {
      Array($0.bytes(0))
    }
  }
}

/// An upstream's channel, and random answers it may have given.
private struct StoreWorld {
  var random: Seeded
  var messages: [MessageRecord] = []
  var gone: [Int64] = []
  /// A page that was under way for long: its content is old, and it does not prove that a message is gone.
  var late: MessageListing?
  var nextID: Int64 = 1
  var clock: Int64 = 1000

  init(seed: UInt64) { random = Seeded(seed) }

  enum Step {
    case listings([MessageListing], generation: Int64)
    case changes([MessageRecord], [Int64])
    case message(MessageRecord)
    case deleted(Int64)
    case doubt

    func apply(to store: any SyncStore, _ url: ChannelURL) async throws {
      switch self {
      case .listings(let listings, let generation):
        let asked = listings.map { listing in
          var listing = listing
          listing.askedAt = listing.isWhole ? store.mark() : 0
          return listing
        }
        _ = try await store.store(asked, in: url, ListingContext(source: .apiResult, generation: generation))
      case .changes(let updated, let deleted):
        let changes = UpstreamChanges(
          updated: updated, deleted: deleted, hasMore: false, next: SyncToken("t"), unreadable: 0)
        _ = try await store.store(changes, in: url, .messageChangelog, askedAt: store.mark())
      case .message(let message):
        try await store.store(message, in: url, .messageReceived, askedAt: store.mark())
      case .deleted(let id): try await store.delete(message: id, in: url, .messageDeleted)
      case .doubt: try await store.doubt(url)
      }
    }
  }

  mutating func step() -> Step {
    for _ in 0..<Int.random(in: 0...12, using: &random) { send() }
    if messages.count > 20, Int.random(in: 0..<4, using: &random) == 0 {
      gone.append(messages.remove(at: Int.random(in: 0..<messages.count, using: &random)).messageID)
    }
    switch Int.random(in: 0..<12, using: &random) {
    case 10...11:
      defer {
        late = listing()
        late?.isWhole = false
      }
      return late.map { .listings([$0], generation: 1) } ?? .doubt
    case 0..<5: return .listings([listing()], generation: Int64.random(in: 1...3, using: &random))
    case 5..<7:
      guard let index = messages.indices.randomElement(using: &random) else { return .doubt }
      edit(index)
      return .changes([messages[index]], gone.suffix(1))
    case 7:
      guard let index = messages.indices.randomElement(using: &random) else { return .doubt }
      edit(index)
      return .changes([messages[index]], [])
    case 8: return gone.last.map { .deleted($0) } ?? .doubt
    default: return .doubt
    }
  }

  private mutating func send() {
    if Bool.random(using: &random) { clock += Int64.random(in: 1...5, using: &random) }
    messages.append(record(nextID, clock, 0))
    nextID += 1
  }

  private mutating func edit(_ index: Int) {
    clock += 1
    messages[index] = record(messages[index].messageID, messages[index].createdAt, clock)
  }

  private func record(_ id: Int64, _ at: Int64, _ updatedAt: Int64) -> MessageRecord {
    MessageRecord(
      messageID: id, createdAt: at, updatedAt: updatedAt, kind: .user, isSilent: false,
      isReplyToChannel: false, sender: "bob", customType: "", requestID: "", mentions: .nobody,
      body: Array(#""message_id":"\#(id)","updated_at":\#(updatedAt)"#.utf8))
  }

  /// The upstream's answer from a random anchor.
  private mutating func listing() -> MessageListing {
    let limit = Int.random(in: 1...15, using: &random)
    let sorted = messages.sorted { $0.position < $1.position }
    let anchor = sorted.randomElement(using: &random)
    guard let anchor, Int.random(in: 0..<3, using: &random) > 0 else {
      let window = MessageWindow(.newest, older: limit, newer: 0)
      return MessageListing(window: window, rows: sorted.suffix(limit), isWhole: true, askedAt: 0)
    }
    let older = sorted.filter { $0.position < anchor.position }.suffix(limit)
    let newer = sorted.filter { $0.position > anchor.position }.prefix(limit)
    let window = MessageWindow(.message(anchor.position), older: limit, newer: limit)
    return MessageListing(
      window: window, rows: older + [anchor] + newer, isWhole: true, askedAt: 0)
  }
}
