import ChatCache
import ChatModel
import JSON

/// Makes one answer of a message collection. It takes the changes in the order of the log. It gives the
/// events, the messages that the client knows afterwards, and the new window.
struct MessageDiff: ~Copyable {
  let collection: MessageCollection
  let reader: CacheReader
  let view: ChannelView
  let coverage: Coverage
  let viewContext: ViewContext
  /// What the client knew at its cursor.
  let shown: ClientKnowledge<Int64>.Shown
  /// The view's id, which events carry if several views are followed at once.
  let name: String?
  var events = EventWriter()
  /// What the client knows after this answer.
  var after: ClientKnowledge<Int64>.Shown
  /// The view's window after this answer.
  var range: LoadedRange
  var told: Set<Int64> = []
  /// The changes of the user's unsent rows in the log.
  let unsent: UnsentChanges
  /// The gaps that this answer has told of, each as it is now.
  private var toldGaps: Set<Int64> = []
  /// The gaps that the client knows after this answer's events so far, each as this snapshot has it.
  private var listedGaps: [Segment]
  /// The ids of the requests that this answer has told of.
  var toldRequests: Set<ExactText> = []
  /// What the client knew of each message considered so far.
  private(set) var knew: [Int64: Verdict.Knowledge] = [:]
  /// Whether every change told so far is the same for all views with an equal answer key.
  private var isCommon = true
  private var channelSource: ChangeSource?
  /// The members of the channel who have read on.
  private var members: [ExactText] = []
  private var newest: Position?
  private var replaced: ChangeSource?
  private var isTailChanged = false
  /// The stretches that this answer's changes cut from the window.
  private var cut: [ClosedRange<Position>] = []

  init(
    _ collection: MessageCollection, reader: CacheReader, view: ChannelView, coverage: Coverage,
    viewContext: ViewContext, range: LoadedRange, shown: ClientKnowledge<Int64>.Shown, unsent: UnsentChanges,
    collection name: String?
  ) {
    self.collection = collection
    self.reader = reader
    self.view = view
    self.coverage = coverage
    self.viewContext = viewContext
    self.range = range
    self.shown = shown
    self.name = name
    self.unsent = unsent
    after = shown
    listedGaps = collection.gaps(coverage, view, range)
  }

  /// Whether the window has the first page as the upstream answered it.
  var hasFirstPage: Bool { replaced == .apiResult }

  /// Whether the answer is the same for all views with an equal answer key. A whole window is not: it has the
  /// edge tokens of its own view.
  var isSameForAlike: Bool { isCommon && replaced == nil }

  /// Whether one more change may not fit into an answer of that many bytes. The whole window replaces every
  /// entry, so it always fits.
  func isFull(_ room: Int) -> Bool { events.isFull(room) && replaced == nil }

  /// Whether the answer is larger than `room` bytes.
  func exceeds(_ room: Int) -> Bool { events.bytes > room && replaced == nil }

  /// Tells the changes up to `end`. If fewer fit into `room`, `end` becomes the last one that was told.
  /// False: the last change did not fit; `end` becomes the one before it, and the answer has to be made
  /// again. The first change that tells anything always fits.
  mutating func tell(_ log: [LoggedChange], until end: inout Int64, _ room: Int) throws -> Bool {
    for logged in log where logged.sequence <= end {
      closeEnd(before: logged.change)
      noteCut(logged.change)
    }
    var previous: Int64?
    for logged in log where logged.sequence <= end {
      let isFirst = events.isEmpty
      try tell(logged)
      if exceeds(room), !isFirst, let previous {
        end = previous
        return false
      }
      if isFull(room), logged.sequence < end { end = logged.sequence }
      previous = logged.sequence
    }
    return true
  }

