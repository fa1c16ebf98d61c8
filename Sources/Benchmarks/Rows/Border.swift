import ChatCache
import ChatModel
import Glibc
import Platform

extension Row {
  /// The costs that decide from how many members on a channel is crowded: storing one message, and reading
  /// the first page of a member's channel list. Both are measured with crowded channels and with others.
  static let border = Row(
    name: "border", work: "one message into a crowded channel, against one that counts it for each member"
  ) { bench in
    try [10, 25, 50, 100, 200, 400].flatMap { members -> [Figure] in
      var (crowded, counted): ([BorderCost], [BorderCost]) = ([], [])
      for _ in 0..<max(3, bench.pairs / 3) {
        crowded.append(try BorderCost(members: members, mostChangedMembers: 0))
        counted.append(try BorderCost(members: members, mostChangedMembers: .max))
      }
      func figure(_ title: String, _ unit: String, _ value: KeyPath<BorderCost, Double>) -> Figure {
        Figure(
          title: "\(members) members, \(title)", unit: unit, ours: crowded.map { $0[keyPath: value] },
          peer: counted.map { $0[keyPath: value] }, peerName: "not crowded", goal: nil)
      }
      return [
        figure("the writer's time", "ms", \.milliseconds), figure("write-ahead log", "KB", \.kilobytes),
        figure("first page of the list", "µs", \.page),
      ]
    }
  }
}

/// The costs of channels with so many members here: medians of forty messages, one commit each, and the mean
/// time of a page of 20 channels. The member has read nothing: 140 messages are unread in the first channel,
/// ten in each other one.
private struct BorderCost {
  let milliseconds: Double
  let kilobytes: Double
  /// The time of a page, µs.
  let page: Double

  private static let channels = 20
  private static let pages = 200

  init(members: Int, mostChangedMembers: Int) throws {
    let made = try FilledCache(channels: Self.channels, mostChangedMembers: mostChangedMembers)
    // The user whom every such cache has is a member, too.
    let users = (1..<members).map { UserID("member-\($0)") }
    try made.admit(users, to: Self.channels, stored: 0)
    try made.store(0, count: 100, in: 0)
    for channel in 1..<Self.channels { try made.store(0, count: 10, in: channel) }
    // The write-ahead log begins anew, so that its file grows with each commit.
    let filled = try made.reopened()
    (milliseconds, kilobytes) = try filled.messageCost(from: 100)
    let began = Clock.system.monotonicNanoseconds()
    for _ in 0..<Self.pages { try Self.readPage(filled.cache, users[0]) }
    page = Double(Clock.system.monotonicNanoseconds() - began) / 1000 / Double(Self.pages)
  }

  private static func readPage(_ cache: Cache, _ user: UserID) throws {
    let count = try cache.read { reader in
      guard let user = try reader.cachedUser(user) else {
        throw BenchFailure(description: "\(user) is not there")
      }
      return try reader.page(ChannelQuery(), of: user).count
    }
    guard count == channels else { throw BenchFailure(description: "a page of \(count) channels") }
  }
}
