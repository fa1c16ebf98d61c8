import ChatCache
import ChatModel
import Platform
import SQLite

extension Row {
  /// The first page of the channel list and the unread totals of a user with 100 000 channels, 1 000 of them
  /// crowded, against those of a user with 100.
  static let manyChannels = Row(
    name: "channels", work: "a user with 100 000 channels, 1 000 of them crowded, against one with 100"
  ) { bench in
    let lists = try CrowdedLists()
    var times: [String: [Double]] = [:]
    for _ in 0..<bench.pairs {
      for user in ["many", "few"] {
        times["page " + user, default: []].append(try lists.microseconds(of: user, lists.readPage))
        times["unread " + user, default: []].append(try lists.microseconds(of: user, lists.readTotals))
        times["news " + user, default: []].append(try lists.microsecondsAfterMessages(of: user))
      }
    }
    func figure(_ title: String, _ key: String, _ goal: Figure.Goal) -> Figure {
      Figure(
        title: title, unit: "µs", ours: times[key + " many"] ?? [], peer: times[key + " few"] ?? [],
        peerName: "100 channels", goal: goal)
    }
    return [
      figure("first page of the list", "page", .atMost(1.5)),
      figure("unread totals", "unread", .atMost(2)),
      figure("unread totals after a message in a crowded channel", "news", .atMost(2)),
    ]
  }

  /// How long the writer takes to store one message, and how many bytes it logs: in a channel with 5 000
  /// members who use this service, and in a channel with 50.
  static let crowd = Row(
    name: "crowd", work: "one message into a channel with 5 000 members here, against one with 50"
  ) { bench in
    var (many, few): ([Cost], [Cost]) = ([], [])
    for _ in 0..<max(3, bench.pairs / 3) {
      many.append(try cost(members: 5_000))
      few.append(try cost(members: 50))
    }
    return [
      Figure(
        title: "the writer's time", unit: "ms", ours: many.map(\.milliseconds), peer: few.map(\.milliseconds),
        peerName: "50 members", goal: .atMost(1.5)),
      Figure(
        title: "the writer's time", unit: "ms", ours: many.map(\.milliseconds).median, peer: nil,
        peerName: "", goal: .atMost(2)),
      Figure(
        title: "write-ahead log", unit: "KB", ours: many.map(\.kilobytes), peer: few.map(\.kilobytes),
        peerName: "50 members", goal: .atMost(1.5)),
      Figure(
        title: "write-ahead log", unit: "KB", ours: many.map(\.kilobytes).median, peer: nil, peerName: "",
        goal: .atMost(200)),
    ]
  }

  /// The writer's time for a commit with one message, and the bytes that the commit adds to the write-ahead
  /// log.
  private struct Cost { var milliseconds: Double, kilobytes: Double }

  /// The medians of forty messages, one commit each.
  private static func cost(members: Int) throws -> Cost {
    let made = try FilledCache(channels: 1)
    try made.admit((0..<members).map { UserID("member-\($0)") }, stored: 0)
    try made.store(0, count: 100, in: 0)
    // The write-ahead log begins anew, so that its file grows with each commit.
    let filled = try made.reopened()
    let (milliseconds, kilobytes) = try filled.messageCost(from: 100)
    return Cost(milliseconds: milliseconds, kilobytes: kilobytes)
  }
}

/// A cache with one user of many channels and one of few, written straight into the tables.
private final class CrowdedLists {
  private let filled: FilledCache
  private let cache: Cache
  /// The number of the last new message.
  private var number = 1_000_000

  init() throws {
    filled = try FilledCache(channels: 1, disk: true)
    filled.cache.close()
    let connection = try Connection(path: filled.directory + "/perch.db")
    try connection.execute("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -64000")
    try connection.execute(ManyChannels.sql(100_000, crowded: 1_000, of: "many"))
    try connection.execute(ManyChannels.sql(100, crowded: 1, of: "few"))
    cache = try Cache(Cache.Configuration(directory: filled.directory))
  }

  deinit { cache.close() }

  /// The mean time of a call, of 200.
  func microseconds(of user: String, _ body: (UserID) throws -> Void) throws -> Double {
    let began = Clock.system.monotonicNanoseconds()
    for _ in 0..<200 { try body(UserID(user)) }
    return Double(Clock.system.monotonicNanoseconds() - began) / 200 / 1000
  }

  /// The mean time of the first question for the totals after a new message in a crowded channel, of 40.
  func microsecondsAfterMessages(of user: String) throws -> Double {
    var sum: UInt64 = 0
    for _ in 0..<40 {
      number += 1
      let (message, url) = (FilledCache.message(number), ChannelURL("\(user)-0"))
      try cache.blocking.write { try $0.store(message, in: url, .messageReceived) }
      let began = Clock.system.monotonicNanoseconds()
      try readTotals(UserID(user))
      sum += Clock.system.monotonicNanoseconds() - began
    }
    return Double(sum) / 40 / 1000
  }

  func readPage(_ user: UserID) throws {
    let count = try cache.read { reader in
      guard let user = try reader.cachedUser(user) else {
        throw BenchFailure(description: "\(user) is not there")
      }
      return try reader.page(ChannelQuery(), of: user).count
    }
    guard count == 20 else { throw BenchFailure(description: "a page of \(count) channels") }
  }

  func readTotals(_ user: UserID) throws {
    guard try cache.unread(of: user).channels > 0 else {
      throw BenchFailure(description: "nothing is unread")
    }
  }
}