  /// Tells the next change.
  mutating func tell(_ logged: LoggedChange) throws {
    let change = logged.change
    switch change.kind {
    case .messages, .messageDeleted, .coverage, .tailConfirmed: break
    case .channel where change.readingMember != nil: break
    default: isCommon = false
    }
    switch change.kind {
    case .messages:
      guard let stretch = change.stretch else { return }
      if change.detail == Change.uncovers {
        guard let reach = range.reach, stretch.overlaps(reach) else { return }
        return try consider(stretch.clamped(to: reach), version: nil, change.source)
      }
      // A change for one user alone shows messages that were withheld. They keep the version with which they
      // were stored.
      try consider(stretch, version: change.user == nil ? logged.sequence : nil, change.source)
    case .messageDeleted: try deleted(change)
    case .coverage, .hugeGap: try coverageChanged(change)
    case .windowTrimmed: try trimmed(change)
    case .channel, .membership:
      if let member = change.readingMember {
        readsOn(member)
      } else {
        channelSource = change.source
      }
    case .membershipGained, .floor: replaced = replaced ?? .channelRefresh
    case .collectionAnswered: replaced = .apiResult
    case .collectionFailed:
      let detail = change.detail ?? []
      events.add(
        event: EventWriter.event("api_failed", change.source, collection: name) { json in
          detail.withUnsafeBytes { json.splice(fields: $0) }
        })
    case .outbox: try unsentChanged(change)
    case .upload: uploadMoved(change, logged.sequence)
    case .tailConfirmed: isTailChanged = true
    case .channelDeleted, .membershipLost, .connection, .syncProgress, .cacheCleared, .unverified,
      .channelsListed, .missedMessages:
      break
    }
  }

  /// The most members who have read on that one answer tells each. They are told together if there are more:
  /// a client that fell behind would otherwise fall further behind with its next answer.
  private static let mostReaders = 100

  private mutating func readsOn(_ member: ExactText) {
    guard members.count <= MessageDiff.mostReaders, !members.contains(member) else { return }
    members.append(member)
    if hasManyReaders { isCommon = false }
  }

  private var hasManyReaders: Bool { members.count > MessageDiff.mostReaders }

  /// A row that a change may be about.
  struct Candidate {
    let position: Position
    let version: Int64
    let isIn: Bool
    let mayBeShown: Bool
    let object: [UInt8]
  }

  /// Tells the rows of a stretch that an event names, or that a change of coverage may have brought into the
  /// view.
  private mutating func consider(
    _ stretch: ClosedRange<Position>, version: Int64?, _ source: ChangeSource
  ) throws {
    for row in try candidates(stretch, version) where !told.contains(row.position.messageID) {
      let id = row.position.messageID
      let then = shown.knowledge(of: id)
      knew[id] = then
      // A forgotten message outside the window cannot have been in the view, and neither can one that the
      // user may not see, or that the view's filters never show.
      if then == .unknown, !row.isIn, !(row.mayBeShown && mayHaveBeenIn(row.position)) { continue }
      if let answer = unsent.answers[id], tellAnswer(answer, row) { continue }
      switch Verdict(since: then, now: row.isIn ? row.version : nil) {
      case .nothing: continue
      case .added: events.add(.added, source, status: "succeeded", row.object)
      case .updated: events.add(.updated, source, status: "succeeded", row.object)
      case .deleted: events.add(.deleted, source, status: "succeeded", Self.reference(String(id)))
      }
      told.insert(id)
      after[id] = row.isIn ? row.version : nil
      if row.isIn { range.arrive(at: row.position) }
    }
  }

  mutating func candidates(
    _ stretch: ClosedRange<Position>, _ version: Int64?
  ) throws -> [Candidate] {
    var found: [Candidate] = []
    let (collection, coverage, view, range) = (collection, coverage, view, range)
    var hint = newest
    try reader.eachRow(of: stretch, version: version, filter: collection.request.filter, in: view) { row in
      let isIn = row.isShown && collection.contains(row.position, in: range, coverage, view)
      let isHint = row.isShown && !isIn && range.hasNext && coverage.shows(row.position, floor: view.floorAt)
      if isHint, row.position > range.loaded?.upperBound ?? .end {
        hint = max(hint ?? row.position, row.position)
      }
      found.append(
        Candidate(
          position: row.position, version: row.version, isIn: isIn, mayBeShown: row.mayBeShown,
          object: isIn ? row.object.array : []))
      return true
    }
    newest = hint
    return found
  }

  private mutating func deleted(_ change: Change) throws {
    guard let name = change.reference, let id = Int64(name), let position = change.stretch?.lowerBound else {
      return
    }
    // It came back since: the later change of its stretch tells it.
    if try reader.position(of: id, in: view.channel) != nil { return }
    let then = shown.knowledge(of: id)
    knew[id] = then
    if then == .absent || (then == .unknown && !mayHaveBeenIn(position)) { return }
    let request = try reader.request(answeredBy: id, of: collection.user)
    if request != nil { isCommon = false }
    events.add(.deleted, change.source, status: "succeeded", Self.reference(name, sentBy: request))
    told.insert(id)
    after[id] = nil
  }

