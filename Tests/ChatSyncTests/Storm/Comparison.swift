import ChatModel
import Platform

@testable import ChatCache
@testable import ChatSync

/// Compares a cache with the upstream: the channels of each user, and the newest 100 messages of each.
final class Comparison {
  private let truth: SendbirdUpstream
  private let client: HTTPClient
  private let listsReplies: Bool
  private let users: [UserID]
  /// Messages found equal in the last comparison.
  private(set) var messages = 0

  static let newest = 100

  init(_ there: OriginSide, listsReplies: Bool, users: [UserID] = [UserID("alice")]) throws {
    self.users = users
    client = HTTPClient()
    truth = SendbirdUpstream(
      SendbirdUpstream.Configuration(base: there.url, token: "origin"), client: client)
    self.listsReplies = listsReplies
  }

  func close() { client.close() }

  /// The first difference; nil: there is none.
  func difference(_ here: PerchSide) async throws -> String? {
    messages = 0
    var compared: Set<ChannelURL> = []
    for user in users {
      if let difference = try await difference(here, user, &compared) { return "\(user.text): \(difference)" }
    }
    return nil
  }

  /// The messages of channels in `compared` are not compared again.
  private func difference(
    _ here: PerchSide, _ user: UserID, _ compared: inout Set<ChannelURL>
  ) async throws -> String? {
    let listed = try await truth.channels(of: user, order: .lastMessage, limit: 100, after: nil, .foreground)
    let records = listed.items.sorted { $0.url.text < $1.url.text }
    let cached = try here.memberships(of: user.text)
    guard records.map(\.url.text) == cached.map(\.url) else {
      return "channels \(cached.map(\.url)) are not \(records.map(\.url.text))"
    }
    for (record, channel) in zip(records, cached) {
      // The stand-in hides, and does not count, messages sent in the very millisecond of a reset.
      let isReset = channel.floor > 0
      let expected = PerchSide.Membership(
        url: record.url.text, name: record.name ?? "", floor: record.membership?.floorAt ?? 0,
        isFrozen: record.isFrozen ?? false, members: record.joinedMemberCount ?? 0,
        lastMessage: channel.lastMessage,
        unread: isReset ? channel.unread : record.membership?.unread ?? 0,
        mentions: isReset ? channel.mentions : record.membership?.mentions ?? 0)
      guard expected == channel else { return "\(channel) is not \(expected)" }
      if compared.insert(record.url).inserted, let difference = try await messages(here, record.url) {
        return difference
      }
      let isOpen = await here.worker.plan.channels.watched.contains(record.url)
      if let difference = try entry(here, record, user, isOpen: isOpen) { return difference }
    }
    return try order(here, listed.items, user)
  }

  /// Checks the channel as the user gets it: as many messages are cached as are prefetched, and the newest
  /// page is complete if a view keeps the channel's end live.
  private func entry(
    _ here: PerchSide, _ record: ChannelRecord, _ user: UserID, isOpen: Bool
  ) throws -> String? {
    let link = here.syncRequests.link
    // Polls every 100 ms are late on a busy machine.
    let interval = max(here.syncRequests.pollInterval(of: record.url), 2_000)
    return try here.cache.read { reader in
      guard let user = try reader.cachedUser(user),
        let view = try reader.view(of: record.url, for: user.key)
      else { return "\(record.url) cannot be seen" }
      guard try reader.line(of: record.url)?.isPrefetched(here.paceInUse.prefetchMessages) == true else {
        return "\(record.url) is not prefetched"
      }
      guard isOpen else { return nil }
      let query = MessagePageQuery()
      let ground = try reader.ground(
        query.anchor, in: view, link: link, interval: interval, now: here.clock.wallMilliseconds())
      let page = try reader.page(query, in: view, on: ground)
      return page.isComplete ? nil : "\(record.url)'s newest page is not complete"
    }
  }

  /// Checks the list's order by last message. Channels with the same time may come in any order. A channel
  /// whose last message came in the very millisecond of a reset is left out, because the stand-in hides that
  /// message.
  private func order(_ here: PerchSide, _ listed: [ChannelRecord], _ user: UserID) throws -> String? {
    func time(_ record: ChannelRecord) -> Int64 {
      let floor = record.membership?.floorAt ?? 0
      guard case .message(let last) = record.lastMessage, last.createdAt >= floor else {
        return (record.createdAt ?? 0) - 1 << 52
      }
      return last.createdAt
    }
    let times = Dictionary(uniqueKeysWithValues: listed.map { ($0.url.text, time($0)) })
    let cached = try here.cache.read { reader in
      var (keys, floors): ([ChannelListKey], [String: Int64]) = ([], [:])
      guard let user = try reader.cachedUser(user) else { return [] as [String] }
      var all = ChannelQuery()
      all.hidden = .all
      try reader.eachKey(all, of: user) {
        keys.append($0)
        return true
      }
      for key in keys {
        floors[key.channelURL] = try reader.view(of: ChannelURL(key.channelURL), for: user.key)?.floorAt
      }
      return keys.filter { $0.time != floors[$0.channelURL] }.map(\.channelURL)
    }
    if let foreign = cached.first(where: { times[$0] == nil }) { return "\(foreign) is in the list" }
    let moments = cached.map { times[$0] ?? 0 }
    return moments == moments.sorted(by: >) ? nil : "the list's order is \(cached): \(moments)"
  }

  private func messages(_ here: PerchSide, _ url: ChannelURL) async throws -> String? {
    let truth = try await all(url)
    guard let (rows, coverage) = try here.channel(url.text, from: .start) else { return "\(url) is unknown" }
    // The newest page is cut inside its oldest millisecond, which is not compared.
    let page = truth.suffix(Comparison.newest)
    let low =
      page.count < truth.count ? Position.last(at: page[page.startIndex].position.createdAt).next : .start
    for segment in coverage.segments {
      if segment.gap != nil {
        if segment.range.upperBound >= low { return "\(url) has a gap at \(segment.range)" }
        continue
      }
      if segment.content == .covered(isUnverified: true) { return "\(url) is unverified at \(segment.range)" }
      let difference = difference(
        rows.filter { segment.range.contains($0.position) },
        truth.filter { segment.range.contains($0.position) })
      if let difference { return "\(url): \(difference)" }
    }
    return nil
  }

  private func difference(_ cached: [PerchSide.Row], _ expected: [PerchSide.Row]) -> String? {
    // Without listed replies, coverage says nothing about replies.
    let rows = listsReplies ? cached : cached.filter { $0.parts[3] == "" }
    guard rows.map(\.position) == expected.map(\.position) else {
      let missing = Set(expected.map(\.position.messageID)).subtracting(rows.map(\.position.messageID))
      let surplus = Set(rows.map(\.position.messageID)).subtracting(expected.map(\.position.messageID))
      return "missing \(missing.sorted()), too many \(surplus.sorted())"
    }
    for (row, truth) in zip(rows, expected) where row != truth { return "\(row) is not \(truth)" }
    messages += rows.count
    return nil
  }

  /// Every message that the upstream lists, oldest first.
  private func all(_ url: ChannelURL) async throws -> [PerchSide.Row] {
    var found: [MessageRecord] = []
    var window = MessageWindow(.newest, older: 200, newer: 0)
    while true {
      let page = try await truth.messages(in: url, window, .foreground).items
      found += page
      guard page.count >= 200, let oldest = page.map(\.position).min() else { break }
      window = MessageWindow(.message(oldest), older: 200, newer: 0, includesAnchor: false)
    }
    return found.sorted { $0.position < $1.position }.map { PerchSide.Row($0) }
  }
}
