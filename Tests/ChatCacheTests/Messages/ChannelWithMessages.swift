import ChatModel
import Glibc
import JSON
import Platform

@testable import ChatCache

/// A cache with one channel, two members, and messages stored as the sync worker stores them.
struct ChannelWithMessages {
  let cache: Cache
  let url = ChannelURL("general")
  let alice = UserID("alice")
  let bob = UserID("bob")

  private let directory: String

  /// `mostChangedMembers`: with more members the channel is crowded.
  init(
    floorOfBob: Int64 = 0, clock: Clock = .system,
    mostChangedMembers: Int = Cache.Configuration.mostChangedMembers, mostCleared: Int = Limits.clearedAtOnce
  ) throws {
    directory = Disk.folder()
    var configuration = Cache.Configuration(directory: directory, clock: clock)
    configuration.mostChangedMembers = mostChangedMembers
    configuration.mostCleared = mostCleared
    cache = try Cache(configuration)
    let url = url
    for (user, floor) in [(alice, Int64(0)), (bob, floorOfBob)] {
      try cache.write { writer in
        try writer.acknowledge(user)
        _ = try writer.store([Self.channel(url, floor: floor)], of: user, .listing(sweep: 1))
        try writer.endListing(of: user)
      }
    }
  }

  /// The same cache, closed and opened again with another border of crowded channels.
  init(reopening other: ChannelWithMessages, mostChangedMembers: Int) throws {
    other.cache.close()
    directory = other.directory
    var configuration = Cache.Configuration(directory: directory)
    configuration.mostChangedMembers = mostChangedMembers
    cache = try Cache(configuration)
  }

  static func channel(
    _ url: ChannelURL, floor: Int64 = 0, name: String = "General", unread: Int64 = 0,
    last: ChannelRecord.LastMessage = .absent, hidden: String = "unhidden", lastReadAt: Int64 = 0
  ) -> ChannelRecord {
    var writer = JSONWriter()
    writer.field("channel_url", url.text)
    writer.field("name", name)
    return ChannelRecord(
      url: url, name: name, customType: "", createdAt: 1, isDistinct: false, isPublic: false, isSuper: false,
      isFrozen: false, memberCount: 2, joinedMemberCount: 2, body: writer.finish().array, lastMessage: last,
      membership: MembershipRecord(
        state: .joined, isOperator: false, isMuted: false, hiddenState: hidden, floorAt: floor,
        lastReadAt: lastReadAt, unread: unread, mentions: 0, joinedAt: 1, invitedAt: 0))
  }

  static func message(
    _ id: Int64, at: Int64, updatedAt: Int64 = 0, kind: MessageQuery.Kind = .user, sender: String = "bob",
    customType: String = "", parent: Int64? = nil, parentAt: Int64? = nil, inChannel: Bool = false,
    text: String = "hello", silent: Bool = false, mentions: MessageRecord.Mentions = .nobody
  ) -> MessageRecord {
    var writer = JSONWriter()
    writer.name("message_id")
    writer.value(quoting: id)
    writer.field("message", text)
    writer.field("created_at", at)
    return MessageRecord(
      messageID: id, createdAt: at, updatedAt: updatedAt, kind: kind, isSilent: silent,
      isReplyToChannel: inChannel, parentID: parent, parentAt: parentAt, sender: sender,
      customType: customType, requestID: "", mentions: mentions, body: writer.finish().array,
      parent: parent.map { Array(#"{"message_id":"\#($0)"}"#.utf8) })
  }

  /// Stores the newest `limit` of `rows`, as a listing from the newest end.
  func listNewest(_ rows: [MessageRecord], limit: Int, generation: Int64 = 1) throws {
    let newest = rows.sorted { $0.position < $1.position }.suffix(limit)
    try list(
      MessageListing(
        window: MessageWindow(.newest, older: limit, newer: 0), rows: Array(newest), isWhole: true,
        askedAt: cache.cursor.sequence), generation: generation)
  }

  func list(_ listing: MessageListing, generation: Int64 = 1) throws {
    let url = url
    try cache.write {
      try $0.store([listing], in: url, ListingContext(source: .apiResult, generation: generation))
    }
  }

  /// The answer of a page.
  struct Answer: Equatable {
    var ids: [Int64]
    var hasPrevious: Bool
    var hasNext: Bool
    var gaps: Int
    var isComplete: Bool
    var span: ClosedRange<Position>?
  }

  static let live = LinkStatus(.online, generation: 1)

  func page(
    _ query: MessagePageQuery, as user: UserID? = nil, link: LinkStatus = Self.live
  ) throws -> Answer {
    try cache.read { try page(query, as: user, link: link, $0) }
  }

  /// The same, as that reader reads it.
  func page(
    _ query: MessagePageQuery, as user: UserID? = nil, link: LinkStatus = Self.live, _ reader: CacheReader
  ) throws -> Answer {
    guard let someone = try reader.cachedUser(user ?? alice),
      let view = try reader.view(of: url, for: someone.key)
    else {
      return Answer(ids: [], hasPrevious: false, hasNext: false, gaps: 0, isComplete: false)
    }
    let ground = try reader.ground(
      query.anchor, in: view, link: link, interval: 3_600_000, now: Clock.system.wallMilliseconds())
    let page = try reader.page(query, in: view, on: ground)
    let text = [UInt8(ascii: "[")] + page.items.array + [UInt8(ascii: "]")]
    let ids = try text.withUnsafeBytes { bytes in
      try JSONParser().parse(bytes) { $0.items.compactMap { $0["message_id"]?.string.flatMap(Int64.init) } }
    }
    return Answer(
      ids: ids, hasPrevious: page.hasPrevious, hasNext: page.hasNext, gaps: page.gaps.count,
      isComplete: page.isComplete, span: page.span)
  }
}