  /// Whether the view may have shown a message at the position: inside the window or what was cut from it,
  /// and not before the user's floor (B23).
  private func mayHaveBeenIn(_ position: Position) -> Bool {
    let isNear = range.contains(position) || cut.contains { $0.contains(position) }
    return isNear && position.createdAt >= view.floorAt
  }

  /// `request`: the user's request that sent the message. No user is told of another's request, because two
  /// users may use the same id.
  static func reference(_ message: String, sentBy request: String? = nil) -> [UInt8] {
    var json = JSONWriter()
    json.beginObject()
    json.field("message_id", message)
    if let request { json.field("request_id", request) }
    json.endObject()
    return json.finish().array
  }

  /// The window was cut at its far side (B22). Tells the client to remove the messages that it had there.
  private mutating func trimmed(_ change: Change) throws {
    guard let stretch = change.stretch else { return }
    var gone: [Int64] = []
    let (range, shown, told) = (range, shown, told)
    try reader.eachRow(of: stretch, filter: collection.request.filter, in: view) { row in
      let id = row.position.messageID
      if shown.knowledge(of: id) != .absent, row.isShown, !range.contains(row.position), !told.contains(id) {
        gone.append(id)
      }
      return true
    }
    for id in gone {
      self.told.insert(id)
      after[id] = nil
    }
    listedGaps = collection.gaps(coverage, view, range)
    let (collection, gaps) = (collection, listedGaps)
    events.add(
      first: EventWriter.event("messages.deleted", change.source, collection: name) { json in
        json.field("sending_status", "succeeded")
        json.name("message_refs")
        json.beginArray()
        for id in gone { Self.reference(String(id)).withUnsafeBytes { json.splice($0) } }
        json.endArray()
        collection.writeEnds(range, into: &json)
        GapObject.write(all: gaps, into: &json)
      })
  }

  /// Notes a stretch that is cut from the window. The client has its messages until it is told.
  private mutating func noteCut(_ change: Change) {
    guard change.kind == .windowTrimmed, let stretch = change.stretch else { return }
    cut.append(stretch)
  }

  /// Too many messages are missing at the newest end, so the view ends before the gap (B28). Messages behind
  /// the gap are not in the view, so this is called before anything is told.
  mutating func closeEnd(before change: Change) {
    guard change.kind == .hugeGap,
      let gap = change.reference.flatMap({ Int64($0) }).flatMap({ coverage.gap($0) }),
      range.seen.map({ gap.range.upperBound > $0.upperBound }) ?? true
    else { return }
    range.letGo(newerThan: max(range.seen?.lowerBound ?? .start, gap.range.lowerBound.previous))
  }

  private mutating func coverageChanged(_ change: Change) throws {
    guard let stretch = change.stretch, let gapName = change.reference, let loaded = range.loaded,
      let reach = range.reach
    else { return }
    let id = Int64(gapName) ?? 0
    let gap = coverage.gap(id)
    if change.kind == .coverage, stretch.overlaps(reach) {
      // No event told of messages that were deleted while the channel was not cached. Until some of the
      // window is cached its client keeps what it shows.
      if change.detail == Change.cachedAgain, coverage.covers(partOf: reach) {
        replaced = replaced ?? .channelRefresh
      }
      if change.detail != Change.messagesAreTold {
        try consider(stretch.clamped(to: reach), version: nil, change.source)
      }
    }
    if change.detail == Change.evicts { return tellEvicted(stretch, loaded, reach) }
    let isBeside = [stretch, gap?.range ?? stretch].contains {
      $0.overlaps(reach)
        || ($0.upperBound.next >= loaded.lowerBound && $0.lowerBound.previous <= loaded.upperBound)
    }
    guard isBeside, change.kind == .hugeGap || toldGaps.insert(id).inserted else { return }
    guard change.kind == .hugeGap else {
      return tell { GapObject.write(gap, named: gapName, from: stretch, into: &$0) }
    }
    listedGaps = collection.gaps(coverage, view, range)
    let (collection, range, gaps) = (collection, range, listedGaps)
    let newest = try reader.newestPosition(in: view.channel)
    events.add(
      event: EventWriter.event("huge_gap.detected", nil, collection: name) { json in
        json.name("gap")
        GapObject.write(gap, named: gapName, from: stretch, into: &json)
        collection.writeEnds(range, into: &json)
        GapObject.write(all: gaps, into: &json)
        if let newest { newest.writeNewest(into: &json) }
      })
  }

