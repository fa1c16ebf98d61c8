import ChatCache
import ChatModel
import JSON
import Platform

/// Everything that happens for one user, event by event (B50): no view decides what is told, and nothing is
/// remembered of the client.
package struct UserFeed: Sendable {
  private static let changesLookedAt = 500

  /// Whose.
  package let user: UserID

  /// The feed of that user.
  package init(_ user: UserID) { self.user = user }

  /// The events after `since` up to `until`. `standing`: where the user stands with the link, and how far the
  /// user's channels are in the cache.
  package func changes(
    _ reader: CacheReader, since: Int64, until: Int64, standing: UserConnection
  ) throws -> ViewAnswer {
    guard let user = try reader.cachedUser(user) else { throw ViewError.notFound }
    let until = max(until, since)
    let log = try reader.changes(for: user.key, after: since, limit: Self.changesLookedAt)
    var end = log.isWhole ? until : min(log.end, until)
    var json = JSONWriter(capacity: 4096)
    var count = 0
    for logged in log.changes where logged.sequence <= end {
      if try write(logged.change, logged.sequence, reader, user, standing, into: &json) { count += 1 }
      if json.buffer.count >= Limits.eventBytes || count >= Limits.eventEntries, logged.sequence < end {
        end = logged.sequence
      }
    }
    return ViewAnswer(events: json.finish(), cursor: end, hasMore: end < until, isEmpty: count == 0) { _ in }
  }

  /// Writes one event; false where there is nothing to tell.
  private func write(
    _ change: Change, _ sequence: Int64, _ reader: CacheReader, _ user: CachedUser,
    _ standing: UserConnection, into json: inout JSONWriter
  ) throws -> Bool {
    guard let key = change.channel else { return writeStanding(change, standing, into: &json) }
    guard let url = try reader.url(of: key) else { return false }
    guard let view = try reader.view(of: url, for: user.key) else {
      guard change.kind == .membershipLost || change.kind == .channelDeleted else { return false }
      begin("channel.left", change.source, url, into: &json)
      MessageViewRequest.write("channel_urls", [url.text], into: &json)
      json.endObject()
      return true
    }
    switch change.kind {
    case .messages: return try writeMessages(change, sequence, reader, view, into: &json)
    case .messageDeleted:
      guard view.isJoined, let id = change.reference,
        change.stretch.map({ $0.lowerBound.createdAt >= view.floorAt }) ?? false
      else { return false }
      begin("message.deleted", change.source, url, into: &json)
      json.field("sending_status", "succeeded")
      json.name("message_refs")
      json.beginArray()
      json.beginObject()
      json.field("message_id", id)
      (change.detail ?? []).withUnsafeBytes { json.splice(fields: $0) }
      json.endObject()
      json.endArray()
      json.endObject()
      return true
    case .channel, .membership, .floor, .membershipGained:
      guard let object = try reader.channel(view) else { return false }
      begin(
        change.kind == .membershipGained ? "channel.joined" : "channel.changed", change.source, url,
        into: &json)
      json.name("channels")
      json.beginArray()
      json.splice(object.bytes)
      json.endArray()
      json.endObject()
      return true
    case .coverage, .hugeGap: return try writeGap(change, reader, view, into: &json)
    case .cacheCleared:
      begin("cache.cleared", nil, url, into: &json)
      MessageViewRequest.write("channel_urls", [url.text], into: &json)
      json.endObject()
      return true
    case .outbox:
      try writePending(change, reader, view, into: &json)
      try writeOutbox(reader, user, url, into: &json)
      return true
    case .membershipLost, .channelDeleted, .connection, .syncProgress, .collectionAnswered,
      .collectionFailed, .unverified, .windowTrimmed:
      return false
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
    _ change: Change, _ sequence: Int64, _ reader: CacheReader, _ view: ChannelView,
    into json: inout JSONWriter
  ) throws -> Bool {
    guard view.isJoined, let stretch = change.stretch else { return false }
    var filter = MessageQuery()
    filter.replies = .all
    filter.parts = [.reactions, .metaarray, .threadInfo]
    var items = JSONWriter(capacity: 1024)
    var count = 0
    // What was withheld from this user alone has the version it was stored with.
    let version = change.user == nil ? sequence : nil
    try reader.eachRow(of: stretch, version: version, filter: filter, in: view) { row in
      guard row.isShown else { return true }
      guard row.position.createdAt >= view.floorAt else { return true }
      items.splice(row.object.bytes)
      count += 1
      return count < Limits.eventEntries
    }
    guard count > 0 else { return false }
    let isNew = [.messageReceived, .messageSent, .messageFill].contains(change.source)
    begin(isNew ? "message.received" : "message.changed", change.source, view.url, into: &json)
    json.field("sending_status", "succeeded")
    let text = items.finish()
    json.name("messages")
    json.beginArray()
    json.splice(fields: text.bytes)
    json.endArray()
    json.endObject()
    return true
  }

  /// A confirmed message beside which something pending changed, as its user sees it now.
  private func writePending(
    _ change: Change, _ reader: CacheReader, _ view: ChannelView, into json: inout JSONWriter
  ) throws {
    guard view.isJoined, let target = change.outboxDetail(.target),
      let object = try reader.message(target, parts: [.reactions, .metaarray, .threadInfo], in: view)
    else { return }
    begin("message.changed", change.source, view.url, into: &json)
    json.field("sending_status", "succeeded")
    json.name("messages")
    json.beginArray()
    json.splice(object.bytes)
    json.endArray()
    json.endObject()
  }

  private func writeGap(
    _ change: Change, _ reader: CacheReader, _ view: ChannelView, into json: inout JSONWriter
  ) throws -> Bool {
    guard view.isJoined, let name = change.reference, let stretch = change.stretch,
      stretch.upperBound >= Position.first(at: view.floorAt)
    else { return false }
    begin(change.kind == .hugeGap ? "huge_gap.detected" : "gap.changed", nil, view.url, into: &json)
    json.name("gap")
    if let gap = try Int64(name).flatMap({ id in try reader.coverage(of: view.channel).gap(id) }) {
      GapObject.write(gap, into: &json)
    } else {
      GapObject.write(gone: name, from: stretch, into: &json)
    }
    if change.kind == .hugeGap, let newest = try reader.newestPosition(in: view.channel) {
      newest.writeNewest(into: &json)
    }
    json.endObject()
    return true
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

  private func writeStanding(
    _ change: Change, _ standing: UserConnection, into json: inout JSONWriter
  ) -> Bool {
    switch change.kind {
    case .connection:
      begin("connection.changed", nil, nil, into: &json)
      json.name("connection")
      json.beginObject()
      json.field("state", standing.state.rawValue)
      if let link = change.reference { json.field("link", link) }
      json.endObject()
      json.endObject()
      return true
    case .syncProgress:
      begin("sync.progress", nil, nil, into: &json)
      json.name("progress")
      json.beginObject()
      json.field("phase", standing.progress.phase.rawValue)
      json.field("channels_done", standing.progress.channelsDone)
      json.name("channels_total")
      if let total = standing.progress.channelsTotal { json.value(total) } else { json.null() }
      json.endObject()
      json.endObject()
      return true
    default: return false
    }
  }
}
