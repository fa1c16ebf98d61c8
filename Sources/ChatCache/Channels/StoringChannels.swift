import ChatModel
import SQLite

// Stores the upstream's answers about channels, as one user sees them. A channel is one row that all its
// members share; the membership has the values that only that user sees. A field that an answer lacks keeps
// its stored value (B11).

extension CacheWriter {
  /// Stores channels as `user` sees them. Returns for each channel whether its messages are behind.
  package func store(
    _ channels: [ChannelRecord], of user: UserID, _ origin: ChannelOrigin
  ) throws -> [ChannelActivity] {
    // While everything is being cleared, a user who joined a channel would find rows that are about to go.
    guard let key = try reader.userKey(of: user), try reader.clearsEverything() == nil else { return [] }
    if case .changelog(let deleted, let next, let asked) = origin {
      for url in deleted { try removeMembership(of: user, in: url, asked: asked, .channelChangelog) }
      if let next { try setChannelToken(next, of: key) }
    }
    var page: ListedPage?
    if case .listing = origin, try !reader.isSynced(key) {
      try noteListed(channels, of: key)
      page = try beginPage(of: key)
    }
    let activities = try channels.map { try store($0, of: user, key, origin, &page) }
    if let page {
      try append(page)
      try append(Change(.syncProgress, .channelRefresh, user: key))
    }
    return activities
  }

  private func store(
    _ record: ChannelRecord, of user: UserID, _ key: UserKey, _ origin: ChannelOrigin,
    _ page: inout ListedPage?
  ) throws -> ChannelActivity {
    var record = record
    let lastMessage = record.lastMessage
    let aheadTo = try messageAhead(record, of: key)
    if aheadTo != nil { record.lastMessage = .absent }
    let channel = try storeShared(record, origin)
    // If no user of this cache is in the channel any more, its data will be deleted.
    if record.membership?.state != .joined { noteLeaving() }
    if let membership = record.membership {
      if membership.state == .outside {
        try removeMembership(of: user, in: record.url, asked: record.asked, origin.source)
      } else {
        try store(
          membership, of: key, named: user, in: channel, lastMessage, asked: record.asked, origin, &page)
      }
    }
    if let aheadTo { return ChannelActivity(url: record.url, lastMessageAt: aheadTo, isBehind: true) }
    let last = try reader.lastMessage(of: channel)
    let known = try reader.coverage(of: channel).newestKnown
    let isBehind = last.map { last in known.map { last > $0 } ?? true } ?? false
    return ChannelActivity(url: record.url, lastMessageAt: last?.createdAt ?? 0, isBehind: isBehind)
  }

  /// The time of the answer's last message if the answer is ahead of the messages of a crowded channel with
  /// an open view; nil: it is not.
  ///
  /// Each member's own poll sees new messages before the worker has listed them, which it then does at once.
  /// Stored from the poll, they would be told to all members twice: as the channel's last message, and as
  /// messages. The member's own counts are stored as they came: only the upstream knows them.
  /// A user's read mark that waits to be sent has to know of the new message at once.
  private func messageAhead(_ record: ChannelRecord, of user: UserKey) throws -> Int64? {
    guard case .message(let message) = record.lastMessage,
      let channel = try reader.channelKey(of: record.url), try reader.isCrowded(channel),
      try reader.hasViews(channel), try !reader.hasPendingRead(of: user, in: channel),
      let listedTo = try reader.coverage(of: channel).newestKnown, message.position > listedTo
    else { return nil }
    return message.createdAt
  }

  /// Stores the fields that all members share. A change appends one event of the channel.
  private func storeShared(_ record: ChannelRecord, _ origin: ChannelOrigin) throws -> ChannelKey {
    guard let channel = try reader.channelKey(of: record.url) else { return try insert(record) }
    if try isAnother(record, than: channel) || isFirstToCome(record, into: channel) { try clear(record.url) }
    var isChanged = try updateFields(of: record, channel)
    if let metadata = record.metadata { isChanged = try store(metadata, of: channel) || isChanged }
    isChanged = try storeMembers(record, of: channel) || isChanged
    let last = try newLastMessage(record, channel)
    let source = isChanged || last != .absent ? origin.sourceBesideReads : origin.source
    let (readers, changesChannel) =
      try record.readReceipts.map {
        try store($0, joined: record.positionsExpected, of: channel)
      } ?? ([], false)
    isChanged = isChanged || changesChannel
    guard isChanged || !readers.isEmpty || last != .absent else { return channel }
    if !isChanged, last == .absent {
      try tell(readers, of: channel)
      return channel
    }
    let sequence = try append(Change(.channel, source, channel: channel))
    switch last {
    case .absent: break
    case .none: try setLastMessage(nil, of: channel, version: sequence)
    case .message(let message):
      if try reader.lastMessage(of: channel) != message.position {
        try noteUnlisted(message, in: channel, named: record.url)
      }
      try setLastMessage(message, of: channel, version: sequence)
    }
    return channel
  }

