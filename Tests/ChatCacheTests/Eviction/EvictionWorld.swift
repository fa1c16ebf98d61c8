import ChatModel
import Glibc
import Platform
import SQLite
import TestSupport

@testable import ChatCache

/// A cache with some channels of messages, and a plain model of them.
final class EvictionWorld {
  /// The model of a channel.
  struct Channel {
    let url: ChannelURL
    let key: ChannelKey
    var rows: Set<Position> = []
    /// The time of the newest message that is not a reply alone.
    var lastMessageAt = Int64.min
    var accessedAt: Int64 = 0
    /// The parent of each reply.
    var parents: [Position: Int64] = [:]
    /// The windows of the open views by their ids; a thread's window has only its replies.
    var windows: [String: Window] = [:]

    func isSpared(_ position: Position) -> Bool {
      windows.values.contains {
        $0.stretch.contains(position) && ($0.parent == nil || parents[position] == $0.parent)
      }
    }
  }

  struct Window {
    let stretch: ClosedRange<Position>
    let parent: Int64?
  }

  let cache: Cache
  let alice = UserID("alice")
  private(set) var channels: [Channel] = []
  private let wall: Guarded<Int64>

  /// `isCrowded`: a message changes no membership.
  init(channels count: Int, isCrowded: Bool = false, directory: String = Disk.folder()) throws {
    let wall = Guarded<Int64>(1_000_000)
    self.wall = wall
    var configuration = Cache.Configuration(directory: directory)
    configuration.clock = Clock(
      wallMilliseconds: { wall.withLock { $0 } },
      monotonicNanoseconds: Clock.system.monotonicNanoseconds)
    configuration.limit = CacheLimit(exactly: .max / 2)
    if isCrowded { configuration.mostChangedMembers = 0 }
    cache = try Cache(configuration)
    let alice = alice
    let urls = (0..<count).map { ChannelURL("c\($0)") }
    try cache.write { writer in
      try writer.acknowledge(alice)
      _ = try writer.store(urls.map { ChannelWithMessages.channel($0) }, of: alice, .listing(sweep: 1))
      try writer.endListing(of: alice)
    }
    channels = try cache.read { reader in
      try urls.map { Channel(url: $0, key: try reader.channelKey(of: $0)!) }
    }
  }

  /// The user's unread messages of each channel.
  func unreadCounts() throws -> [Int64] {
    try cache.read { reader in
      let user = try reader.userKey(of: alice)!
      return try channels.map { try reader.view(of: $0.url, for: user).map(reader.unreadCount) ?? -1 }
    }
  }

  deinit { cache.close() }

  /// Moves the clock on.
  func pass(_ milliseconds: Int64) { wall.withLock { $0 += milliseconds } }

  /// Stores the newest `limit` of these messages, as a listing from the newest end.
  func list(_ rows: [MessageRecord], limit: Int, in index: Int) throws {
    let url = channels[index].url
    let newest = rows.sorted { $0.position < $1.position }.suffix(limit)
    let listing = MessageListing(
      window: MessageWindow(.newest, older: limit, newer: 0), rows: Array(newest), isWhole: true,
      askedAt: cache.cursor.sequence)
    try cache.write {
      try $0.store([listing], in: url, ListingContext(source: .apiResult, generation: 1))
    }
    channels[index].rows.formUnion(newest.map(\.position))
    for row in newest { noteLast(row, in: index) }
  }

  /// Stores an empty answer, which proves that nothing is older than the oldest message.
  func listBeginning(of index: Int) throws {
    guard let first = channels[index].rows.min() else { return }
    var window = MessageWindow(.message(first), older: 100, newer: 0)
    window.includesAnchor = false
    let (url, asked) = (channels[index].url, cache.cursor.sequence)
    let listing = MessageListing(window: window, rows: [], isWhole: true, askedAt: asked)
    try cache.write {
      try $0.store([listing], in: url, ListingContext(source: .apiResult, generation: 1))
    }
  }

  /// Stores one message without a listing.
  func store(_ row: MessageRecord, in index: Int) throws {
    let url = channels[index].url
    try cache.write { try $0.store(row, in: url, .messageReceived) }
    channels[index].rows.insert(row.position)
    noteLast(row, in: index)
  }

  private func noteLast(_ row: MessageRecord, in index: Int) {
    channels[index].parents[row.position] = row.parentID
    if row.isInChannel { channels[index].lastMessageAt = max(channels[index].lastMessageAt, row.createdAt) }
  }

  /// Opens a view that has loaded the range; an end without more rows reaches to the end of the line.
  func open(
    _ id: String, _ loaded: ClosedRange<Position>, hasPrevious: Bool = true, hasNext: Bool = true,
    parent: Int64? = nil, in index: Int
  ) throws {
    let query = parent.map { #"{"parent_message_id":"\#($0)"}"# } ?? "{}"
    let (alice, channel) = (alice, channels[index])
    let json =
      #"{"has_previous":\#(hasPrevious),"has_next":\#(hasNext),"#
      + #""from":"\#(loaded.lowerBound)","to":"\#(loaded.upperBound)"}"#
    try cache.write { writer in
      try writer.open(
        StoredCollection(
          id: id, user: try writer.reader.userKey(of: alice)!, userID: alice, kind: .messages,
          channel: (channel.key, channel.url), query: Array(query.utf8), loaded: Array(json.utf8),
          accessedAt: 0))
    }
    channels[index].accessedAt = wall.withLock { $0 }
    let stretch = (hasPrevious ? loaded.lowerBound : .start)...(hasNext ? loaded.upperBound : .end)
    channels[index].windows[id] = Window(stretch: stretch, parent: parent)
  }

  func dispose(_ id: String, in index: Int) throws {
    let key = channels[index].key
    try cache.write { _ = try $0.dispose(collection: id, channel: key) }
    channels[index].accessedAt = wall.withLock { $0 }
    channels[index].windows[id] = nil
  }

  /// The positions of the stored messages.
  func stored(in index: Int) throws -> Set<Position> {
    let key = channels[index].key
    return try cache.read { reader in
      Set(
        try reader.db.all("SELECT created_at, message_id FROM message WHERE channel = ?1") {
          $0.bind(1, key.rawValue)
        } _: {
          Position(createdAt: $0.int64(0), messageID: $0.int64(1))
        })
    }
  }

  func coverage(of index: Int) throws -> Coverage {
    let key = channels[index].key
    return try cache.read { try $0.coverage(of: key) }
  }

  /// Evicts until at most `bytes` are used.
  func evict(downTo bytes: Int64, by order: [CacheLimit.Term]? = nil) throws {
    cache.usage.set(CacheLimit(exactly: max(1, bytes * 100 / 85), order: order))
    try cache.evict()
  }

  /// The changes of a kind since a sequence of the log.
  func changes(_ kinds: Set<ChangeKind>, since sequence: Int64) throws -> [Change] {
    try cache.read { reader in
      try channels.flatMap { try reader.commonChanges(in: $0.key, after: sequence, limit: 10_000) }
        .map(\.change).filter { kinds.contains($0.kind) }
    }
  }
}
