import ChatCache
import ChatModel
import JSON
import Platform

// Makes the events of a message collection: the net difference between the view at the client's cursor and
// now (B18, B49).
//
// The log names what changed since the cursor. Each row is told with its last change, because only that
// event's sequence is the row's version. What the client knew decides whether the row is told as added,
// updated or deleted. Making an answer changes nothing. The answer's `settle` keeps what the client then
// knows, and how the window moved, once it is known which cursor the client gets.

extension MessageCollection {
  /// The most changes that are read for one answer.
  private static let changesLookedAt = 1000

  /// The event of the upstream's first answer, if that came after `since` (B16), with the window as it is
  /// now.
  package func firstAnswer(_ reader: CacheReader, since: Int64, _ viewContext: ViewContext) throws -> [UInt8]?
  {
    let view = try view(reader)
    try reader.requireKnownRights(in: view)
    let log = try reader.changes(in: logScope, after: since, limit: Self.changesLookedAt)
    let answer = log.last {
      $0.sequence <= viewContext.head
        && ($0.change.kind == .collectionAnswered || $0.change.kind == .collectionFailed)
    }
    guard let change = answer?.change else { return nil }
    guard change.kind == .collectionAnswered else {
      return EventWriter.event("api_failed", change.source, collection: nil) { json in
        (change.detail ?? []).withUnsafeBytes { json.splice(fields: $0) }
      }
    }
    let before = range
    let range = try withFirstPage(before, reader, view, viewContext)
    settle(from: before, to: range)
    state.withLock { $0.mayLackFirstPage = false }
    return try replaced(
      reader, view, try coverage(reader), range, viewContext, .apiResult, collection: nil
    ).event
  }

  /// How long clients are told of a lost channel (B69).
  private static let lossMilliseconds: Int64 = 600_000

  /// The events after `since` up to `until`, for the client that has that cursor. `collection`: the view's
  /// id, which events carry if several views are followed at once. `room`: the bytes that the events may
  /// take.
  package func changes(
    _ reader: CacheReader, since: Int64, until: Int64, _ viewContext: ViewContext,
    room: Int = Limits.eventBytes,
    collection: String? = nil
  ) throws -> ViewAnswer {
    guard let view = try reader.view(of: url, for: user), view.isJoined else {
      return try lost(reader, since, until, viewContext, collection)
    }
    try reader.requireKnownRights(in: view)
    let log = try reader.changes(in: logScope, after: since, limit: Self.changesLookedAt)
    let isOfAll = try until == reader.lastChange()
    let connections = try reader.connectionChanges(of: user, after: since, upTo: until)
    // Beside other feeds the view ends where they end, and in a wave where the others of the wave end.
    let endsEarlier = collection == nil && !viewContext.endsAtHead
    let until = max(endsEarlier ? endOfOwn(log, connections, until: until) : until, since)
    let before = state.withLock { (range: $0.range, shown: $0.known.shown(at: since)) }
    if !before.range.hasSeenAnything, !isAnswered(log),
      let grown = try missedFirstPage(reader, view, viewContext)
    {
      // The answer is made again once the log has the change that tells of the move.
      return ViewAnswer(
        body: EventsBody(), end: since, hasMore: since < until, isEmpty: false,
        move: { [self] in takeUp(grown, since: before.range) }
      ) { _ in }
    }
    var end = until
    if log.count == Self.changesLookedAt { end = min(end, log[log.count - 1].sequence) }
    let coverage = try coverage(reader)
    func begin() -> MessageDiff {
      MessageDiff(
        self, reader: reader, view: view, coverage: coverage, viewContext: viewContext, range: before.range,
        shown: before.shown, unsent: UnsentChanges(log, of: user, until: end), collection: collection)
    }
    var diff = begin()
    while try !diff.tell(log, until: &end, room) { diff = begin() }
    try diff.finish(connections, until: end, room)
    var after = diff.after
    // If the log goes on, later changes may have uncovered rows that this answer does not tell.
    if end == until, !after.isWhole, isOfAll {
      after = ClientKnowledge.Shown(
        all: try shownNow(reader, view, diff.coverage, diff.range, end, diff.after.versions))
    }
    let (range, known, isEmpty, hasFirstPage) = (diff.range, after, diff.events.isEmpty, diff.hasFirstPage)
    let key =
      diff.isSameForAlike && !isEmpty && end == until && before.shown.isWhole && !view.isOfItsOwn
      ? try AnswerKey(self, view, since: since, until: until, from: before.range, diff) : nil
    return ViewAnswer(
      body: diff.events.joined(
        ("messages.deleted", "messages.added", "messages.updated"), objects: "messages",
        references: "message_refs", collection: collection),
      end: end, hasMore: end < until, isEmpty: isEmpty, key: key,
      move: range.isStored(as: before.range) ? nil : { [self] in settle(from: before.range, to: range) }
    ) { [self] sequence in
      settle(from: before.range, to: range)
      state.withLock { state in
        state.answered(at: sequence, known, bound)
        if hasFirstPage { state.mayLackFirstPage = false }
      }
    }
  }

