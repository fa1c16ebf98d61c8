import ChatCache
import ChatModel
import JSON
import Platform

// What a message collection's client is told: the net difference between the view at its cursor and now (B18,
// B49).
//
// The log names what changed since the cursor; each row is told with its last change, since only that event's
// number is the row's version. What the client knew decides how it is told.

extension MessageCollection {
  /// Changes looked at for one answer.
  private static let changesLookedAt = 1000
  /// The first answer of the upstream, if it came after `since` (B16): the event that says so, with
  /// the window
  /// as it is now.
  package func firstAnswer(_ reader: CacheReader, since: Int64, _ sight: Sight) throws -> [UInt8]? {
    let view = try view(reader)
    let log = try reader.changes(in: channel, after: since, limit: Self.changesLookedAt)
    let answer = log.last {
      $0.change.collection == id && $0.sequence <= sight.head
        && ($0.change.kind == .collectionAnswered || $0.change.kind == .collectionFailed)
    }
    guard let change = answer?.change else { return nil }
    guard change.kind == .collectionAnswered else {
      return EventWriter.event("api_failed", change.source, collection: nil) { json in
        (change.detail ?? []).withUnsafeBytes { json.splice(fields: $0) }
      }
    }
    try takeFirstPage(reader, view, sight)
    return try replaced(
      reader, view, try reader.coverage(of: channel), sight, .apiResult, collection: nil
    ).event
  }

  /// How long a lost channel is still told of (B69).
  private static let lossMilliseconds: Int64 = 600_000

  /// The events after `since`, for the client that has that cursor. `collection`: the name events carry where
  /// several views are followed at once.
  package func changes(
    _ reader: CacheReader, since: Int64, _ sight: Sight, collection: String? = nil
  ) throws -> ViewAnswer {
    guard let view = try reader.view(of: url, for: user), view.isJoined else {
      return try lost(reader, since, sight, collection)
    }
    let head = max(sight.head, since)
    let log = try reader.changes(in: channel, after: since, limit: Self.changesLookedAt)
    let isCut = log.count == Self.changesLookedAt
    var telling = Telling(
      reader: reader, view: view, coverage: try reader.coverage(of: channel), sight: sight, since: since,
      shown: state.withLock { $0.known.shown(at: since) }, collection: collection)
    var end = isCut ? min(log[log.count - 1].sequence, head) : head
    var hasMore = isCut
    for logged in log where logged.sequence <= head && concerns(logged.change) {
      try tell(logged, &telling)
      if telling.events.isFull, telling.replaced == nil, logged.sequence < end {
        end = logged.sequence
        hasMore = true
        break
      }
    }
    try finish(&telling)
    let now = try telling.after ?? shownNow(reader, view, telling.coverage, head)
    let arrived = telling.arrived
    let cursor = end
    state.withLock { state in
      if let arrived { state.range.arrive(at: arrived) }
      state.known.answered(at: cursor, showing: now)
    }
    let isEmpty = telling.events.isEmpty
    return ViewAnswer(
      events: telling.events.joined(
        ("messages.deleted", "messages.added", "messages.updated"), objects: "messages",
        references: "message_refs", collection: collection),
      cursor: cursor, hasMore: hasMore, isEmpty: isEmpty)
  }

  /// An answer under way.
  private struct Telling: ~Copyable {
    let reader: CacheReader
    let view: ChannelView
    let coverage: Coverage
    let sight: Sight
    let since: Int64
    /// What the client knew, if that is remembered.
    let shown: [Int64: Int64]?
    let collection: String?
    var events = EventWriter()
    /// What the client will know; nil where what it knew is not remembered.
    var after: [Int64: Int64]?
    var told: Set<Int64> = []
    var channelSource: ChangeSource?
    var newest: Position?
    var replaced: ChangeSource?
    var arrived: Position?

    init(
      reader: CacheReader, view: ChannelView, coverage: Coverage, sight: Sight, since: Int64,
      shown: [Int64: Int64]?, collection: String?
    ) {
      self.reader = reader
      self.view = view
      self.coverage = coverage
      self.sight = sight
      self.since = since
      self.shown = shown
      self.collection = collection
      after = shown
    }
  }

