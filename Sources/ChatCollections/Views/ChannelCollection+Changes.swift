import ChatCache
import ChatModel
import JSON
import Platform

// What a channel list's client is told: of each channel in which something happened since its cursor,
// whether the
// list showed it then and shows it now (B9, B10).

extension ChannelCollection {
  /// Changes looked at for one answer.
  private static let changesLookedAt = 1000

  /// The events after `since`, for the client that has that cursor.
  package func changes(
    _ reader: CacheReader, since: Int64, head: Int64, collection: String? = nil
  ) throws -> ViewAnswer {
    guard let user = try reader.cachedUser(userID) else { throw ViewError.notFound }
    let head = max(head, since)
    let log = try reader.changes(for: user.key, after: since, limit: Self.changesLookedAt)
    let end = log.isWhole ? head : min(log.end, head)
    var events = EventWriter()
    var touched: [(url: String, source: ChangeSource)] = []
    for logged in log.changes where logged.sequence <= head {
      let change = logged.change
      guard let key = change.channel, let url = try reader.url(of: key) else { continue }
      if change.kind == .cacheCleared {
        events.add(
          event: EventWriter.event("cache.cleared", nil, collection: collection) { json in
            MessageViewRequest.write("channel_urls", [url.text], into: &json)
          })
      }
      guard Self.concerns(change.kind) else { continue }
      touched.removeAll { $0.url == url.text }
      touched.append((url.text, change.source))
    }
    let shown = state.withLock { $0.known.shown(at: since) }
    let after = try tell(touched, shown, reader, user, &events)
    state.withLock { $0.known.answered(at: end, showing: after) }
    let isEmpty = events.isEmpty
    return ViewAnswer(
      events: events.joined(
        ("channels.deleted", "channels.added", "channels.updated"), objects: "channels",
        references: "channel_urls", collection: collection),
      cursor: end, hasMore: !log.isWhole, isEmpty: isEmpty)
  }

  private static func concerns(_ kind: ChangeKind) -> Bool {
    switch kind {
    case .coverage, .hugeGap, .unverified, .outbox, .cacheCleared, .collectionAnswered, .collectionFailed:
      false
    default: true
    }
  }

  /// Tells of the channels in which something happened; answers what the client then knows.
  private func tell(
    _ touched: [(url: String, source: ChangeSource)], _ shown: [String: Int64]?, _ reader: CacheReader,
    _ user: CachedUser, _ events: inout EventWriter
  ) throws -> [String: Int64] {
    var now: [String: (hash: Int64, object: [UInt8])] = [:]
    let window = window
    var rest = touched.map(\.url).filter { query.channelURLs.isEmpty || query.channelURLs.contains($0) }[...]
    while !rest.isEmpty {
      var some = query
      some.channelURLs = Array(rest.prefix(Self.urlsAtOnce))
      rest = rest.dropFirst(Self.urlsAtOnce)
      try reader.eachListed(some, of: user, limit: Self.urlsAtOnce) { channel in
        guard window.contains(channel.place) else { return }
        now[channel.url] = (ChannelCollection.hash(channel.object.bytes), channel.object.array)
      }
    }
    var after = try shown ?? shownNow(reader, user)
    for (url, source) in touched {
      let then =
        shown.map { $0[url].map { .present(version: $0) } ?? .absent } ?? Verdict.Knowledge.unknown
      let present = now[url]
      after[url] = present?.hash
      switch Verdict(since: then, now: present?.hash) {
      case .nothing: continue
      case .added: events.add(.added, source, present?.object ?? [])
      case .updated: events.add(.updated, source, present?.object ?? [])
      case .deleted:
        var json = JSONWriter()
        json.value(url)
        events.add(.deleted, source, json.finish().array)
      }
    }
    return after
  }

  private static let urlsAtOnce = 200

  private func shownNow(_ reader: CacheReader, _ user: CachedUser) throws -> [String: Int64] {
    var shown: [String: Int64] = [:]
    let window = window
    try reader.eachListed(query, of: user, limit: Limits.windowRows) { channel in
      if window.contains(channel.place) {
        shown[channel.url] = ChannelCollection.hash(channel.object.bytes)
      }
    }
    return shown
  }
}
