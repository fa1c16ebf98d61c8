import ChatModel
import SQLite

// Which messages are new: the user's feed tells them as received, each once, whichever request brings them.
//
// The chat server's clock decides it, never the order in which answers come. A message is new to a user if it
// was created after the user came into the channel and after the user's first listing of channels. It is not
// new again after it was cleared or evicted.
//
// The first messages of a channel may be stored before it is known that the user is in it, because another
// user of this cache is. Changes that follow the user's joining tell of them.

/// Which messages are new when a channel stores them for the first time.
struct NewMessages {
  /// Messages that were created later are new to some member; nil: it is not known.
  var after: Int64?
  /// Messages up to this position were stored once, and then cleared or evicted.
  var knownTo: Position?

  /// Whether a message at that position is new to some member; nil: it is not known.
  func contain(_ position: Position) -> Bool? {
    if let knownTo, position <= knownTo { return false }
    return after.map { position.createdAt > $0 }
  }
}

extension CacheReader {
  /// Which messages are new in the channel.
  func newMessages(in channel: ChannelKey) throws -> NewMessages {
    try db.first("SELECT new_after, known_to_at, known_to_id FROM channel WHERE id = ?1") {
      $0.bind(1, channel.rawValue)
    } _: { row in
      NewMessages(
        after: row.int64OrNil(0),
        knownTo: row.isNull(1) ? nil : Position(createdAt: row.int64(1), messageID: row.int64(2)))
    } ?? NewMessages()
  }

  /// The time after which the channel's messages are new to the user; nil: it is not known, or the user has
  /// not joined.
  fileprivate func newAfter(forJoined user: UserKey, in channel: ChannelKey) throws -> Int64? {
    try db.first("SELECT new_after FROM membership WHERE user = ?1 AND channel = ?2 AND state = 'joined'") {
      $0.bind(1, user.rawValue)
      $0.bind(2, channel.rawValue)
    } _: {
      $0.int64OrNil(0)
    } ?? nil
  }

  /// The newest time in the user's first listing of channels; nil: none of its pages is stored.
  fileprivate func listedTo(of user: UserKey) throws -> Int64? {
    try db.first("SELECT listed_to FROM user WHERE id = ?1") {
      $0.bind(1, user.rawValue)
    } _: {
      $0.int64OrNil(0)
    } ?? nil
  }
}

extension CacheWriter {
  /// An empty batch of changes of the channel's messages.
  func batch(of channel: ChannelKey, _ source: ChangeSource) throws -> MessageBatch {
    MessageBatch(channel, source, try reader.newMessages(in: channel))
  }

  /// The time after which messages are new to a user who comes into a channel; nil: it is not known. A time
  /// in the future counts as now.
  ///
  /// Up to the last message of the answer none is new if the user's first listing shows the channel
  /// (`isListed`), or if the answer does not say when the user came.
  func newAfter(
    for user: UserKey, _ record: MembershipRecord, _ lastMessage: ChannelRecord.LastMessage, isListed: Bool
  ) throws -> Int64? {
    let came = min(max(record.joinedAt ?? 0, record.invitedAt ?? 0), now)
    let last: Int64? = if case .message(let message) = lastMessage { message.createdAt } else { nil }
    guard let listedTo = try reader.listedTo(of: user) else {
      // A webhook named the channel before the listing began, perhaps because of this last message.
      if let last { return last - 1 }
      return lastMessage == .none && came > 0 ? came - 1 : nil
    }
    if isListed { return max(last ?? came - 1, listedTo) }
    return came > 0 ? max(came, listedTo) - 1 : last
  }