  private func concerns(_ change: Change) -> Bool {
    (change.user.map { $0 == user } ?? true) && (change.collection.map { $0 == id } ?? true)
  }

  private func tell(_ logged: LoggedChange, _ telling: inout Telling) throws {
    let change = logged.change
    switch change.kind {
    case .messages:
      guard let stretch = change.stretch else { return }
      try consider(stretch, version: logged.sequence, change.source, &telling)
    case .messageDeleted: deleted(change, &telling)
    case .coverage, .hugeGap: try coverageChanged(change, &telling)
    case .channel, .membership: telling.channelSource = change.source
    case .membershipGained, .floor: telling.replaced = telling.replaced ?? .channelRefresh
    case .collectionAnswered: telling.replaced = .apiResult
    case .collectionFailed:
      let detail = change.detail ?? []
      telling.events.add(
        event: EventWriter.event("api_failed", change.source, collection: telling.collection) { json in
          detail.withUnsafeBytes { json.splice(fields: $0) }
        })
    case .outbox: try unsentChanged(change, &telling)
    case .channelDeleted, .membershipLost, .connection, .syncProgress, .cacheCleared, .unverified: break
    }
  }

  /// Rows that an event names, or that a change of coverage may have uncovered.
  private func consider(
    _ stretch: ClosedRange<Position>, version: Int64?, _ source: ChangeSource, _ telling: inout Telling
  ) throws {
    let range = self.range
    let (reader, view, coverage) = (telling.reader, telling.view, telling.coverage)
    var found: [(position: Position, version: Int64, isIn: Bool, object: [UInt8])] = []
    try reader.eachRow(of: stretch, version: version, filter: request.filter, in: view) { row in
      let isIn = row.isShown && contains(row.position, in: range, coverage, view)
      let isHint = row.isShown && !isIn && range.hasNext && coverage.shows(row.position, floor: view.floorAt)
      if isHint, row.position > range.loaded?.upperBound ?? .end {
        telling.newest = max(telling.newest ?? row.position, row.position)
      }
      found.append((row.position, row.version, isIn, isIn ? row.object.array : []))
      return true
    }
    for row in found where !telling.told.contains(row.position.messageID) {
      let id = row.position.messageID
      let then =
        telling.shown.map { $0[id].map { .present(version: $0) } ?? .absent } ?? Verdict.Knowledge.unknown
      // What nobody remembers and lies outside cannot have been in the view.
      if then == .unknown, !row.isIn, !range.contains(row.position) { continue }
      // A gap's end tells of what became visible, not of what is not.
      if version == nil, !row.isIn { continue }
      let verdict = Verdict(since: then, now: row.isIn ? row.version : nil)
      switch verdict {
      case .nothing: continue
      case .added: telling.events.add(.added, source, status: "succeeded", row.object)
      case .updated: telling.events.add(.updated, source, status: "succeeded", row.object)
      case .deleted:
        telling.events.add(.deleted, source, status: "succeeded", Self.reference(String(id), nil))
      }
      telling.told.insert(id)
      telling.after?[id] = row.isIn ? row.version : nil
      if row.isIn { telling.arrived = max(telling.arrived ?? row.position, row.position) }
    }
  }

  private func deleted(_ change: Change, _ telling: inout Telling) {
    guard let name = change.reference, let id = Int64(name), let place = change.stretch?.lowerBound else {
      return
    }
    if let shown = telling.shown {
      guard shown[id] != nil else { return }
    } else if !range.contains(place) {
      return
    }
    telling.events.add(.deleted, change.source, status: "succeeded", Self.reference(name, change.detail))
    telling.told.insert(id)
    telling.after?[id] = nil
  }

  private static func reference(_ message: String, _ detail: [UInt8]?) -> [UInt8] {
    var json = JSONWriter()
    json.beginObject()
    json.field("message_id", message)
    (detail ?? []).withUnsafeBytes { json.splice(fields: $0) }
    json.endObject()
    return json.finish().array
  }

