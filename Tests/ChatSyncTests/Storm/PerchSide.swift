import ChatModel
import Glibc
import Platform
import SQLite
import TestFolders

@testable import ChatCache
@testable import ChatSync

/// Perch's side of a storm: a real cache file and a worker over real sockets, which tests can restart.
final class PerchSide {
  let directory: String
  private let base: String
  private let token: String
  private(set) var cache: Cache
  private(set) var worker: SyncWorker
  private(set) var syncRequests: WorkerRequests
  private(set) var client: HTTPClient

  static var pace: Pace {
    var pace = Pace()
    pace.openPoll = 100
    pace.openPollWithWebhooks = 400
    pace.userPoll = 400
    pace.sweep = 1_500
    pace.verify = 300
    pace.requestsPerSecond = 0
    pace.prefetchRate = 0
    pace.mostPositions = 0
    pace.prefetchMessages = 150
    pace.webhookNoteDelay = 20
    pace.maximumBackoff = 200
    return pace
  }

  let paceInUse: Pace
  /// Which of the borders between crowded and other channels the cache has: after each restart the next lower
  /// one, so that messages find channels too large.
  private var border: Int
  private static let borders = [0, 1, 3, .max]
  /// With more members here a channel is crowded.
  var mostChangedMembers: Int { Self.borders[border % Self.borders.count] }
  private let firstByte: Int
  let clock: Clock
  private let policy: OutboxPolicy

  /// `firstByte`: how long the upstream may be silent (ms); short in tests in which it is silent on purpose.
  init(
    _ base: String, pace: Pace = PerchSide.pace, firstByte: Int = 5_000, clock: Clock = .system,
    policy: OutboxPolicy = OutboxPolicy(), token: String = "origin", seed: Int = 3
  ) throws {
    border = seed
    self.policy = policy
    self.token = token
    self.firstByte = firstByte
    self.base = base
    paceInUse = pace
    self.clock = clock
    directory = TestFolder.make("storm")
    (cache, client, worker) = try PerchSide.open(
      directory, base, token, pace, firstByte, clock, policy, border)
    syncRequests = WorkerRequests(worker)
  }

  private static func open(
    _ directory: String, _ base: String, _ token: String, _ pace: Pace, _ firstByte: Int, _ clock: Clock,
    _ policy: OutboxPolicy, _ border: Int
  ) throws -> (Cache, HTTPClient, SyncWorker) {
    var settings = Cache.Configuration(directory: directory, upstream: base, clock: clock)
    settings.mostChangedMembers = borders[border % borders.count]
    // Every second run deletes in slices what a clear leaves.
    settings.mostCleared = border % 2 == 0 ? 0 : 1000
    let cache = try Cache(settings)
    var configuration = HTTPClient.Configuration()
    configuration.connectMilliseconds = firstByte
    configuration.firstByteMilliseconds = firstByte
    configuration.totalMilliseconds = 5 * firstByte
    configuration.clock = clock
    let client = HTTPClient(configuration)
    var server = SendbirdUpstream.Configuration(base: base, token: token)
    server.fileTime.leastMilliseconds = 5 * firstByte
    server.fileTime.stallMilliseconds = 2 * firstByte
    let upstream = SendbirdUpstream(server, client: client)
    let worker = SyncWorker(
      upstream: upstream, store: CacheStore(cache), pace: pace, outboxPolicy: policy, clock: clock,
      seed: .random(in: 0 ... .max))
    return (cache, client, worker)
  }

  var requests: Int { client.requestsStarted }

  func restart() async throws {
    await stop()
    border += Self.borders.count - 1
    (cache, client, worker) = try PerchSide.open(
      directory, base, token, paceInUse, firstByte, clock, policy, border)
    syncRequests = WorkerRequests(worker)
    try await worker.start()
  }

  func stop() async {
    await worker.stop()
    client.close()
    cache.close()
  }

  func remove() {
    for name in ["perch.db", "perch.db-wal", "perch.db-shm", "perch.lock"] { unlink("\(directory)/\(name)") }
    for name in spooled { unlink("\(directory)/spool/\(name)") }
    rmdir("\(directory)/spool")
    rmdir(directory)
  }

  /// The files in the spool.
  var spooled: [String] {
    guard let folder = opendir("\(directory)/spool") else { return [] }
    defer { closedir(folder) }
    var names: [String] = []
    while let entry = readdir(folder) {
      let name = withUnsafeBytes(of: &entry.pointee.d_name) {
        String(cString: $0.baseAddress!.assumingMemoryBound(to: CChar.self))
      }
      if !name.hasPrefix(".") { names.append(name) }
    }
    return names
  }

