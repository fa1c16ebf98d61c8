import ChatModel
import JSON
import SQLite

// Resets a channel that breaks an invariant to one gap. Its messages are deleted and fetched again from the
// upstream, and derived columns are computed again. Memberships and unsent rows stay.

extension CacheWriter {
  /// Resets the channel if it still has faults. Returns the faults. `known`: the faults of a large channel,
  /// whose messages were deleted before, so that they are not looked for.
  ///
  /// Events tell subscribers of the gap, the channel and the cleared cache. Webhook notes are stored, so that
  /// the sync worker refreshes the channel and lists its newest end, now or after the next start.
  func heal(_ channel: ChannelKey, known: [Finding]? = nil) throws -> [Finding] {
    let faults = try known ?? reader.faults(of: channel)
    guard let url = try reader.url(of: channel), !faults.isEmpty else { return [] }
    let limit = try reader.lastNumber()
    try forgetMessages(of: channel, hasWrongLast: faults.contains { $0.fault == .lastMessage })
    try mendChannel(channel, url, limit)
    try mendMemberships(of: channel, limit)
    let gap = try resetLine(of: channel)
    var change = Change(.coverage, .channelRefresh, channel: channel)
    change.stretch = Position.start...Position.end
    change.reference = String(gap)
    try append(change)
    let version = try append(Change(.channel, .channelRefresh, channel: channel))
    try sortInLists(channel, version: version)
    try append(Change(.cacheCleared, .channelRefresh, channel: channel))
    try note([
      WebhookNote(
        kind: .channel, channel: url, source: .channelRefresh, users: try reader.connectedMembers(of: url)),
      WebhookNote(kind: .newest, channel: url, source: .apiResult),
    ])
    return try reader.faults(of: channel).isEmpty ? faults.map(\.healed) : faults
  }

  /// Deletes the messages, as clearing does.
  private func forgetMessages(of channel: ChannelKey, hasWrongLast: Bool) throws {
    try forgetWrongTombstones(of: channel)
    try dropMessages(of: channel)
    if hasWrongLast { try setLastMessage(nil, of: channel, version: 0) }
  }

  /// Deletes the tombstones of messages that are stored. One of the two rows is wrong; the caller deletes the
  /// message.
  private func forgetWrongTombstones(of channel: ChannelKey) throws {
    try db.run(
      """
      DELETE FROM tombstone
      WHERE channel = ?1
        AND EXISTS (
          SELECT 1
          FROM message AS m INDEXED BY message_by_id
          WHERE m.channel = ?1 AND m.message_id = tombstone.message_id
        )
      """
    ) { $0.bind(1, channel.rawValue) }
  }

  /// Clears a large channel that is to be reset, before its messages are deleted in slices.
  func clearFaulty(_ channel: ChannelKey) throws {
    try forgetWrongTombstones(of: channel)
    if let url = try reader.url(of: channel) { try clear(url) }
  }

  /// Makes the channel's own row valid, so that it can be answered until it is refreshed.
  private func mendChannel(_ channel: ChannelKey, _ url: ChannelURL, _ limit: Int64) throws {
    guard let stored = try reader.leftovers(of: channel) else { return }
    try db.run(
      """
      UPDATE channel
      SET name_key = ?2, body = ?3, read_receipts = ?4, version = min(version, ?5)
      WHERE id = ?1
      """
    ) {
      $0.bind(1, channel.rawValue)
      $0.bind(2, ChannelColumns.key(stored.name))
      $0.bind(3, copyOf: stored.body)
      $0.bind(4, copyOf: stored.readReceipts)
      $0.bind(5, limit)
    }
    try countReadersAgain(in: channel)
    try db.run("UPDATE channel SET metadata = NULL WHERE id = ?1") { $0.bind(1, channel.rawValue) }
    try db.run("DELETE FROM channel_metadata WHERE channel = ?1") { $0.bind(1, channel.rawValue) }
    if let metadata = stored.metadata { _ = try store(metadata, of: channel) }
    for user in stored.brokenMembers { try removeMember(user, of: channel) }
    if !stored.brokenMembers.isEmpty { try forgetMemberList(of: channel) }
  }

  /// Copies the channel's values into its memberships again, and puts counts and versions back in range.
  private func mendMemberships(of channel: ChannelKey, _ limit: Int64) throws {
    try db.run(
      """
      UPDATE membership
      SET (channel_url, name_key, created_at) = (
          SELECT channel_url, name_key, created_at
          FROM channel
          WHERE id = ?1
        ),
        unread = max(unread, 0),
        mentions = max(mentions, 0),
        version = min(version, ?2)
      WHERE channel = ?1
      """
    ) {
      $0.bind(1, channel.rawValue)
      $0.bind(2, limit)
    }
    for user in try reader.brokenInviters(in: channel) {
      try db.run("UPDATE membership SET inviter = NULL WHERE user = ?1 AND channel = ?2") {
        $0.bind(1, user)
        $0.bind(2, channel.rawValue)
      }
    }
  }

  /// Makes the line one gap with a new id. Returns the id.
  private func resetLine(of channel: ChannelKey) throws -> Int64 {
    // Ids are given one by one, so an id far above the others is damaged and does not count.
    let names = try reader.segmentRows(of: channel).compactMap(\.id).filter { $0 > 0 && $0 < 1 << 40 }
    let name = (names.max() ?? 0) + 1
    try db.run("DELETE FROM segment WHERE channel = ?1") { $0.bind(1, channel.rawValue) }
    for row in Coverage.reset(nextGapID: name).rows { try write(row, of: channel) }
    return name
  }
}

/// The valid parts of a channel's row.
private struct ChannelLeftovers {
  let name: String
  let body: [UInt8]
  let readReceipts: [UInt8]
  let metadata: [ExactText: String]?
  let brokenMembers: [String]
}

extension CacheReader {
  fileprivate func leftovers(of channel: ChannelKey) throws -> ChannelLeftovers? {
    let json = JSONParser()
    let broken = try db.all("SELECT user_id, body FROM member WHERE channel = ?1") {
      $0.bind(1, channel.rawValue)
    } _: { row in
      json.reads(fieldsOf: row.bytes(1)) ? nil : row.string(0)
    }
    return try db.first(
      "SELECT channel_url, name, body, read_receipts, metadata FROM channel WHERE id = ?1"
    ) {
      $0.bind(1, channel.rawValue)
    } _: { row in
      ChannelLeftovers(
        name: row.string(1),
        body: json.reads(fieldsOf: row.bytes(2))
          ? Array(row.bytes(2)) : CacheReader.leastBody(row.string(0), row.string(1)),
        readReceipts: json.reads(row.bytes(3), .object) ? Array(row.bytes(3)) : Array("{}".utf8),
        metadata: row.isNull(4) ? nil : json.texts(row.bytes(4)), brokenMembers: broken.compactMap { $0 })
    }
  }

  /// The smallest valid body of a channel whose body is lost, until it is refreshed.
  private static func leastBody(_ url: String, _ name: String) -> [UInt8] {
    var json = JSONWriter()
    json.field("channel_url", url)
    json.field("name", name)
    return json.finish().array
  }

  fileprivate func brokenInviters(in channel: ChannelKey) throws -> [Int64] {
    let json = JSONParser()
    return try db.all("SELECT user, inviter FROM membership WHERE channel = ?1 AND inviter IS NOT NULL") {
      $0.bind(1, channel.rawValue)
    } _: { row in
      json.reads(row.bytes(1)) ? nil : row.int64(0)
    }
    .compactMap { $0 }
  }
}
