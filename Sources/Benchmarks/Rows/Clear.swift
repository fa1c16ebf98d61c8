import ChatCache
import ChatModel
import Glibc
import Platform
import SQLite
import Synchronization

extension Row {
  /// How long a client's write takes while much is cleared, and while nothing is.
  static let clear = Row(
    name: "clear", work: "a client's write while channels, all, or a user of 100 000 channels are cleared"
  ) { bench in
    let messages = try BesideClear(messages: 1_200_000)
    let channel = try messages.clear { try $0.clear(FilledCache.url(0)) }
    let left = try messages.messages
    guard (590_000...600_000).contains(left) else {
      throw BenchFailure(description: "\(left) messages are left of 600 000")
    }
    let rest = try messages.clear { try $0.clearAll(withUnsent: false) }
    guard try messages.messages == 0 else { throw BenchFailure(description: "messages are left") }
    let forgotten = try BesideClear(channels: 100_000)
    let user = try forgotten.clear { try $0.remove(UserID("many")) }
    let many = try BesideClear(channels: 100_000)
    let empty = try many.clear { try $0.clearAll(withUnsent: false) }
    guard try forgotten.memberships < 100, try many.memberships == 0 else {
      throw BenchFailure(description: "memberships are left")
    }
    let crowd = try BesideClear(members: 5_000, unread: 1_000)
    let crowded = try crowd.clear { try $0.clear(FilledCache.url(0)) }
    guard try crowd.messages == 0 else { throw BenchFailure(description: "messages are left") }
    let outbox = try BesideClear(unsent: 20_000)
    let unsent = try outbox.clear(removesUnsent: true) { try $0.clearAll(withUnsent: true) }
    guard try outbox.unsent == 0 else { throw BenchFailure(description: "unsent rows are left") }
    let quiet = try BesideClear(messages: 100).wait(seconds: 2)
    func figures(_ title: String, _ run: BesideClear.Run) -> [Figure] {
      [
        Figure(
          title: "a write while \(title), p99", unit: "ms", ours: run.p99, peer: quiet.p99,
          peerName: "nothing cleared", goal: nil),
        Figure(
          title: "the same", unit: "ms", ours: run.p99, peer: nil, peerName: "", goal: .atMost(20)),
        Figure(
          title: "the same, the longest", unit: "ms", ours: run.longest, peer: nil, peerName: "", goal: nil),
        Figure(title: "how long it took", unit: "s", ours: run.seconds, peer: nil, peerName: "", goal: nil),
      ]
    }
    return figures("600 000 messages of a channel are cleared", channel)
      + figures("a channel of 5 000 members with 1 000 unread messages each is cleared", crowded)
      + figures("600 000 messages of 300 channels are cleared with everything", rest)
      + figures("a user of 100 000 channels is forgotten", user)
      + figures("100 000 channels without messages are cleared with everything", empty)
      + figures("20 000 unsent messages are cleared with everything", unsent)
  }
}

/// A cache in which much is cleared while another thread writes.
private final class BesideClear {
  typealias Run = FilledCache.Writes

  private let filled: FilledCache

  /// Half of the messages are in the first of 300 channels, the others in all.
  init(messages: Int) throws {
    let made = try FilledCache(channels: 300, disk: true)
    for first in stride(from: 0, to: messages / 2, by: 1000) { try made.store(first, count: 1000, in: 0) }
    let each = messages / 2 / 299
    for channel in 1..<300 { try made.store(0, count: max(1, each), in: channel) }
    filled = try made.reopened()
  }

  /// A user `many` who is in so many channels.
  init(channels: Int) throws {
    let made = try FilledCache(channels: 1, disk: true)
    made.cache.close()
    let connection = try Connection(path: made.directory + "/perch.db")
    try connection.execute("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -64000")
    try connection.execute(ManyChannels.sql(channels, crowded: 1, of: "many"))
    filled = try made.reopened()
    // SQLite did not wait for the disk. The writes that are timed would wait for it instead.
    sync()
  }

