import ChatCache
import ChatModel
import JSON
import Platform

// Makes the events of a channel list: for each channel that changed since the client's cursor, whether the
// list showed it then and shows it now (B9, B10). A cut of the list's end (B22) is a change of each channel
// that it removed.

extension ChannelCollection {
  /// The most changes that are read for one answer.
  private static let changesLookedAt = 1000

  /// The events after `since` up to `until`, for the client that has that cursor. `connection`: the user's;
  /// nil: another feed of the same answer tells of it. `room`: the bytes that the events may take.
  package func changes(
    _ reader: CacheReader, since: Int64, until: Int64, connection: ClientConnection? = nil,
    room: Int = Limits.eventBytes, collection: String? = nil
  ) throws -> ViewAnswer {
    guard try reader.userKey(of: userID) == user else { throw ViewError.notFound }
    try reader.requireKnownRights(of: user)
    let until = max(until, since)
    let (log, isAssumed) = try log(reader, since: since)
    var end = log.isWhole ? until : min(log.end, until)
    var events = EventWriter()
    var touched: [Touched] = []
    var trimmedAt: Int64?
    for index in log.changes.indices where log.changes[index].sequence <= end {
      let (kind, sequence) = (log.changes[index].change.kind, log.changes[index].sequence)
      if kind == .windowTrimmed {
        trimmedAt = trimmedAt ?? sequence
        touched += try trimmed(by: log.changes[index], reader)
      }
      guard let key = log.changes[index].change.channel, let url = try reader.url(of: key) else { continue }
      if kind == .cacheCleared {
        events.add(
          event: EventWriter.event("cache.cleared", nil, collection: collection) { json in
            MessageViewRequest.write("channel_urls", [url.text], into: &json)
          })
      }
      guard Self.concerns(kind) else { continue }
      touched.append(
        Touched(
          url: ExactText(url.text), key: key, source: log.changes[index].change.source, sequence: sequence,
          isAssumed: isAssumed, member: log.changes[index].change.readingMember))
    }
    // The objects also have what changed after `end`, which must not count as told.
    let isLast = try reader.lastChange() == end
    let (window, shown) = state.withLock { ($0.window, $0.known.shown(at: since)) }
    var after = shown
    var letGo: [String] = []
    let told = Self.lastOfEach(touched, isLast: isLast)
    if let cut = try tell(told, &after, &letGo, window, reader, &events, room, collection) { end = cut }
    if let trimmedAt, trimmedAt <= end { events.add(first: trimmed(letGo, window, collection)) }
    let changes = log.changes.filter { $0.change.kind == .connection && $0.sequence <= end }
    if let event = connection?.event(changes, collection: collection) { events.add(event: event) }
    if end == until, isLast, !after.isWhole {
      after = ClientKnowledge.Shown(all: try shownNow(reader, window))
    }
    let (known, isEmpty) = (after, events.isEmpty)
    return ViewAnswer(
      body: events.joined(
        ("channels.deleted", "channels.added", "channels.updated"), objects: "channels",
        references: "channel_urls", collection: collection),
      end: end, hasMore: end < until, isEmpty: isEmpty
    ) { [self] sequence in
      answered(at: sequence, known)
    }
  }

  /// The changes after `since`. If nothing can have ended a membership since, the user is taken for a member
  /// of the channels that the client had then. `isAssumed`: whether that was done.
  private func log(
    _ reader: CacheReader, since: Int64
  ) throws -> (log: (changes: [LoggedChange], end: Int64, isWhole: Bool), isAssumed: Bool) {
    let shown = state.withLock { $0.known.shown(at: since) }
    var isAssumed = false
    let log = try reader.changes(for: user, view: id, after: since, limit: Self.changesLookedAt) { channel in
      guard let url = try reader.url(of: channel), shown[ExactText(url.text)] != nil else {
        return false
      }
      isAssumed = true
      return true
    }
    return (log, isAssumed)
  }

  /// The channels that a cut removed.
  private func trimmed(by logged: LoggedChange, _ reader: CacheReader) throws -> [Touched] {
    try Self.names(trimmedBy: logged.change).map { name in
      Touched(
        url: ExactText(name), key: try reader.channelKey(of: ChannelURL(name)), source: logged.change.source,
        sequence: logged.sequence)
    }
  }

  /// The event with the channels that a cut removed, and the list's new end.
  private func trimmed(_ gone: [String], _ window: ChannelWindow, _ collection: String?) -> [UInt8] {
    EventWriter.event("channels.deleted", .localWindowTrimmed, collection: collection) { json in
      MessageViewRequest.write("channel_urls", gone, into: &json)
      writeEnd(window, hasRoom: true, into: &json)
    }
  }

