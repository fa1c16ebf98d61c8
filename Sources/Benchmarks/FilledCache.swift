import ChatCache
import ChatModel
import Glibc
import JSON
import Platform

/// A cache in a directory of its own, filled the way the sync worker fills one.
final class FilledCache: Sendable {
  static let user = UserID("bench")
  /// The moment of the first message, ms; each next one comes 10 ms later.
  static let firstAt: Int64 = 1_700_000_000_000

  private let folder: ScratchFolder
  private let mostChangedMembers: Int
  let cache: Cache

  var directory: String { folder.path }

  /// An empty cache with one user who is in `channels` channels. `disk`: on the disk, not in memory.
  /// `limit`: the most it may use, in bytes. `mostChangedMembers`: with more members a channel is crowded.
  init(
    channels: Int, disk: Bool = false, limit: Int64? = nil,
    mostChangedMembers: Int = Cache.Configuration.mostChangedMembers
  ) throws {
    folder = try ScratchFolder("cache", onDisk: disk)
    self.mostChangedMembers = mostChangedMembers
    var configuration = Cache.Configuration(directory: folder.path)
    configuration.mostChangedMembers = mostChangedMembers
    configuration.limit = CacheLimit(bytes: limit ?? .max, order: CacheLimit.accessOrder)
    cache = try Cache(configuration)
    let records = (0..<channels).map { FilledCache.channel($0) }
    try cache.blocking.write { writer in
      try writer.acknowledge(FilledCache.user)
      _ = try writer.store(records, of: FilledCache.user, .listing(sweep: 1))
      try writer.endListing(of: FilledCache.user)
    }
  }

  /// A cache whose channels were filled in turns, a hundred messages at a time; it was closed and opened
  /// again.
  static func interleaved(channels: Int, messages: Int) throws -> FilledCache {
    let filled = try FilledCache(channels: channels)
    for first in stride(from: 0, to: messages, by: 100) {
      for channel in 0..<channels { try filled.store(first, count: 100, in: channel) }
    }
    return try filled.reopened()
  }

  private init(reopening folder: ScratchFolder, mostChangedMembers: Int) throws {
    self.folder = folder
    self.mostChangedMembers = mostChangedMembers
    var configuration = Cache.Configuration(directory: folder.path)
    configuration.mostChangedMembers = mostChangedMembers
    configuration.limit = CacheLimit(bytes: .max, order: CacheLimit.accessOrder)
    cache = try Cache(configuration)
  }

  deinit { cache.close() }

  /// The same cache after a restart: all of it is in the database file and none in the WAL, as in the peer.
  func reopened() throws -> FilledCache {
    cache.close()
    return try FilledCache(reopening: folder, mostChangedMembers: mostChangedMembers)
  }

  /// Makes users members of the first channels, which have `stored` messages. They come just after the last.
  func admit(_ users: [UserID], to channels: Int = 1, stored: Int) throws {
    let joinedAt = FilledCache.position(stored).createdAt - 1
    let records = (0..<channels).map { FilledCache.channel($0, joinedAt: joinedAt) }
    for first in stride(from: 0, to: users.count, by: 100) {
      let some = users[first..<min(first + 100, users.count)]
      try cache.blocking.write { writer in
        for user in some {
          try writer.acknowledge(user)
          _ = try writer.store(records, of: user, .listing(sweep: 1))
          try writer.endListing(of: user)
        }
      }
    }
  }

  /// The writer's time for a commit with one message in the first channel, and the bytes that the commit adds
  /// to the write-ahead log: medians of the forty messages from that number on.
  func messageCost(from first: Int) throws -> (milliseconds: Double, kilobytes: Double) {
    var (times, bytes): ([Double], [Double]) = ([], [])
    for number in first..<first + 40 {
      let before = try walBytes()
      let began = Clock.system.monotonicNanoseconds()
      try store(number, count: 1, in: 0)
      times.append(Double(Clock.system.monotonicNanoseconds() - began) / 1e6)
      // After a checkpoint the log begins anew in the same file, which then does not grow.
      let grown = try walBytes() - before
      if grown > 0 { bytes.append(Double(grown) / 1000) }
    }
    return (times.median, bytes.median)
  }