  /// Whether the channel was deleted and another one was made under its url, which has none of its messages.
  /// An answer with an earlier creation may be outdated; one that differs by less than a second may have been
  /// rounded.
  private func isAnother(_ record: ChannelRecord, than channel: ChannelKey) throws -> Bool {
    guard let createdAt = record.createdAt else { return false }
    let known = try reader.listTimes(of: channel).createdAt
    return known > 0 && createdAt > known && createdAt - known >= 1_000
  }

  /// Whether the answer's user comes into a channel that no user of this cache was in. Webhooks of it were
  /// dropped, so what is stored may be outdated.
  private func isFirstToCome(_ record: ChannelRecord, into channel: ChannelKey) throws -> Bool {
    guard let state = record.membership?.state, state != .outside else { return false }
    return try reader.isLeft(channel)
  }

  /// Appends an event for each member who has read on, or one event for all if there are too many.
  private func tell(_ readers: [ExactText], of channel: ChannelKey) throws {
    var change = Change(.channel, .read, channel: channel)
    guard readers.count <= ReadMark.mostTold else { return _ = try append(change) }
    for reader in readers {
      change.reference = reader.text
      try append(change)
    }
  }

  /// The channel's last message after this answer. Absent: the stored one stays.
  private func newLastMessage(
    _ record: ChannelRecord, _ channel: ChannelKey
  ) throws -> ChannelRecord.LastMessage {
    let stored = try reader.lastMessage(of: channel)
    switch record.lastMessage {
    case .absent: return .absent
    case .none: return stored == nil ? .absent : .none
    case .message(let message):
      guard try !reader.isDeleted(message.messageID, in: channel) else { return .absent }
      guard let stored else { return .message(message) }
      if message.position == stored {
        let isKnown =
          try reader.isLastMessage(message, of: channel)
          || reader.hasNewer(message, askedAt: record.asked?.sequence, in: channel)
        return isKnown ? .absent : .message(message)
      }
      // The cache has this message with another time. Its next listing decides which time is right.
      if let time = try reader.time(of: message.messageID, in: channel), time != message.createdAt {
        return .absent
      }
      // An older message becomes the last one if the stored newer one has no row: that one was deleted
      // upstream before the cache listed it.
      let isKnown = try reader.time(of: stored.messageID, in: channel) != nil
      return message.position > stored || !isKnown ? .message(message) : .absent
    }
  }

  private func insert(_ record: ChannelRecord) throws -> ChannelKey {
    let body = record.isWhole ? record.body : try Fields.lay(record.body, over: Fields.ofChannel)
    try db.run(
      """
      INSERT INTO channel (
        channel_url, name, name_key, custom_type, created_at, is_distinct, is_public, is_super, is_frozen,
        member_count, joined_member_count, body, read_receipts
      )
      VALUES (
        ?1, coalesce(?2, ''), coalesce(?3, ''), coalesce(?4, ''), coalesce(?5, 0), coalesce(?6, 0),
        coalesce(?7, 0), coalesce(?8, 0), coalesce(?9, 0), coalesce(?10, 0), coalesce(?11, 0), ?12,
        CAST('{}' AS BLOB))
      """
    ) { bind($0, record, body) }
    let channel = ChannelKey(db.lastInsertRowID)
    if let metadata = record.metadata { _ = try store(metadata, of: channel) }
    _ = try storeMembers(record, of: channel)
    if let receipts = record.readReceipts { _ = try store(receipts, joined: nil, of: channel) }
    if case .message(let message) = record.lastMessage {
      try noteUnlisted(message, in: channel, named: record.url)
      try setLastMessage(message, of: channel, version: 0)
    }
    return channel
  }

