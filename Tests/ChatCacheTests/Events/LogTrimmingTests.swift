import ChatModel
import Glibc
import Platform
import SQLite
import TestSupport
import Testing

@testable import ChatCache

/// Trimming the log: which events are kept, and what an older cursor gets.
@Suite struct LogTrimmingTests {
  private static let day: Int64 = 86_400_000

  /// A cache whose clock the test moves.
  final class World {
    let now = Guarded<Int64>(1_700_000_000_000)
    private let directory = Disk.folder()
    private let retention: Retention
    private(set) var cache: Cache

    init(_ retention: Retention) throws {
      self.retention = retention
      cache = try Self.open(directory, retention, now)
    }

    private static func open(_ directory: String, _ retention: Retention, _ now: Guarded<Int64>) throws
      -> Cache
    {
      let clock = Clock(
        wallMilliseconds: { now.withLock { $0 } }, monotonicNanoseconds: Clock.system.monotonicNanoseconds)
      var configuration = Cache.Configuration(directory: directory, clock: clock)
      configuration.retention = retention
      return try Cache(configuration)
    }

    func restart() throws {
      cache.close()
      cache = try Self.open(directory, retention, now)
    }

    /// Writes one event for each of these channels, in one commit. Returns their sequences.
    @discardableResult
    func tell(_ channels: [Int64]) throws -> [Int64] { try tellTimed(channels).sequences }

    /// The same, with the events' time. That is their transaction's, which may have begun earlier.
    func tellTimed(_ channels: [Int64]) throws -> (sequences: [Int64], at: Int64) {
      try cache.write { writer in
        let sequences = try channels.map {
          try writer.append(Change(.channel, .channelRefresh, channel: ChannelKey($0)))
        }
        return (sequences, writer.now)
      }
    }

    /// Takes a sequence in a write that fails.
    func fail() {
      struct Wrong: Error {}
      #expect(throws: Wrong.self) {
        try cache.write { writer in
          try writer.append(Change(.channel, .channelRefresh, channel: ChannelKey(1)))
          throw Wrong()
        }
      }
    }

    func kept() throws -> [Int64] {
      try cache.read { try $0.db.all("SELECT seq FROM event ORDER BY seq") { $0.int64(0) } }
    }