  static func url(_ number: Int) -> ChannelURL { ChannelURL("channel-\(number)") }

  /// The position of the message with a number.
  static func position(_ number: Int) -> Position {
    Position(createdAt: firstAt + Int64(number) * 10, messageID: Int64(number) + 1)
  }

  private static func channel(_ number: Int, joinedAt: Int64 = 1) -> ChannelRecord {
    var body = JSONWriter()
    body.field("channel_url", url(number).text)
    body.field("name", "Channel \(number)")
    return ChannelRecord(
      url: url(number), name: "Channel \(number)", customType: "", createdAt: 1, isDistinct: false,
      isPublic: false, isSuper: false, isFrozen: false, memberCount: 2, joinedMemberCount: 2,
      body: body.finish().array, lastMessage: .absent,
      membership: MembershipRecord(
        state: .joined, isOperator: false, isMuted: false, hiddenState: "unhidden", floorAt: 0, lastReadAt: 0,
        unread: 0, mentions: 0, joinedAt: joinedAt, invitedAt: 0))
  }

  /// A message with a body of 400 bytes.
  static func message(_ number: Int) -> MessageRecord {
    let position = position(number)
    var body = JSONWriter(capacity: 512)
    body.name("message_id")
    body.value(quoting: position.messageID)
    body.field("position", position.description)
    body.field("type", "user")
    body.field("created_at", position.createdAt)
    body.name("message")
    let left = max(0, 398 - body.buffer.count)
    body.value(String(repeating: "abcdefghij", count: 40).prefix(left).description)
    return MessageRecord(
      messageID: position.messageID, createdAt: position.createdAt, updatedAt: 0, kind: .user,
      isSilent: false,
      isReplyToChannel: false, sender: "user-\(number % 37)", customType: "", requestID: "",
      mentions: .nobody, body: body.finish().array)
  }

  /// Stores one page of a listing as the sync worker does: messages `first` and up of a channel.
  func store(_ first: Int, count: Int, in channel: Int) throws {
    let rows = (first..<(first + count)).map { FilledCache.message($0) }
    let window =
      first == 0
      ? MessageWindow(.newest, older: count + 1, newer: 0)
      : MessageWindow(
        .message(FilledCache.position(first - 1)), older: 0, newer: count + 1, includesAnchor: false)
    let listing = MessageListing(
      window: window, rows: rows, isWhole: true, askedAt: cache.cursor.sequence)
    let (url, context) = (FilledCache.url(channel), ListingContext(source: .apiResult, generation: 1))
    for part in try cache.commits(of: [listing], in: url, context) {
      _ = try cache.blocking.write { try $0.store(part, in: url, context) }
    }
  }

  /// The size of the write-ahead log.
  func walBytes() throws -> Int {
    var found = stat()
    guard stat(directory + "/perch.db-wal", &found) == 0 else {
      throw BenchFailure(description: "there is no write-ahead log")
    }
    return Int(found.st_size)
  }

  /// A page as a request reads it, in its envelope.
  func page(_ query: MessagePageQuery, in url: ChannelURL) throws -> ByteBuffer {
    let now = Clock.system.wallMilliseconds()
    return try cache.read { reader -> ByteBuffer in
      guard let user = try reader.userKey(of: FilledCache.user),
        let view = try reader.view(of: url, for: user)
      else { throw BenchFailure(description: "\(url) is not there") }
      let ground = try reader.ground(
        query.anchor, in: view, link: FilledCache.link, interval: 2000, now: now)
      let page = try reader.page(query, in: view, on: ground, head: "{\"items\":[")
      let (hasPrevious, hasNext, isComplete) = (page.hasPrevious, page.hasNext, page.isComplete)
      var json = JSONWriter(continuing: page.intoItems())
      json.endArray()
      json.field("has_previous", hasPrevious)
      json.field("has_next", hasNext)
      json.field("complete", isComplete)
      json.endObject()
      return json.finish()
    }
  }

  private static let link = LinkStatus(.online, generation: 1)
}