  /// Stores the fields that came; the others stay (B11).
  private func updateFields(of record: ChannelRecord, _ channel: ChannelKey) throws -> Bool {
    let body =
      record.isWhole ? record.body : try Fields.lay(record.body, over: reader.body(of: channel))
    let changed = try db.run(
      """
      UPDATE channel
      SET name = coalesce(?2, name), name_key = coalesce(?3, name_key),
        custom_type = coalesce(?4, custom_type), created_at = coalesce(?5, created_at),
        is_distinct = coalesce(?6, is_distinct), is_public = coalesce(?7, is_public),
        is_super = coalesce(?8, is_super), is_frozen = coalesce(?9, is_frozen),
        member_count = coalesce(?10, member_count),
        joined_member_count = coalesce(?11, joined_member_count), body = ?12
      WHERE channel_url = ?1
        AND (name, custom_type, created_at, is_distinct, is_public, is_super, is_frozen, member_count,
          joined_member_count, body)
        IS NOT (coalesce(?2, name), coalesce(?4, custom_type), coalesce(?5, created_at),
          coalesce(?6, is_distinct), coalesce(?7, is_public), coalesce(?8, is_super),
          coalesce(?9, is_frozen), coalesce(?10, member_count), coalesce(?11, joined_member_count), ?12)
      """
    ) { bind($0, record, body) }
    guard changed > 0 else { return false }
    try db.run(
      """
      UPDATE membership
      SET name_key = c.name_key, created_at = c.created_at,
        sort_at = iif(membership.sort_at = membership.created_at - ?2, c.created_at - ?2, membership.sort_at)
      FROM channel AS c
      WHERE membership.channel = ?1
        AND c.id = ?1
        AND (membership.name_key, membership.created_at) IS NOT (c.name_key, c.created_at)
      """
    ) {
      $0.bind(1, channel.rawValue)
      $0.bind(2, ChannelColumns.withoutMessage)
    }
    return true
  }

  private func bind(_ statement: Statement, _ record: ChannelRecord, _ body: [UInt8]) {
    statement.bind(1, record.url.text)
    statement.bind(2, record.name)
    statement.bind(3, record.name.map(ChannelColumns.key))
    statement.bind(4, record.customType)
    statement.bind(5, record.createdAt)
    statement.bind(6, record.isDistinct)
    statement.bind(7, record.isPublic)
    statement.bind(8, record.isSuper)
    statement.bind(9, record.isFrozen)
    statement.bind(10, record.memberCount)
    statement.bind(11, record.joinedMemberCount)
    statement.bind(12, copyOf: body)
  }
}

extension ChannelOrigin {
  /// The source of events about anything but reads. A channel that was fetched because members have read on
  /// may have changed in other ways, too.
  package var sourceBesideReads: ChangeSource { source == .read ? .channelRefresh : source }

  /// The source that the events name (B20).
  var source: ChangeSource {
    switch self {
    case .listing, .top: .channelRefresh
    case .changelog: .channelChangelog
    case .refresh(let source): source
    }
  }
}

extension CacheReader {
  /// Whether a view of the channel is open.
  fileprivate func hasViews(_ channel: ChannelKey) throws -> Bool {
    try db.first("SELECT 1 FROM collection INDEXED BY collection_by_channel WHERE channel = ?1 LIMIT 1") {
      $0.bind(1, channel.rawValue)
    } _: { _ in
      true
    } ?? false
  }

  /// Whether exactly this message is stored as the channel's last one.
  fileprivate func isLastMessage(_ message: MessageRecord, of channel: ChannelKey) throws -> Bool {
    try db.first("SELECT last_message FROM channel WHERE id = ?1") {
      $0.bind(1, channel.rawValue)
    } _: {
      $0.holds([UInt8(ascii: "{")] + message.body + [UInt8(ascii: "}")], 0)
    } ?? false
  }

  /// Whether the stored message is newer than this one: it was updated later, or was stored, with the same
  /// time of update, after the answer with this one was asked for.
  fileprivate func hasNewer(
    _ message: MessageRecord, askedAt: Int64?, in channel: ChannelKey
  ) throws -> Bool {
    try db.first(
      """
      SELECT updated_at > ?4 OR (updated_at = ?4 AND version > ?5)
      FROM message
      WHERE channel = ?1 AND created_at = ?2 AND message_id = ?3
      """
    ) {
      $0.bind(1, channel.rawValue)
      $0.bind(2, message.createdAt)
      $0.bind(3, message.messageID)
      $0.bind(4, message.updatedAt)
      $0.bind(5, askedAt ?? .max)
    } _: {
      $0.bool(0)
    } ?? false
  }

  /// The fields all members share, as the API answers them.
  fileprivate func body(of channel: ChannelKey) throws -> [UInt8] {
    try db.first("SELECT body FROM channel WHERE id = ?1") {
      $0.bind(1, channel.rawValue)
    } _: {
      Array($0.bytes(0))
    } ?? Fields.ofChannel
  }
}
