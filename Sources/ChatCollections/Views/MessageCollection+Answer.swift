import ChatCache
import ChatModel
import JSON
import Platform

// The answers of a message collection: to its opening, to load calls, and the whole window again.

extension MessageCollection {
  /// The whole view as its opening answers it (B16). Notes what the client then knows.
  package func snapshot(
    _ reader: CacheReader, _ viewContext: ViewContext, at cursor: EventCursor, apiResult: [UInt8]? = nil
  ) throws -> ByteBuffer {
    let view = try view(reader)
    let cursor = cursor.notAfter(view.heldAt)
    let coverage = try coverage(reader)
    let range = range
    let rows = try rows(reader, view, coverage, range)
    var json = JSONWriter(capacity: 16_384)
    json.beginObject()
    json.field("id", id)
    if let object = try reader.channel(view) {
      json.name("channel")
      json.splice(object.bytes)
    }
    json.field("starting_point", request.start ?? "latest")
    json.name("params")
    request.json.withUnsafeBytes { json.splice($0) }
    let items = rows.joined(isReversed: request.isReversed)
    json.name("messages")
    json.beginArray()
    json.splice(fields: items.bytes)
    json.endArray()
    try writeUnsent(reader, into: &json)
    json.name("counts")
    json.beginObject()
    json.field("messages", rows.count)
    let unsent = try reader.unsentMessageCounts(OutboxLaneKey(user: user, channel: url))
    json.field("pending", unsent.pending)
    json.field("failed", unsent.failed)
    json.endObject()
    writeEdges(coverage, view, range, viewContext, into: &json)
    json.field("cursor", cursor)
    if let apiResult {
      json.name("api_result")
      apiResult.withUnsafeBytes { json.splice($0) }
    }
    json.endObject()
    let shown = ClientKnowledge.Shown(all: rows.versions)
    state.withLock { $0.answered(at: cursor.sequence, shown, bound) }
    return json.finish()
  }

  /// Writes the user's newest unsent messages that the view's filter shows, in the lists `pending` and
  /// `failed`.
  private func writeUnsent(_ reader: CacheReader, into json: inout JSONWriter) throws {
    let unsent = try reader.unsentMessages(
      OutboxLaneKey(user: user, channel: url), filter: request.filter, sender: userID)
    for (name, isFailed) in [("pending" as StaticString, false), ("failed", true)] {
      json.name(name)
      json.beginArray()
      for message in unsent where (message.status == .pending) != isFailed {
        message.object.withUnsafeBytes { json.splice($0) }
      }
      json.endArray()
    }
  }

  /// An end of the view.
  enum End { case older, newer }

  /// Writes for both ends whether there are more messages, and the token for loading them. `cutOff`: the end
  /// beyond which nothing can be loaded now.
  func writeEnds(_ range: LoadedRange, cutOff: End? = nil, into json: inout JSONWriter) {
    json.name("previous")
    if range.hasPrevious, cutOff != .older, let position = range.loaded?.lowerBound {
      json.value(edge(position))
    } else {
      json.null()
    }
    json.name("next")
    if range.hasNext, cutOff != .newer, let position = range.loaded?.upperBound {
      json.value(edge(position))
    } else {
      json.null()
    }
    json.field("has_previous", range.hasPrevious)
    json.field("has_next", range.hasNext)
  }

  /// Writes both ends, the gaps and the tail, and whether the cache has all messages of the view.
  func writeEdges(
    _ coverage: Coverage, _ view: ChannelView, _ range: LoadedRange, _ viewContext: ViewContext,
    cutOff: End? = nil, into json: inout JSONWriter
  ) {
    let gaps = gaps(coverage, view, range)
    writeEnds(range, cutOff: cutOff, into: &json)
    GapObject.write(all: gaps, into: &json)
    var tail = viewContext.link.judge(coverage.tail, now: viewContext.now, interval: viewContext.interval)
    if view.heldAt != nil, tail == .live { tail = .stale }
    if !range.hasNext {
      json.name("tail")
      TailObject.write(coverage.tail, tail, into: &json)
    }
    let isVerified = range.loaded.map { !coverage.isUnverified(in: $0) } ?? true
    // A window without loaded messages lacks all messages, whatever the cache has (B58).
    json.field("complete", range.isBegun && gaps.isEmpty && isVerified && (range.hasNext || tail == .live))
  }

  /// The gaps inside the view or next to it. A gap that appears beyond an open end of the view is inside.
  func gaps(_ coverage: Coverage, _ view: ChannelView, _ range: LoadedRange) -> [Segment] {
    guard let loaded = range.loaded else { return [] }
    let span = range.reach ?? loaded
    let floor = Position.first(at: view.floorAt)
    return coverage.gaps.filter {
      $0.range.upperBound >= floor && $0.range.upperBound.next >= span.lowerBound
        && $0.range.lowerBound.previous <= span.upperBound
    }
  }