  /// Notes that messages after that time are new to a user who came into the channel. `isAlone`: no other
  /// user of this cache is in it.
  func beginNewMessages(in channel: ChannelKey, after time: Int64?, isAlone: Bool) throws {
    if isAlone {
      try db.run("UPDATE channel SET new_after = ?2 WHERE id = ?1") {
        $0.bind(1, channel.rawValue)
        $0.bind(2, time)
      }
    } else if let time {
      try db.run("UPDATE channel SET new_after = ?2 WHERE id = ?1 AND (new_after IS NULL OR new_after > ?2)")
      {
        $0.bind(1, channel.rawValue)
        $0.bind(2, time)
      }
    }
  }

  /// Notes that messages after the newest known one are new in a channel of which that was not known.
  func beginNewMessages(in channel: ChannelKey, after coverage: Coverage) throws {
    guard let known = coverage.newestKnown else { return }
    try beginNewMessages(in: channel, after: known.createdAt, isAlone: false)
  }

  /// Notes the event by which the user joined the channel.
  func noteJoining(_ sequence: Int64, of user: UserKey, in channel: ChannelKey) throws {
    try db.run("UPDATE membership SET gained_version = ?3 WHERE user = ?1 AND channel = ?2") {
      $0.bind(1, user.rawValue)
      $0.bind(2, channel.rawValue)
      $0.bind(3, sequence)
    }
  }

  /// Appends changes for messages that are new to the user who joined, and that the cache had already because
  /// another user is in the channel.
  func tellMissed(by user: UserKey, in channel: ChannelKey, _ source: ChangeSource) throws {
    guard let newAfter = try reader.newAfter(forJoined: user, in: channel) else { return }
    // This commit may have stored some of them.
    for slice in try slices(of: Position.first(at: newAfter) ... .end, in: channel, upTo: .max) {
      var change = Change(.missedMessages, source, channel: channel, user: user)
      change.stretch = slice.stretch
      try append(change)
    }
  }

  /// Messages up to `position` were stored once: they are not new again.
  func noteKnown(to position: Position, in channel: ChannelKey) throws {
    try db.run(
      """
      UPDATE channel
      SET known_to_at = ?2, known_to_id = ?3
      WHERE id = ?1 AND (known_to_at IS NULL OR (known_to_at, known_to_id) < (?2, ?3))
      """
    ) {
      $0.bind(1, channel.rawValue)
      $0.bind(2, position.createdAt)
      $0.bind(3, position.messageID)
    }
  }

  /// Widens the stretch of the event with that sequence, so that it still tells of a message that it stored
  /// and that has another time now.
  func widenChange(_ sequence: Int64, to position: Position) throws {
    try db.run(
      """
      UPDATE event
      SET
        from_at = iif((from_at, from_id) < (?3, ?4), from_at, ?3),
        from_id = iif((from_at, from_id) < (?3, ?4), from_id, ?4),
        to_at = iif((to_at, to_id) > (?3, ?4), to_at, ?3),
        to_id = iif((to_at, to_id) > (?3, ?4), to_id, ?4)
      WHERE seq = ?1 AND kind = ?2 AND from_at IS NOT NULL
      """
    ) {
      $0.bind(1, sequence)
      $0.bind(2, ChangeKind.messages.rawValue)
      $0.bind(3, position.createdAt)
      $0.bind(4, position.messageID)
    }
  }

  /// Notes the newest time in a page of the user's first listing of channels. A time in the future does not
  /// count.
  func noteListed(_ page: [ChannelRecord], of user: UserKey) throws {
    let newest = page.map(\.newestTime).max() ?? 0
    try db.run("UPDATE user SET listed_to = max(coalesce(listed_to, 0), ?2) WHERE id = ?1") {
      $0.bind(1, user.rawValue)
      $0.bind(2, min(newest, now))
    }
  }
}

extension ChannelRecord {
  /// The newest of the times that it names.
  fileprivate var newestTime: Int64 {
    let last: Int64 = if case .message(let message) = lastMessage { message.createdAt } else { 0 }
    return max(last, createdAt ?? 0, membership?.joinedAt ?? 0, membership?.invitedAt ?? 0)
  }
}