  /// A channel with so many members here, none of whom has read its messages.
  init(members: Int, unread: Int) throws {
    let made = try FilledCache(channels: 1, disk: true)
    try made.admit((0..<members).map { UserID("member-\($0)") }, stored: 0)
    try made.store(0, count: unread, in: 0)
    filled = try made.reopened()
  }

  /// So many unsent messages of 20 users.
  init(unsent: Int) throws {
    let made = try FilledCache(channels: 1, disk: true)
    let users = (0..<20).map { UserID("sender-\($0)") }
    try made.admit(users, stored: 0)
    for first in stride(from: 0, to: unsent, by: 1000) {
      try made.cache.blocking.accept { writer in
        for number in first..<first + 1000 {
          let user = users[number % users.count]
          guard let key = try writer.reader.userKey(of: user) else { continue }
          let text = Array(#""message":"text \(number)""#.utf8)
          let request = UnsentRequest(
            requestID: RequestID("r\(number)")!, kind: .message,
            content: OutboxContent(params: [UInt8(ascii: "{")] + text + [UInt8(ascii: "}")], body: text),
            contentHash: text)
          _ = try writer.accept(request, in: OutboxLaneKey(user: key, channel: FilledCache.url(0)))
        }
      }
    }
    filled = try made.reopened()
  }

  var unsent: Int64 { get throws { try filled.cache.read { try $0.unsentRows() } } }

  var messages: Int64 { get throws { try filled.cache.read { try $0.info(of: nil).messages } } }

  /// How many memberships are stored, of whatever user.
  var memberships: Int64 {
    get throws {
      try Connection(path: filled.directory + "/perch.db").read { db in
        try db.first("SELECT count(*) FROM membership") { $0.int64(0) } ?? 0
      }
    }
  }

  func clear(
    removesUnsent: Bool = false, _ body: @escaping @Sendable (CacheWriter) throws -> Void
  ) throws -> Run {
    try filled.clear(removesUnsent: removesUnsent, body)
  }

  func wait(seconds: Double) throws -> Run { try filled.writes(seconds: seconds) }
}

extension FilledCache {
  /// How long small writes took, ms, and how long all took.
  struct Writes { var p99: Double, longest: Double, seconds: Double }

  /// Clears with `body`, and writes until all is deleted. `removesUnsent`: removes unsent rows first.
  func clear(
    removesUnsent: Bool = false, _ body: @escaping @Sendable (CacheWriter) throws -> Void
  ) throws -> Writes {
    let cache = cache
    let failure = Guarded<(any Error)?>(nil)
    let isOver = Guarded(false)
    let end = { @Sendable in isOver.withLock { $0 = true } }
    let cleared = { @Sendable (result: Result<Void, any Error>) in
      if case .failure(let error) = result { failure.withLock { $0 = error } }
      if cache.areClearedRowsDeleted(else: end) { end() }
    }
    if removesUnsent {
      cache.accept(afterRemovingUnsent: { writer, _ in try body(writer) }, finish: cleared)
    } else {
      cache.accept(body, finish: cleared)
    }
    let run = try writes(while: { !isOver.withLock { $0 } })
    if let error = failure.withLock({ $0 }) { throw error }
    return run
  }

  /// A small write every 2 ms, for so long.
  func writes(seconds: Double) throws -> Writes {
    let end = Clock.system.monotonicNanoseconds() + UInt64(seconds * 1e9)
    return try writes(while: { Clock.system.monotonicNanoseconds() < end })
  }

  /// A small write every 2 ms.
  func writes(while goesOn: () -> Bool) throws -> Writes {
    let began = Clock.system.monotonicNanoseconds()
    var times: [Double] = []
    repeat {
      let start = Clock.system.monotonicNanoseconds()
      let isFirst = times.count % 2 == 0
      try cache.blocking.accept {
        isFirst ? try $0.acknowledge(UserID("writer")) : try $0.stop(UserID("writer"))
      }
      times.append(Double(Clock.system.monotonicNanoseconds() - start) / 1e6)
      Thread.rest(nanoseconds: 2_000_000)
    } while goesOn()
    times.sort()
    return Writes(
      p99: times[times.count * 99 / 100], longest: times.last ?? 0,
      seconds: Double(Clock.system.monotonicNanoseconds() - began) / 1e9)
  }
}