  /// Writes the event that replaces the client's whole window (B16, B23).
  func replaced(
    _ reader: CacheReader, _ view: ChannelView, _ coverage: Coverage, _ range: LoadedRange,
    _ viewContext: ViewContext,
    _ source: ChangeSource, collection: String?
  ) throws -> (event: [UInt8], versions: [Int64: Int64]) {
    let rows = try rows(reader, view, coverage, range)
    let items = rows.joined(isReversed: request.isReversed)
    let event = EventWriter.event("messages.replaced", source, collection: collection) { json in
      json.name("messages")
      json.beginArray()
      json.splice(fields: items.bytes)
      json.endArray()
      writeEdges(coverage, view, range, viewContext, into: &json)
    }
    return (event, rows.versions)
  }

  /// Writes the event that says that the client has the whole window (B16).
  func confirmed(
    _ view: ChannelView, _ coverage: Coverage, _ range: LoadedRange, _ viewContext: ViewContext,
    _ source: ChangeSource, collection: String?
  ) -> [UInt8] {
    EventWriter.event("api_result", source, collection: collection) { json in
      writeEdges(coverage, view, range, viewContext, into: &json)
    }
  }

  /// The page that a load call loads: the rows next to `position`, on its older or newer side.
  package func pageQuery(beyond position: Position, isOlder: Bool, limit: Int?) -> MessagePageQuery {
    MessagePageQuery(
      isOlder ? .before(position, isInclusive: false) : .after(position, isInclusive: false),
      limit: limit ?? Limits.messagePageDefaultRows, isReversed: request.isReversed, filter: request.filter)
  }

  /// The page of a load call, as the cache has it now.
  package func page(
    _ query: MessagePageQuery, _ reader: CacheReader, _ viewContext: ViewContext
  ) throws -> MessagePage { try page(query, reader, try view(reader), viewContext) }

  /// The page before or after an edge. The client then knows its rows (B17). `isCutOff`: nothing can be
  /// loaded beyond the page now. `isTrimmed`: the window's other side was cut for the page.
  package func more(
    _ page: borrowing MessagePage, isOlder: Bool, isCutOff: Bool, isTrimmed: Bool = false,
    _ reader: CacheReader, _ viewContext: ViewContext
  ) throws -> ByteBuffer {
    let view = try view(reader)
    let coverage = page.ground.coverage
    var versions: [Int64: Int64] = [:]
    if let span = page.span {
      try reader.eachRow(of: span, filter: request.filter, in: view) { row in
        if row.isShown { versions[row.position.messageID] = row.version }
        return true
      }
    }
    let (older, newer) = (page.hasPrevious, !page.isAtNewestEnd)
    let (rows, covered) = (page.span, page.covered(isOlder: isOlder))
    state.withLock { state in
      // All that is covered beyond the rows belongs to the page, so that the view meets the gap.
      var span = rows
      if let covered, let loaded = state.range.loaded,
        isOlder ? covered < loaded.lowerBound : covered > loaded.upperBound
      {
        span = min(rows?.lowerBound ?? covered, covered)...max(rows?.upperBound ?? covered, covered)
      }
      if isOlder {
        state.range.take(span, hasPrevious: older, hasNext: nil)
      } else {
        state.range.take(span, hasPrevious: nil, hasNext: newer)
      }
      state.isGrowingOlder = isOlder
      state.known.loaded(versions)
      // If nothing is remembered of the client, the size of its window is unknown.
      if state.known.count == 0 || state.known.count > bound.rows { state.isBounded = false }
    }
    var json = JSONWriter(capacity: page.items.count + 512)
    json.beginObject()
    json.name("items")
    json.beginArray()
    json.splice(fields: page.items.bytes)
    json.endArray()
    let cutOff = isCutOff ? (isOlder ? End.older : .newer) : nil
    writeEdges(coverage, view, self.range, viewContext, cutOff: cutOff, into: &json)
    if isTrimmed { json.field("trimmed", isOlder ? "next" : "previous") }
    json.endObject()
    return json.finish()
  }
}

extension MessagePage {
  /// The last covered position before the gap that the page ends at.
  fileprivate func covered(isOlder: Bool) -> Position? {
    let end = isOlder ? olderGap?.range.upperBound : newerGap?.range.lowerBound
    guard let end, end > .start, end < .end else { return nil }
    return isOlder ? end.next : end.previous
  }
}