  /// Tells of the gap that `write` writes, with all gaps of the view.
  private mutating func tell(_ write: (inout JSONWriter) -> Void) {
    listedGaps = collection.gaps(coverage, view, range)
    let gaps = listedGaps
    events.add(
      event: EventWriter.event("gap.changed", nil, collection: name) { json in
        json.name("gap")
        write(&json)
        GapObject.write(all: gaps, into: &json)
      })
  }

  /// Tells of the gaps that only the moved window brought into the view.
  private mutating func tellReachedGaps() {
    let listed = listedGaps
    for gap in collection.gaps(coverage, view, range) where !listed.contains(gap) {
      tell { GapObject.write(gap, into: &$0) }
    }
  }

  /// Messages of the stretch were evicted (B57). Tells the gaps of it that the view can see.
  private mutating func tellEvicted(
    _ stretch: ClosedRange<Position>, _ loaded: ClosedRange<Position>, _ reach: ClosedRange<Position>
  ) {
    for gap in coverage.evictedGaps(in: stretch) {
      let isBeside =
        gap.range.upperBound.next >= loaded.lowerBound && gap.range.lowerBound.previous <= loaded.upperBound
      guard isBeside || gap.range.overlaps(reach), let id = gap.gap?.id, toldGaps.insert(id).inserted
      else { continue }
      tell { GapObject.write(gap, into: &$0) }
    }
  }

  /// Tells of the user's connection. With the link the tail changes, too.
  private mutating func tellConnection(_ connections: [LoggedChange], until end: Int64) {
    let changes = connections.filter { $0.sequence <= end }
    guard !changes.isEmpty else { return }
    isCommon = false
    if changes.contains(where: { $0.change.reference != nil }) { isTailChanged = true }
    guard let event = viewContext.connection?.event(changes, collection: name) else { return }
    events.add(event: event)
  }

  private mutating func tellTail() {
    let tail = coverage.tail
    let state = viewContext.link.judge(tail, now: viewContext.now, interval: viewContext.interval)
    events.add(
      event: EventWriter.event("tail.changed", nil, collection: name) { json in
        json.name("tail")
        TailObject.write(tail, state, into: &json)
      })
  }

  /// Adds what the answer, which goes up to `end`, tells beside its entries. `connections`: the changes of
  /// the user's connection since its beginning. `room`: the bytes that the answer may take.
  mutating func finish(_ connections: [LoggedChange], until end: Int64, _ room: Int) throws {
    tellConnection(connections, until: end)
    if let source = replaced {
      if source == .apiResult { range = try collection.withFirstPage(range, reader, view, viewContext) }
      let all = try collection.replaced(reader, view, coverage, range, viewContext, source, collection: name)
      // The events of this answer tell all that differs.
      let isTold = source == .apiResult && after == ClientKnowledge.Shown(all: all.versions)
      if isTold, !events.isFull(room) {
        events.add(
          event: collection.confirmed(view, coverage, range, viewContext, source, collection: name))
      } else {
        events.forgetConfirmed()
        events.add(event: all.event)
      }
      after = ClientKnowledge.Shown(all: all.versions)
    } else {
      tellReachedGaps()
      if isTailChanged, !range.hasNext { tellTail() }
    }
    // The channel's object differs by user.
    if newest != nil { isCommon = false }
    // The channel's object has the read positions, or tells how many there are.
    let isChannelTold = channelSource != nil || newest != nil || hasManyReaders
    if !isChannelTold {
      for event in try EventWriter.read(members, in: view, reader, collection: name) {
        events.add(event: event)
      }
    }
    guard isChannelTold, let object = try reader.channel(view) else { return }
    let newest = newest
    let source = channelSource ?? (newest == nil ? .read : .messageReceived)
    events.add(
      event: EventWriter.event(
        "channel.updated", source, collection: name
      ) { json in
        json.name("channels")
        json.beginArray()
        json.splice(object.bytes)
        json.endArray()
        if let newest { newest.writeNewest(into: &json) }
      })
  }
}