  // MARK: The cache's content

  /// A stored message, byte for byte.
  struct Row: Equatable {
    let position: Position
    let updatedAt: Int64
    let body: String
    let parts: [String]
  }

  struct Membership: Equatable {
    let url: String
    let name: String
    let floor: Int64
    let isFrozen: Bool
    let members: Int64
    let lastMessage: Int64
    var unread: Int64 = 0
    var mentions: Int64 = 0
  }

  /// The channels of the user.
  func memberships(of user: String) throws -> [Membership] {
    try cache.read { reader in
      guard let user = try reader.userKey(of: UserID(user)) else { return [] }
      let found = try reader.db.all(
        """
        SELECT c.channel_url, c.name, m.floor_at, c.is_frozen, c.joined_member_count,
          coalesce(c.last_message_id, 0)
        FROM membership m
        JOIN channel c ON c.id = m.channel
        WHERE m.user = ?1
        ORDER BY c.channel_url
        """
      ) {
        $0.bind(1, user.rawValue)
      } _: {
        Membership(
          url: $0.string(0), name: $0.string(1), floor: $0.int64(2), isFrozen: $0.bool(3),
          members: $0.int64(4), lastMessage: $0.int64(5))
      }
      return try found.map { channel in
        var channel = channel
        let mark = try reader.view(of: ChannelURL(channel.url), for: user).flatMap(reader.readMark)
        (channel.unread, channel.mentions) = (mark?.unread ?? 0, mark?.mentions ?? 0)
        return channel
      }
    }
  }

  /// The stored messages of a channel from `low` on, and its coverage, of one snapshot.
  func channel(_ url: String, from low: Position) throws -> (rows: [Row], coverage: Coverage)? {
    try cache.read { reader in
      guard let key = try reader.channelKey(of: ChannelURL(url)) else { return nil }
      let rows = try reader.db.all(
        """
        SELECT created_at, message_id, updated_at, body, reactions, metaarray, thread_info, parent
        FROM message
        WHERE channel = ?1 AND (created_at, message_id) >= (?2, ?3)
        ORDER BY created_at, message_id
        """
      ) {
        $0.bind(1, key.rawValue)
        $0.bind(2, low.createdAt)
        $0.bind(3, low.messageID)
      } _: { row in
        Row(
          position: Position(createdAt: row.int64(0), messageID: row.int64(1)), updatedAt: row.int64(2),
          body: String(decoding: row.bytes(3), as: UTF8.self),
          parts: (4...7).map {
            row.isNull(Int32($0)) ? "" : String(decoding: row.bytes(Int32($0)), as: UTF8.self)
          })
      }
      return (rows, try reader.coverage(of: key))
    }
  }

  /// The channels whose changelog goes on at a token of the upstream's.
  func channelsWithToken() throws -> [String] {
    try cache.read { reader in
      try reader.db.all("SELECT channel_url FROM channel WHERE message_token LIKE 'token:%'") { $0.string(0) }
    }
  }

  /// A fault inside the file, found by SQLite or by the tables' own rules; nil: there is none.
  func damage() throws -> String? {
    try cache.read { reader in
      let check = try reader.db.first("PRAGMA integrity_check") { $0.string(0) } ?? "?"
      if check != "ok" { return check }
      let doubled = try reader.db.first(
        "SELECT message_id FROM message GROUP BY channel, message_id HAVING count(*) > 1"
      ) { $0.int64(0) }
      if let doubled { return "message \(doubled) is stored twice" }
      let undead = try reader.db.first(
        """
        SELECT m.message_id
        FROM message m
        JOIN tombstone t ON t.channel = m.channel AND t.message_id = m.message_id
        """
      ) { $0.int64(0) }
      return undead.map { "message \($0) is stored and deleted" }
    }
  }
}

extension PerchSide.Row {
  init(_ record: MessageRecord) {
    func text(_ bytes: [UInt8]?) -> String { bytes.map { String(decoding: $0, as: UTF8.self) } ?? "" }
    self.init(
      position: record.position, updatedAt: record.updatedAt, body: text(record.body),
      parts: [text(record.reactions), text(record.metaarray), text(record.threadInfo), text(record.parent)])
  }
}