  /// The sequence at which an answer ends that may go up to `until`. It is that of the last change that
  /// concerns this view; without such a change it is `until`. Views that were told the same changes then have
  /// the same cursor, and can share their next answers.
  private func endOfOwn(_ log: [LoggedChange], _ connections: [LoggedChange], until: Int64) -> Int64 {
    guard log.count < Self.changesLookedAt else { return until }
    let last = log.last { $0.sequence <= until }
    return [last, connections.last].compactMap(\.?.sequence).max() ?? until
  }

  /// Whether the log has the upstream's first answer to this view.
  private func isAnswered(_ log: [LoggedChange]) -> Bool {
    log.contains { $0.change.kind == .collectionAnswered }
  }

  /// Applies an answer's move of the window to the present window, which load calls may have moved meanwhile.
  func settle(from before: LoadedRange, to after: LoadedRange) {
    guard before != after else { return }
    state.withLock { state in
      state.range.move(from: before, to: after)
      // A load call chose the end at which a too large window is cut. That choice stands until the window was
      // checked (`isBounded`).
      if state.isBounded, after.hasArrivals(since: before) { state.isGrowingOlder = false }
    }
  }

  /// What a client has that was told everything up to `end`. It has newer versions only if this answer told
  /// them.
  private func shownNow(
    _ reader: CacheReader, _ view: ChannelView, _ coverage: Coverage, _ range: LoadedRange, _ end: Int64,
    _ told: [Int64: Int64]
  ) throws -> [Int64: Int64] {
    try rows(reader, view, coverage, range).versions.filter { $0.value <= end || told[$0.key] == $0.value }
  }

  /// The user has lost the channel: exactly one event, for some time (B69). If several views are followed at
  /// once, this view tells nothing after that, and the others go on.
  private func lost(
    _ reader: CacheReader, _ since: Int64, _ until: Int64, _ viewContext: ViewContext, _ collection: String?
  ) throws -> ViewAnswer {
    let isMany = collection != nil
    // Beside other feeds the view ends where they end. Otherwise the loss is told at once, in a wave, too.
    let until = isMany ? until : try reader.lastChange()
    let loss = try reader.loss(of: channel, for: user)
    if let loss, since < loss.sequence, loss.sequence <= until,
      try isMany || reader.elapsed(since: loss) < Self.lossMilliseconds
    {
      let event = EventWriter.event("channel.deleted", loss.change.source, collection: collection) { json in
        MessageViewRequest.write("channel_urls", [url.text], into: &json)
      }
      var body = EventsBody(room: event.count)
      event.withUnsafeBytes { body.add($0) }
      return ViewAnswer(body: body, end: until, hasMore: false, isEmpty: false) { _ in }
    }
    guard isMany else { throw ViewError.channelNotFound }
    return ViewAnswer(body: EventsBody(), end: max(since, until), hasMore: false, isEmpty: true) { _ in }
  }
}
