import ChatCache
import ChatModel
import Glibc
import Platform
import SQLite

extension Row {
  /// A cache of 50 GB: how long it takes to open, how long its check takes, and how long writes wait beside
  /// the check and while a channel of a million messages is cleared.
  static let hugeCache = Row(
    name: "huge", work: "a cache of 50 GB: opening, checking, clearing a channel of a million messages",
    isLong: true
  ) { bench in
    let huge = try FilledCache.huge(messages: 9_400, channels: 10_000, largest: 1_000_000)
    let small = try FilledCache.huge(messages: 800, channels: 100, largest: 10_000)
    var (ours, theirs): ([Double], [Double]) = ([], [])
    for _ in 0..<bench.pairs {
      ours.append(try huge.opening())
      theirs.append(try small.opening())
    }
    let (large, little) = (try huge.checked(), try small.checked())
    let quiet = try small.reopened().writes(seconds: 2)
    let cleared = try huge.reopened().clear { try $0.clear(FilledCache.url(0)) }
    func alone(_ title: String, _ unit: String, _ value: Double, _ goal: Figure.Goal? = nil) -> Figure {
      Figure(title: title, unit: unit, ours: value, peer: nil, peerName: "", goal: goal)
    }
    return [
      alone("the file", "GB", Double(try huge.fileBytes) / 1e9, .atLeast(50)),
      Figure(
        title: "opening and first page", unit: "ms", ours: ours, peer: theirs, peerName: "0.05 GB", goal: nil
      ),
      alone("the same beyond the small one's", "ms", zip(ours, theirs).map { $0 - $1 }.median, .atMost(60)),
      Figure(
        title: "the check's longest snapshot", unit: "ms", ours: large.snapshot, peer: little.snapshot,
        peerName: "0.05 GB", goal: nil),
      alone("the same", "ms", large.snapshot, .atMost(1000)),
      alone("the check", "s", large.writes.seconds),
      alone("most of the write-ahead log meanwhile", "MB", large.log),
      Figure(
        title: "a write beside the check, p99", unit: "ms", ours: large.writes.p99, peer: quiet.p99,
        peerName: "nothing checked", goal: nil),
      alone("the same, the longest", "ms", large.writes.longest),
      alone("a write while a million messages are cleared, p99", "ms", cleared.p99, .atMost(20)),
      alone("the same, the longest", "ms", cleared.longest),
      alone("how long that took", "s", cleared.seconds),
    ]
  }
}

extension FilledCache {
  /// A check, and the writes beside it.
  fileprivate struct Checked {
    /// How long its longest snapshot was held, ms.
    let snapshot: Double
    let writes: Writes
    /// The largest size of the write-ahead log, MB.
    let log: Double
  }

  /// `channels` channels of `messages` messages, and one, the first, with `largest`. The second one is filled
  /// as the sync worker fills it, and copied into the others in one statement.
  fileprivate static func huge(messages: Int, channels: Int, largest: Int) throws -> FilledCache {
    let made = try FilledCache(channels: channels + 1, disk: true)
    for first in stride(from: 0, to: largest, by: 1000) { try made.store(first, count: 1000, in: 0) }
    for first in stride(from: 0, to: messages, by: 100) { try made.store(first, count: 100, in: 1) }
    made.cache.close()
    let connection = try Connection(path: made.directory + "/perch.db")
    try connection.execute("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -64000")
    try connection.execute(copies)
    return try made.reopened()
  }

  private static let copies = """
    BEGIN;
    CREATE TEMP TABLE filled AS SELECT id FROM channel WHERE channel_url = 'channel-1';
    -- Of a statement that reads the table into which it writes, SQLite would write all rows to a file first.
    CREATE TEMP TABLE filled_message AS SELECT * FROM message WHERE channel = (SELECT id FROM filled);
    INSERT INTO message (
      channel, created_at, message_id, parent_id, flags, body, version, updated_at, type, sender, custom_type,
      mentions, first_version)
    SELECT
      c.id, m.created_at, m.message_id, m.parent_id, m.flags, m.body, m.version, m.updated_at, m.type,
      m.sender, m.custom_type, m.mentions, m.first_version
    FROM channel AS c
    CROSS JOIN filled_message AS m
    WHERE c.id > (SELECT id FROM filled);
    DELETE FROM segment WHERE channel > (SELECT id FROM filled);
    INSERT INTO segment (
      channel, lo_at, lo_id, hi_at, hi_id, kind, id, reason, state, estimated_missing, confirmed_at,
      generation, is_unverified)
    SELECT
      c.id, s.lo_at, s.lo_id, s.hi_at, s.hi_id, s.kind, s.id, s.reason, s.state, s.estimated_missing,
      s.confirmed_at, s.generation, s.is_unverified
    FROM channel AS c
    CROSS JOIN segment AS s
    WHERE c.id > (SELECT id FROM filled) AND s.channel = (SELECT id FROM filled);
    UPDATE channel
    SET (
        last_message_at, last_message_id, last_message, cached_messages, cached_bytes, known_to_at,
        known_to_id, new_after
      ) = (
        SELECT
          f.last_message_at, f.last_message_id, f.last_message, f.cached_messages, f.cached_bytes,
          f.known_to_at, f.known_to_id, f.new_after
        FROM channel AS f
        WHERE f.id = (SELECT id FROM filled)
      )
    WHERE id > (SELECT id FROM filled);
    UPDATE membership
    SET (sort_at, unread, mentions, counted_at, counted_id) = (
        SELECT f.sort_at, f.unread, f.mentions, f.counted_at, f.counted_id
        FROM membership AS f
        WHERE f.user = membership.user AND f.channel = (SELECT id FROM filled)
      )
    WHERE channel > (SELECT id FROM filled);
    COMMIT;
    """

  fileprivate var fileBytes: Int64 {
    get throws {
      var found = stat()
      guard stat(directory + "/perch.db", &found) == 0 else { throw BenchFailure(description: "no file") }
      return Int64(found.st_size)
    }
  }

  /// How long it takes to open the cache again and to read a page of a channel, ms.
  fileprivate func opening() throws -> Double {
    let began = Clock.system.monotonicNanoseconds()
    let again = try reopened()
    _ = try again.page(MessagePageQuery(limit: 30), in: FilledCache.url(7))
    return Double(Clock.system.monotonicNanoseconds() - began) / 1e6
  }

  /// Checks the cache, and writes until that is done. The cache must be sound.
  fileprivate func checked() throws -> Checked {
    let open = try reopened()
    let cache = open.cache
    let result = Guarded<Result<CheckReport, any Error>?>(nil)
    let thread = Thread("check") {
      let report = Result { try cache.check() }
      result.withLock { $0 = report }
    }
    var log = 0
    let writes = try open.writes {
      // `try?`: a log that was cut away just now has no bytes.
      log = max(log, (try? open.walBytes()) ?? 0)
      return result.withLock { $0 == nil }
    }
    thread.join()
    guard let report = try result.withLock({ $0 })?.get(), report.isSound else {
      throw BenchFailure(description: "the cache is not sound")
    }
    return Checked(snapshot: Double(report.longestSnapshot), writes: writes, log: Double(log) / 1e6)
  }
}