  private func coverageChanged(_ change: Change, _ telling: inout Telling) throws {
    guard let stretch = change.stretch, let name = change.reference, let loaded = range.loaded,
      let reach = range.reach
    else { return }
    let gap = Int64(name).flatMap { telling.coverage.gap($0) }
    if change.kind == .hugeGap, let gap, gap.range.upperBound > loaded.upperBound {
      state.withLock { $0.range.letGo(newerThan: max(loaded.lowerBound, gap.range.lowerBound.previous)) }
    } else if stretch.overlaps(reach) {
      try consider(stretch.clamped(to: reach), version: nil, change.source, &telling)
    }
    let isBeside =
      stretch.upperBound.next >= loaded.lowerBound && stretch.lowerBound.previous <= loaded.upperBound
    guard isBeside || stretch.overlaps(reach) else { return }
    let hasNext = range.hasNext
    telling.events.add(
      event: EventWriter.event(
        change.kind == .hugeGap ? "huge_gap.detected" : "gap.changed", nil, collection: telling.collection
      ) { json in
        json.name("gap")
        if let gap {
          GapObject.write(gap, into: &json)
        } else {
          GapObject.write(gone: name, from: stretch, into: &json)
        }
        if change.kind == .hugeGap { json.field("has_next", hasNext) }
      })
  }

  private func unsentChanged(_ change: Change, _ telling: inout Telling) throws {
    guard let name = change.reference else { return }
    let unsent = try telling.reader.unsentMessages(OutboxPlace(user: user, channel: url))
    if let message = unsent.first(where: { $0.requestID == name }) {
      let kind: EventWriter.Kind = change.source == .localPendingCreated ? .added : .updated
      telling.events.add(kind, change.source, status: message.status.rawValue, message.object)
    } else if change.detail == nil {
      var json = JSONWriter()
      json.beginObject()
      json.field("request_id", name)
      json.endObject()
      telling.events.add(.deleted, change.source, status: "canceled", json.finish().array)
    }
  }

  /// What the whole answer says beside its entries.
  private func finish(_ telling: inout Telling) throws {
    if let source = telling.replaced {
      if source == .apiResult { try takeFirstPage(telling.reader, telling.view, telling.sight) }
      let all = try replaced(
        telling.reader, telling.view, telling.coverage, telling.sight, source, collection: telling.collection)
      telling.events.forgetEntries()
      telling.events.add(event: all.event)
      telling.after = all.versions
    }
    guard telling.channelSource != nil || telling.newest != nil,
      let object = try telling.reader.channel(telling.view)
    else { return }
    let newest = telling.newest
    telling.events.add(
      event: EventWriter.event(
        "channel.updated", telling.channelSource ?? .messageReceived, collection: telling.collection
      ) { json in
        json.name("channels")
        json.beginArray()
        json.splice(object.bytes)
        json.endArray()
        guard let newest else { return }
        json.name("newest")
        json.beginObject()
        json.field("message_id", String(newest.messageID))
        json.field("position", newest.description)
        json.endObject()
      })
  }

  private func shownNow(
    _ reader: CacheReader, _ view: ChannelView, _ coverage: Coverage, _ head: Int64
  ) throws -> [Int64: Int64] {
    // What is newer than the answer was not told with it.
    try rows(reader, view, coverage).versions.filter { $0.value <= head }
  }

  /// The channel is the user's no more: exactly one event, for some time (B69).
  private func lost(
    _ reader: CacheReader, _ since: Int64, _ sight: Sight, _ collection: String?
  ) throws -> ViewAnswer {
    guard let loss = try reader.loss(of: channel, for: user), since < loss.sequence,
      sight.now - loss.at < Self.lossMilliseconds
    else { throw ViewError.channelNotFound }
    var json = JSONWriter()
    let event = EventWriter.event("channel.deleted", loss.change.source, collection: collection) { json in
      MessageViewRequest.write("channel_urls", [url.text], into: &json)
    }
    event.withUnsafeBytes { json.splice($0) }
    return ViewAnswer(events: json.finish(), cursor: loss.sequence, hasMore: false, isEmpty: false)
  }
}