  /// A channel that changed.
  private struct Touched {
    let url: ExactText
    let key: ChannelKey?
    let source: ChangeSource
    let sequence: Int64
    /// Whether the user was taken for a member without a look at the members.
    var isAssumed = false
    /// The member who has read on; nil if something else happened.
    var member: ExactText?
    /// The members who have read on since the client's cursor, if nothing else happened.
    var readers: Set<ExactText> = []
  }

  /// Each channel once, with its last change, in the order of these changes. `isLast`: the log has no later
  /// change.
  private static func lastOfEach(_ touched: [Touched], isLast: Bool) -> [Touched] {
    if touched.count == 1, touched[0].member == nil { return touched }
    let all = Dictionary(grouping: touched, by: \.url)
    var seen: Set<ExactText> = []
    return touched.reversed().filter { seen.insert($0.url).inserted }.reversed().map { one in
      var one = one
      let members = all[one.url, default: []].map(\.member)
      if isLast, !members.contains(nil) { one.readers = Set(members.compactMap { $0 }) }
      return one
    }
  }

  /// The events of members who have read on; nil if something else of the channel changed, too, or if they
  /// would be longer than the channel.
  private func readMarks(
    _ channel: Touched, _ reader: CacheReader, _ collection: String?
  ) throws -> [[UInt8]]? {
    guard 1...Self.mostReaders ~= channel.readers.count,
      let view = try reader.view(of: ChannelURL(channel.url.text), for: user)
    else { return nil }
    let marks = try EventWriter.read(channel.readers.sorted(), in: view, reader, collection: collection)
    return marks.count == channel.readers.count ? marks : nil
  }

  private static let mostReaders = 20

  private static func concerns(_ kind: ChangeKind) -> Bool {
    switch kind {
    case .coverage, .hugeGap, .unverified, .outbox, .upload, .cacheCleared, .collectionAnswered,
      .collectionFailed, .channelsListed, .tailConfirmed, .missedMessages:
      false
    default: true
    }
  }

  /// Tells of the channels that changed. `letGo` gets those that a cut removed. Returns the sequence of the
  /// log up to which the changes fit; nil: all fit.
  private func tell(
    _ touched: [Touched], _ after: inout ClientKnowledge<ExactText>.Shown, _ letGo: inout [String],
    _ window: ChannelWindow, _ reader: CacheReader, _ events: inout EventWriter, _ room: Int,
    _ collection: String?
  ) throws -> Int64? {
    for (index, channel) in touched.enumerated() {
      var object = JSONWriter(capacity: 1024)
      let version = try write(channel, window, reader, into: &object)
      if version == nil, channel.isAssumed, let key = channel.key, try !reader.isMember(user, of: key) {
        continue
      }
      // The changes of one sequence of the log are told together.
      let bytes = version == nil ? 0 : object.buffer.count
      if index > 0, touched[index - 1].sequence < channel.sequence, !events.isEmpty,
        events.entries >= Limits.eventEntries || events.bytes + bytes > room
      {
        return touched[index - 1].sequence
      }
      switch Verdict(since: after.change(channel.url, to: version), now: version) {
      case .nothing: continue
      case .added: events.add(.added, channel.source, object.buffer.bytes)
      case .updated:
        if let marks = try readMarks(channel, reader, collection) {
          for mark in marks { events.add(event: mark) }
        } else {
          events.add(.updated, channel.source, object.buffer.bytes)
        }
      case .deleted where channel.source == .localWindowTrimmed: letGo.append(channel.url.text)
      case .deleted:
        var json = JSONWriter()
        json.value(channel.url.text)
        events.add(.deleted, channel.source, json.buffer.bytes)
      }
    }
    return nil
  }

  /// Writes the channel as the list shows it now, and returns its version. Nil: the list does not show it,
  /// and what was written is not used.
  private func write(
    _ channel: Touched, _ window: ChannelWindow, _ reader: CacheReader, into object: inout JSONWriter
  ) throws -> Int64? {
    guard let key = channel.key, let listed = try reader.writeListed(key, lookup, into: &object),
      window.contains(listed.key)
    else { return nil }
    return listed.hash
  }

  private func shownNow(_ reader: CacheReader, _ window: ChannelWindow) throws -> [ExactText: Int64] {
    guard let user = try reader.cachedUser(userID) else { throw ViewError.notFound }
    var shown: [ExactText: Int64] = [:]
    try reader.eachListed(query, of: user) { channel in
      guard window.contains(channel.key) else { return false }
      shown[channel.url] = channel.hash
      return true
    }
    return shown
  }
}
