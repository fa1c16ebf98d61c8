import ChatModel
import Glibc
import Platform
import TestFolders
import TestSupport

@testable import ChatCache

/// A second cache that gets the writes of the first, and in which no channel ever becomes crowded. Users must
/// see the same in both: the channels that they are in, in the same order and with the same counts.
final class Twin {
  private let directory = TestFolder.make("twin")
  private let clock: Clock
  private(set) var cache: Cache

  init(_ configuration: Cache.Configuration) throws {
    clock = configuration.clock
    cache = try Self.open(directory, configuration)
  }

  private static func open(_ directory: String, _ first: Cache.Configuration) throws -> Cache {
    var configuration = Cache.Configuration(directory: directory, clock: first.clock)
    configuration.mostChangedMembers = .max
    configuration.mostCleared = first.mostCleared
    return try Cache(configuration)
  }

  /// Closes the file and opens it with the settings of the first cache.
  func restart(_ configuration: Cache.Configuration) throws {
    cache.close()
    cache = try Self.open(directory, configuration)
  }

  /// Lets both logs end at the same place, so that an answer was asked for at the same place of both. The
  /// first cache also has the events of its views, and the twin tells all members of a last message that the
  /// first one takes from the list of messages.
  func align(_ first: Cache) throws {
    let missing = first.cursor.sequence - cache.cursor.sequence
    guard missing != 0 else { return }
    try (missing > 0 ? cache : first).write { writer in
      for _ in 0..<abs(missing) { try writer.append(Change(.connection, .channelRefresh)) }
    }
  }

  func end() {
    cache.close()
    for name in ["perch.db", "perch.db-wal", "perch.db-shm", "perch.lock"] { unlink("\(directory)/\(name)") }
    rmdir(directory)
  }

  /// The first difference between what users see in the two caches, or between the channels that a user sees
  /// and those that the user is in; nil: there is none. `channels`: the channels of each user.
  func difference(from first: Cache, _ channels: [UserID: Set<String>]) throws -> String? {
    for (user, urls) in channels.sorted(by: { $0.key.text < $1.key.text }) {
      let (own, other) = (try Self.pages(of: user, in: first), try Self.pages(of: user, in: cache))
      guard own == other else { return "\(user.text) sees\n\(own)\nand without crowded channels\n\(other)" }
      let seen = try Self.urls(of: user, in: first)
      guard Set(seen) == urls, seen.count == urls.count else {
        return "\(user.text) sees \(seen.sorted()) and is in \(urls.sorted())"
      }
    }
    return nil
  }

  private static func all(_ order: ChannelQuery.Order) -> ChannelQuery {
    var query = ChannelQuery()
    (query.order, query.hidden, query.limit) = (order, .all, 100)
    query.includesEmpty = true
    return query
  }

  /// The user's channel list in two orders, page by page, and the user's totals.
  private static func pages(of user: UserID, in cache: Cache) throws -> [String] {
    try cache.read { reader in
      guard let known = try reader.cachedUser(user) else { return [] }
      var pages: [String] = []
      for (order, limit) in [(ChannelQuery.Order.latestLastMessage, 3), (.name, 100)] {
        var (query, after) = (all(order), ChannelListKey?.none)
        query.limit = limit
        repeat {
          let page = try reader.page(query, of: known, after: after)
          // Only one of the caches may know the request that sent a channel's last message.
          let text = String(decoding: page.items.bytes, as: UTF8.self)
          pages.append(text.replacing(/"request_id":"[^"]*"/, with: ""))
          after = page.next
        } while after != nil
      }
      let totals = try reader.unread(of: known.key)
      return pages + ["\(totals)"]
    }
  }

  private static func urls(of user: UserID, in cache: Cache) throws -> [String] {
    try cache.read { reader in
      guard let known = try reader.cachedUser(user) else { return [] }
      var urls: [String] = []
      try reader.eachKey(all(.latestLastMessage), of: known) {
        urls.append($0.channelURL)
        return true
      }
      return urls
    }
  }
}

/// How the channels of a cache come to the border between crowded and other channels, in words such as
/// `3: a member came`. Only borders that some users can cross are noted.
struct Crossings {
  private(set) var met: Set<String> = []
  private var before: [String: (members: Int, isCrowded: Bool)] = [:]

  /// Looks at a channel after a write.
  mutating func look(at url: ChannelURL, in cache: Cache, border: Int) throws {
    guard (1..<Int.max).contains(border) else { return before[url.text] = nil }
    let now = try cache.read { reader -> (members: Int, isCrowded: Bool)? in
      guard let channel = try reader.channelKey(of: url) else { return nil }
      let members = try reader.db.first("SELECT count(*) FROM membership WHERE channel = ?1") {
        $0.bind(1, channel.rawValue)
      } _: {
        $0.int(0)
      }
      return (members ?? 0, try reader.isCrowded(channel))
    }
    guard let now else { return before[url.text] = nil }
    if now.isCrowded {
      if let before = before[url.text], !before.isCrowded {
        met.insert("\(border): \(before.members < now.members ? "a member came" : "a message came")")
      }
      if now.members <= border { met.insert("\(border): crowded and small again") }
    } else if now.members <= border {
      met.insert("\(border): \(now.members < border ? "below" : "at")")
    }
    before[url.text] = now
  }

  /// All that can be met at a border. A channel with no member here is below the border 1.
  static func all(at border: Int) -> Set<String> {
    let ways = ["below", "at", "a member came", "a message came", "crowded and small again"]
    return Set(ways.map { "\(border): \($0)" })
  }
}
