import ChatCache
import ChatModel
import JSON
import Platform

/// All events for one user (B50). They do not depend on a view, and nothing is remembered of the client.
package struct UserFeed: Sendable {
  private static let changesLookedAt = 500
  /// All messages of a channel, with all their parts.
  private static let all = {
    var query = MessageQuery()
    query.replies = .all
    query.parts = [.reactions, .metaarray, .threadInfo]
    return query
  }()

  /// The user who is told.
  package let user: UserID

  /// The feed of that user.
  package init(_ user: UserID) { self.user = user }

  /// The events after `since` up to `until`, as many as fit into `room` bytes. `connection`: the user's
  /// connection state and sync progress.
  package func changes(
    _ reader: CacheReader, since: Int64, until: Int64, connection: ClientConnection,
    room: Int = Limits.eventBytes
  ) throws -> ViewAnswer {
    guard let user = try reader.cachedUser(user) else { throw ViewError.notFound }
    let until = max(until, since)
    let log = try reader.changes(for: user.key, after: since, limit: Self.changesLookedAt)
    let later = log.isWhole ? [] : try reader.releases(to: user.key, after: log.end)
    let releases = Releases(log.changes + later)
    var end = log.isWhole ? until : min(log.end, until)
    var body = EventsBody(room: 4096)
    var (entries, previous) = (0, since)
    var told: Set<State> = []
    // Channels for which this answer has an `outbox.changed`.
    var counted: Set<ChannelKey?> = []
    for logged in log.changes where logged.sequence <= end {
      let state = State(logged.change, user: self.user)
      if let state, told.contains(state) {
        previous = logged.sequence
        continue
      }
      let before = body.count
      let tellsCounts = logged.change.kind == .outbox && counted.insert(logged.change.channel).inserted
      let more = try write(logged, reader, user, connection, releases, tellsCounts, into: &body.json)
      if body.count > room || entries + more > Limits.eventEntries, before > 0 {
        // An answer ends before the change that does not fit.
        body.truncate(to: before)
        end = previous
      } else {
        entries += more
        if more > 0, let state { told.insert(state) }
      }
      previous = logged.sequence
    }
    return ViewAnswer(body: body, end: end, hasMore: end < until, isEmpty: entries == 0) { _ in
    }
  }

  /// A channel, a read position or a gap that an event describes as it is at the moment of the answer. A
  /// second event about it in the same answer would have the same content, so it is left out.
  private struct State: Hashable {
    private let kind: ChangeKind
    private let source: ChangeSource
    private let channel: ChannelKey
    /// The gap, or the member who has read on.
    private let name: ExactText?

    /// The state that a change is about; nil if each such change is told.
    init?(_ change: Change, user: UserID) {
      guard let channel = change.channel else { return nil }
      switch change.kind {
      case .membership where change.detail == Change.readsOn: (kind, name) = (.channel, ExactText(user.text))
      case .channel: (kind, name) = (.channel, change.reference.map { ExactText($0) })
      case .membership, .floor: (kind, name) = (.channel, nil)
      case .coverage: (kind, name) = (.coverage, change.reference.map { ExactText($0) })
      default: return nil
      }
      (source, self.channel) = (change.source, channel)
    }
  }

  /// The last change that showed each withheld message to the user alone (B38). The changes before it do not
  /// tell of the message, so that it is told once.
  private struct Releases {
    private struct Message: Hashable {
      let channel: ChannelKey
      let id: Int64
    }

    private var sequences: [Message: Int64] = [:]

    /// The releases among these changes, which are ordered.
    init(_ changes: [LoggedChange]) {
      for logged in changes where logged.change.kind == .messages && logged.change.user != nil {
        guard let channel = logged.change.channel, let stretch = logged.change.stretch else { continue }
        sequences[Message(channel: channel, id: stretch.lowerBound.messageID)] = logged.sequence
      }
    }

    /// Whether a change after `sequence` tells of that message.
    func follow(_ sequence: Int64, for id: Int64, in channel: ChannelKey) -> Bool {
      sequences[Message(channel: channel, id: id), default: 0] > sequence
    }
  }

  /// Writes one event and returns the number of its entries; 0: there is nothing to tell. `tellsCounts`: this
  /// answer has no `outbox.changed` for the channel yet.
  private func write(
    _ logged: LoggedChange, _ reader: CacheReader, _ user: CachedUser, _ connection: ClientConnection,
    _ releases: Releases, _ tellsCounts: Bool, into json: inout JSONWriter
  ) throws -> Int {
    let (change, sequence) = (logged.change, logged.sequence)
    guard let key = change.channel else { return writeConnection(logged, connection, into: &json) }
    guard let url = try reader.url(of: key) else { return 0 }
    guard let view = try reader.view(of: url, for: user.key) else {
      guard change.kind == .membershipLost || change.kind == .channelDeleted else { return 0 }
      begin("channel.left", change.source, url, into: &json)
      MessageViewRequest.write("channel_urls", [url.text], into: &json)
      json.endObject()
      return 1
    }
    try reader.requireKnownRights(in: view)
    switch change.kind {
    case .messages: return try writeMessages(change, sequence, releases, reader, view, into: &json)
    case .missedMessages: return try writeMissed(change, sequence, releases, reader, view, into: &json)
    case .messageDeleted: return try writeDeleted(change, view, reader, of: user.key, into: &json)
    case .channel, .membership, .floor, .membershipGained:
      if change.detail == Change.readsOn || change.readingMember == ExactText(self.user.text) {
        return try writeOwnRead(reader, view, into: &json)
      }
      if let member = change.readingMember { return try writeRead(member, reader, view, into: &json) }
      guard let object = try reader.channel(view) else { return 0 }
      let isNew = change.kind == .membershipGained
      begin(isNew ? "channel.joined" : "channel.changed", change.source, url, into: &json)
      json.name("channels")
      json.beginArray()
      json.splice(object.bytes)
      json.endArray()
      json.endObject()
      return 1
    case .coverage, .hugeGap: return try writeGap(change, reader, view, into: &json)
    case .cacheCleared:
      begin("cache.cleared", nil, url, into: &json)
      MessageViewRequest.write("channel_urls", [url.text], into: &json)
      json.endObject()
      return 1
    case .outbox:
      let hasPending = try writePending(change, reader, view, into: &json)
      if tellsCounts { try writeOutbox(reader, user, url, into: &json) }
      return hasPending || tellsCounts ? 1 : 0
    case .upload:
      EventWriter.progress(change, url, collection: nil).withUnsafeBytes { json.splice($0) }
      return 1
    case .membershipLost, .channelDeleted, .connection, .syncProgress, .collectionAnswered,
      .collectionFailed, .unverified, .windowTrimmed, .channelsListed, .tailConfirmed:
      return 0
    }
  }

  private func begin(
    _ type: StaticString, _ source: ChangeSource?, _ url: ChannelURL?, into json: inout JSONWriter
  ) {
    json.beginObject()
    json.name("type")
    json.value(plain: type)
    if let source { EventWriter.write(source, into: &json) } else { json.field("is_realtime", false) }
    if let url { json.field("channel_url", url.text) }
  }

  private func writeMessages(
    _ change: Change, _ sequence: Int64, _ releases: Releases, _ reader: CacheReader, _ view: ChannelView,
    into json: inout JSONWriter
  ) throws -> Int {
    // A change for one user alone shows a message that was withheld. It keeps the version with which it was
    // stored.
    let isRelease = change.user != nil
    // No client has a copy of an old message that the cache stores only now: no event tells of it. Of new
    // messages from before the user joined, `writeMissed` tells.
    guard change.age != .old, isRelease || sequence > view.gainedVersion else { return 0 }
    let tellsNew =
      isRelease || change.age == .new
      || [.messageReceived, .messageSent, .messageFill].contains(change.source)
    var received = JSONWriter(capacity: 1024)
    var changed = JSONWriter(capacity: 64)
    var receivedCount = 0
    // A new message is told by the change that stored it, even if a later one changed it: a client that acts
    // on new messages may ignore changes of those it does not have.
    let count = try eachMessage(of: change, sequence, isRelease ? nil : sequence, releases, reader, view) {
      row in
      if tellsNew, isRelease || row.firstVersion == sequence || row.firstVersion == 0 {
        guard isRelease || view.isNew(row.position) else { return false }
        received.splice(row.object.bytes)
        receivedCount += 1
      } else {
        changed.splice(row.object.bytes)
      }
      return true
    }
    if receivedCount > 0 { write(received, "message.received", change.source, view.url, into: &json) }
    if receivedCount < count { write(changed, "message.changed", change.source, view.url, into: &json) }
    return count
  }

  /// Writes new messages that the cache had before the user joined the channel. Returns their number.
  private func writeMissed(
    _ change: Change, _ sequence: Int64, _ releases: Releases, _ reader: CacheReader, _ view: ChannelView,
    into json: inout JSONWriter
  ) throws -> Int {
    // An earlier joining's changes tell nothing: those of the last one tell of the same messages.
    guard sequence > view.gainedVersion else { return 0 }
    var received = JSONWriter(capacity: 1024)
    let count = try eachMessage(of: change, sequence, nil, releases, reader, view) { row in
      guard view.isNew(row.position), row.firstVersion < sequence else { return false }
      received.splice(row.object.bytes)
      return true
    }
    if count > 0 { write(received, "message.received", change.source, view.url, into: &json) }
    return count
  }

  /// Passes the messages of a change that the user may see to `body`, which returns whether it tells of them.
  /// Returns how many it tells of. `version`: only messages that were stored or changed with it; nil: all.
  private func eachMessage(
    of change: Change, _ sequence: Int64, _ version: Int64?, _ releases: Releases, _ reader: CacheReader,
    _ view: ChannelView, _ body: (borrowing ViewRow) -> Bool
  ) throws -> Int {
    guard view.isJoined, let stretch = change.stretch else { return 0 }
    var count = 0
    try reader.eachRow(of: stretch, version: version, orFirst: true, filter: UserFeed.all, in: view) { row in
      guard row.isShown, row.position.createdAt >= view.floorAt,
        !releases.follow(sequence, for: row.position.messageID, in: view.channel), body(row)
      else { return true }
      count += 1
      return count < Limits.eventEntries
    }
    return count
  }

  private func write(
    _ messages: consuming JSONWriter, _ type: StaticString, _ source: ChangeSource, _ url: ChannelURL,
    into json: inout JSONWriter
  ) {
    begin(type, source, url, into: &json)
    json.field("sending_status", "succeeded")
    let text = messages.finish()
    json.name("messages")
    json.beginArray()
    json.splice(fields: text.bytes)
    json.endArray()
    json.endObject()
  }

  private func writeDeleted(
    _ change: Change, _ view: ChannelView, _ reader: CacheReader, of user: UserKey,
    into json: inout JSONWriter
  ) throws -> Int {
    guard view.isJoined, let name = change.reference, let id = Int64(name),
      change.stretch.map({ $0.lowerBound.createdAt >= view.floorAt }) ?? false
    else { return 0 }
    begin("message.deleted", change.source, view.url, into: &json)
    json.field("sending_status", "succeeded")
    json.name("message_refs")
    json.beginArray()
    let reference = MessageDiff.reference(name, sentBy: try reader.request(answeredBy: id, of: user))
    reference.withUnsafeBytes { json.splice($0) }
    json.endArray()
    json.endObject()
    return 1
  }

  private func writeRead(
    _ member: ExactText, _ reader: CacheReader, _ view: ChannelView, into json: inout JSONWriter
  ) throws -> Int {
    let events = try EventWriter.read([member], in: view, reader, collection: nil)
    for event in events { event.withUnsafeBytes { json.splice($0) } }
    return events.count
  }

  /// Writes how far the user has read, with the counts that follow from it.
  private func writeOwnRead(
    _ reader: CacheReader, _ view: ChannelView, into json: inout JSONWriter
  ) throws -> Int {
    guard let mark = try reader.readMark(of: view) else { return 0 }
    begin("channel.read", .read, view.url, into: &json)
    json.field("user_id", user.text)
    json.field("read_at", mark.readAt)
    json.field("unread_message_count", mark.unread)
    json.field("unread_mention_count", mark.mentions)
    json.endObject()
    return 1
  }

  /// Writes a confirmed message whose pending changes changed, as the user sees it now. False: there is none.
  private func writePending(
    _ change: Change, _ reader: CacheReader, _ view: ChannelView, into json: inout JSONWriter
  ) throws -> Bool {
    guard view.isJoined, let target = change.outboxDetail(.target),
      let object = try reader.message(target, parts: [.reactions, .metaarray, .threadInfo], in: view)
    else { return false }
    begin("message.changed", change.source, view.url, into: &json)
    json.field("sending_status", "succeeded")
    json.name("messages")
    json.beginArray()
    json.splice(object.bytes)
    json.endArray()
    json.endObject()
    return true
  }

  private func writeGap(
    _ change: Change, _ reader: CacheReader, _ view: ChannelView, into json: inout JSONWriter
  ) throws -> Int {
    guard view.isJoined, let name = change.reference, let stretch = change.stretch,
      stretch.upperBound >= Position.first(at: view.floorAt)
    else { return 0 }
    begin(change.kind == .hugeGap ? "huge_gap.detected" : "gap.changed", nil, view.url, into: &json)
    json.name("gap")
    let gap = try Int64(name).flatMap { id in try reader.coverage(of: view.channel).gap(id) }
    GapObject.write(gap, named: name, from: stretch, into: &json)
    if change.kind == .hugeGap, let newest = try reader.newestPosition(in: view.channel) {
      newest.writeNewest(into: &json)
    }
    json.endObject()
    return 1
  }

  private func writeOutbox(
    _ reader: CacheReader, _ user: CachedUser, _ url: ChannelURL?, into json: inout JSONWriter
  ) throws {
    let counts = try reader.unsent(of: user.key)
    begin("outbox.changed", nil, url, into: &json)
    json.name("counts")
    json.beginObject()
    json.field("pending", counts.pending)
    json.field("failed", counts.failed)
    json.endObject()
    json.endObject()
  }

  private func writeConnection(
    _ logged: LoggedChange, _ connection: ClientConnection, into json: inout JSONWriter
  ) -> Int {
    switch logged.change.kind {
    case .connection:
      guard let event = connection.event([logged], collection: nil) else { return 0 }
      event.withUnsafeBytes { json.splice($0) }
      return 1
    case .syncProgress:
      begin("sync.progress", nil, nil, into: &json)
      json.name("progress")
      json.beginObject()
      json.field("phase", connection.now.progress.phase.rawValue)
      json.field("channels_done", connection.now.progress.channelsDone)
      json.name("channels_total")
      if let total = connection.now.progress.channelsTotal { json.value(total) } else { json.null() }
      json.endObject()
      json.endObject()
      return 1
    default: return 0
    }
  }
}