    func covers(_ sequence: Int64) throws -> Bool {
      let now = cache.cursor
      return try cache.read {
        try $0.covers(EventCursor(epoch: now.epoch, run: now.run, sequence: sequence))
      }
    }
  }

  private static func keeping(_ events: Int64, for milliseconds: Int64 = 7 * day) -> Retention {
    var retention = Retention()
    retention.events = events
    retention.eventMilliseconds = milliseconds
    return retention
  }

  @Test("B53: 200 000 events or 7 days are kept where nobody says otherwise")
  func defaults() {
    #expect(Retention().events == 200_000 && Retention().eventMilliseconds == 7 * Self.day)
  }

  @Test("B53: the newest events are kept, as many as are to be; a cursor before them is refused, no other")
  func byNumber() throws {
    let world = try World(Self.keeping(10))
    defer { world.cache.close() }
    let told = try (0..<25).flatMap { _ in try world.tell([1]) }
    try world.cache.trim()
    #expect(try world.kept() == Array(told.suffix(10)))
    #expect(try !world.covers(0) && !world.covers(told[13]))
    #expect(try world.covers(told[14]) && world.covers(told[24]))
  }

  @Test("B53: an event goes when it is older than it is kept, however few there are")
  func byAge() throws {
    let world = try World(Self.keeping(1000, for: 7 * Self.day))
    defer { world.cache.close() }
    let old = try world.tell([1, 2, 1])
    world.now.withLock { $0 += 3 * Self.day }
    let young = try world.tell([1, 2])
    world.now.withLock { $0 += 4 * Self.day }
    try world.cache.trim()
    #expect(try world.kept() == old + young, "seven days are kept")
    world.now.withLock { $0 += 1 }
    try world.cache.trim()
    #expect(try world.kept() == young)
    #expect(try !world.covers(old[1]) && world.covers(old[2]))
  }

  @Test("B52: a number that a failed commit took is nothing a cursor could miss")
  func failedNumbers() throws {
    let world = try World(Self.keeping(10))
    defer { world.cache.close() }
    for _ in 0..<3 { world.fail() }
    try world.tell([1])
    #expect(try world.covers(0), "nothing was ever forgotten")
    for _ in 0..<20 { world.fail() }
    try world.tell([1])
    try world.cache.trim()
    #expect(try world.kept().count == 2, "only events are counted")
    #expect(try world.covers(0))
  }

  @Test("B49 B53: no number is given twice, also when the whole log has grown old before a restart")
  func numbersGoOn() throws {
    let world = try World(Self.keeping(10, for: 1000))
    defer { world.cache.close() }
    let last = try #require(try world.tell([1, 1, 1]).last)
    let before = world.cache.cursor
    world.now.withLock { $0 += Self.day }
    try world.cache.trim()
    try world.restart()
    #expect(world.cache.cursor.sequence == last)
    #expect(try world.tell([2]) == [last + 1])
    #expect(try world.cache.read { try $0.covers(before) }, "who was up to date before the restart goes on")
    #expect(
      try world.cache.read { try $0.commonChanges(in: ChannelKey(2), after: before.sequence, limit: 9) }.count
        == 1)
  }

  @Test("B53: starts of which the log tells nothing any more are forgotten with it")
  func runs() throws {
    let world = try World(Self.keeping(3))
    defer { world.cache.close() }
    for _ in 0..<8 {
      try world.tell([1, 2])
      try world.restart()
    }
    try world.cache.trim()
    let runs = try world.cache.read { try $0.db.all("SELECT run FROM run ORDER BY run") { $0.int64(0) } }
    #expect(runs.count <= 4 && runs.last == world.cache.cursor.run, "\(runs)")
    #expect(
      try world.covers(world.cache.cursor.sequence - 3) && !world.covers(world.cache.cursor.sequence - 4))
  }

  @Test("B53: one slice removes no more than its rows, and the next goes on")
  func slices() throws {
    let world = try World(Self.keeping(1_000_000))
    defer { world.cache.close() }
    try world.tell(Array(repeating: 1, count: 2 * Limits.trimmedRows + 5))
    var few = Self.keeping(1)
    few.tombstoneMilliseconds = 0
    let surplus = Int64(2 * Limits.trimmedRows + 4)
    let retention = few
    var slices: [Int] = []
    while slices.reduce(0, +) < surplus {
      let left = surplus - Int64(slices.reduce(0, +))
      slices.append(try world.cache.write { try $0.trim(retention, surplus: left).events })
    }
    #expect(slices == [Limits.trimmedRows, Limits.trimmedRows, 4])
  }

  @Test("B53: the log is trimmed by itself and stays bounded while it is written")
  func bounded() throws {
    let world = try World(Self.keeping(100))
    defer { world.cache.close() }
    for _ in 0..<200 { try world.tell([1, 2, 3, 1, 2, 3, 1, 2, 3, 1]) }
    let end = Clock.system.monotonicNanoseconds() + 10_000_000_000
    while try world.kept().count > 110, Clock.system.monotonicNanoseconds() < end { usleep(1000) }
    #expect(try world.kept().count <= 110)
    #expect(try world.kept().last == world.cache.cursor.sequence)
  }

  @Test("B52 B58: a cleared cache's log begins anew, and what it tells from then on is whole")
  func cleared() throws {
    let world = try World(Self.keeping(10))
    defer { world.cache.close() }
    try world.tell([1, 2, 3])
    let before = world.cache.cursor
    try world.cache.write { try $0.clearAll(withUnsent: false) }
    let after = world.cache.cursor
    try world.tell([1])
    #expect(try world.cache.read { try !$0.covers(before) && $0.covers(after) })
    #expect(try !world.covers(before.sequence), "in the new log there is nothing from before")
  }

  @Test("B21 B53: a tombstone outlives every late page, and is forgotten in the end")
  func tombstones() throws {
    let world = try ChannelWithMessages()
    defer { world.cache.close() }
    let rows = (1...3).map { ChannelWithMessages.message($0, at: $0 * 10) }
    try world.listNewest(rows, limit: 100)
    let url = world.url
    try world.cache.write { try $0.delete(message: 2, in: url, .messageDeleted) }
    func tombstones() throws -> Int64 {
      try world.cache.read { try $0.db.first("SELECT count(*) FROM tombstone") { $0.int64(0) } ?? 0 }
    }
    func trim(_ milliseconds: Int64) throws -> Trimmed {
      var retention = Retention()
      retention.tombstoneMilliseconds = milliseconds
      let kept = retention
      return try world.cache.write { try $0.trim(kept, surplus: 0) }
    }
    #expect(try trim(Limits.tombstoneMilliseconds).tombstones == 0)
    #expect(try tombstones() == 1)
    try world.listNewest(rows, limit: 100)
    #expect(try world.page(MessagePageQuery()).ids == [1, 3])
    #expect(try trim(-1).tombstones == 1)
    #expect(try tombstones() == 0)
  }

  @Test("B31 B53: what was asked for before the kept log begins proves nothing where coverage is in doubt")
  func forgottenDoubt() throws {
    let world = try ChannelWithMessages()
    defer { world.cache.close() }
    let rows = (1...5).map { ChannelWithMessages.message($0, at: $0 * 10) }
    try world.listNewest(rows, limit: 100)
    let asked = world.cache.cursor.sequence
    let url = world.url
    try world.cache.write { try $0.doubt(url) }
    try world.cache.write { writer in
      for _ in 0..<3 { try writer.append(Change(.connection, .channelRefresh)) }
      _ = try writer.trim(Self.keeping(1), surplus: .max)
    }
    func isInDoubt() throws -> Bool {
      try world.cache.read { try $0.line(of: url)?.unverified != nil }
    }
    let window = MessageWindow(.newest, older: 100, newer: 0)
    try world.list(MessageListing(window: window, rows: rows, isWhole: true, askedAt: asked))
    #expect(try isInDoubt())
    try world.listNewest(rows, limit: 100)
    #expect(try !isInDoubt())
  }
}
