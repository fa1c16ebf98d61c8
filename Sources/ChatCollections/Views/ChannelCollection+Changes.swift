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

  /// The events after `since` up to `until`, for the client that has that cursor.
  package func changes(
    _ reader: CacheReader, since: Int64, until: Int64, collection: String? = nil
  ) throws -> ViewAnswer {
    guard let user = try reader.cachedUser(userID) else { throw ViewError.notFound }
    let until = max(until, since)
    let log = try reader.changes(for: user.key, after: since, limit: Self.changesLookedAt)
    var end = log.isWhole ? until : min(log.end, until)
    var events = EventWriter()
    var touched: [Touched] = []
    for logged in log.changes where logged.sequence <= end {
      let change = logged.change
      guard let key = change.channel, let url = try reader.url(of: key) else { continue }
      if change.kind == .cacheCleared {
        events.add(
          event: EventWriter.event("cache.cleared", nil, collection: collection) { json in
            MessageViewRequest.write("channel_urls", [url.text], into: &json)
          })
      }
      guard Self.concerns(change.kind) else { continue }
      touched.append(Touched(url: url.text, source: change.source, sequence: logged.sequence))
    }
    let (window, shown) = state.withLock { ($0.window, $0.known.shown(at: since)) }
    var after = shown
    if let cut = try tell(Self.lastOfEach(touched), &after, window, reader, user, &events) { end = cut }
    if end == until, !after.isWhole {
      after = Known.Shown(all: try shownNow(reader, user, window))
    }
    let (known, isEmpty) = (after, events.isEmpty)
    return ViewAnswer(
      events: events.joined(
        ("channels.deleted", "channels.added", "channels.updated"), objects: "channels",
        references: "channel_urls", collection: collection),
      cursor: end, hasMore: end < until, isEmpty: isEmpty
    ) { [self] cursor in
      state.withLock { $0.known.answered(at: cursor, known) }
    }
  }

  /// A channel in which something happened.
  private struct Touched {
    let url: String
    let source: ChangeSource
    let sequence: Int64
  }

  /// Each channel once, with its last change, in the order of these.
  private static func lastOfEach(_ touched: [Touched]) -> [Touched] {
    var seen: Set<String> = []
    return touched.reversed().filter { seen.insert($0.url).inserted }.reversed()
  }

  private static func concerns(_ kind: ChangeKind) -> Bool {
    switch kind {
    case .coverage, .hugeGap, .unverified, .outbox, .cacheCleared, .collectionAnswered, .collectionFailed:
      false
    default: true
    }
  }

  /// Tells of the channels in which something happened. Where not all of it fits: the place in the log up to
  /// which it does.
  private func tell(
    _ touched: [Touched], _ after: inout Known<String>.Shown, _ window: ChannelWindow,
    _ reader: CacheReader, _ user: CachedUser, _ events: inout EventWriter
  ) throws -> Int64? {
    let shown = after
    let now = try present(touched.map(\.url), window, reader, user)
    for (index, channel) in touched.enumerated() {
      let present = now[channel.url]
      after.versions[channel.url] = present?.hash
      switch Verdict(since: shown.knowledge(of: channel.url), now: present?.hash) {
      case .nothing: continue
      case .added: events.add(.added, channel.source, present?.object ?? [])
      case .updated: events.add(.updated, channel.source, present?.object ?? [])
      case .deleted:
        var json = JSONWriter()
        json.value(channel.url)
        events.add(.deleted, channel.source, json.finish().array)
      }
      if events.isFull, index + 1 < touched.count { return channel.sequence }
    }
    return nil
  }

  private static let urlsAtOnce = 200

  /// Those of the channels that the list shows now.
  private func present(
    _ urls: [String], _ window: ChannelWindow, _ reader: CacheReader, _ user: CachedUser
  ) throws -> [String: (hash: Int64, object: [UInt8])] {
    var now: [String: (hash: Int64, object: [UInt8])] = [:]
    let asked = Set(query.channelURLs)
    var rest = urls.filter { asked.isEmpty || asked.contains($0) }[...]
    while !rest.isEmpty {
      var some = query
      some.channelURLs = Array(rest.prefix(Self.urlsAtOnce))
      rest = rest.dropFirst(Self.urlsAtOnce)
      try reader.eachListed(some, of: user, limit: Self.urlsAtOnce) { channel in
        guard window.contains(channel.place) else { return }
        now[channel.url] = (ChannelCollection.hash(channel.object.bytes), channel.object.array)
      }
    }
    return now
  }

  private func shownNow(
    _ reader: CacheReader, _ user: CachedUser, _ window: ChannelWindow
  ) throws -> [String: Int64] {
    var shown: [String: Int64] = [:]
    try reader.eachListed(query, of: user, limit: Limits.windowRows) { channel in
      if window.contains(channel.place) {
        shown[channel.url] = ChannelCollection.hash(channel.object.bytes)
      }
    }
    return shown
  }
}
