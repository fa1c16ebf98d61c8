import ChatModel
import Platform
import SQLite
import Synchronization

// The chat server tells Perch when a user leaves a channel. After a start, a rest or a lost connection Perch
// does not know whether that happened until it has fetched the user's changes. Meanwhile other members' reads
// and polls go on storing messages. This user is not shown those that were stored since, and is told no event
// of their channels. Cursors stay before them, so that they are told as soon as the changes are known (B1).

/// The users whose changes are not known, each with the sequence of the log up to which they are.
final class KnownRights: Sendable {
  private struct Span {
    /// The last sequence up to which the user's rights are known.
    var until: Int64
    /// Snapshots that were opened at this sequence or later have all that the user's changes tell.
    var knownAgainAt = Int64.max
  }

  private let spans = Guarded<[UserKey: Span]>([:])
  /// The number of users who are held. While there is none, reads take no lock.
  private let held = Atomic<Int>(0)
  /// Snapshots that were opened at this sequence or later have all that the changes of released users tell.
  private let allKnownAt = Atomic<Int64>(0)
  /// The last change of messages or of a channel, durable or about to be.
  private let lastNews = Atomic<Int64>(0)

  /// At a start nobody knows which changes of earlier runs were news.
  func begin(at head: Int64) { lastNews.store(head, ordering: .releasing) }

  /// Notes a change before its commit, if it is one of messages or of a channel.
  func note(_ change: Change, at sequence: Int64) {
    if change.isNews { lastNews.store(sequence, ordering: .releasing) }
  }

  /// Snapshots show the user nothing newer than `sequence` from now on. A user who is held already keeps the
  /// earlier sequence.
  func hold(_ user: UserKey, until sequence: Int64) {
    spans.withLock { spans in
      if let span = spans[user], span.knownAgainAt == .max { return }
      spans[user] = Span(until: sequence)
      held.add(1, ordering: .releasing)
    }
  }

  /// The user may see what was stored up to `sequence`, and stays held for what came later.
  func raise(_ user: UserKey, to sequence: Int64) {
    spans.withLock { spans in
      guard let span = spans[user], span.knownAgainAt == .max else { return }
      spans[user] = Span(until: max(span.until, sequence))
    }
  }

  /// The user's changes are stored, up to `sequence` of the log.
  func release(_ user: UserKey, at sequence: Int64) {
    spans.withLock { spans in
      guard let span = spans[user], span.knownAgainAt == .max else { return }
      spans[user]?.knownAgainAt = sequence
      allKnownAt.max(sequence, ordering: .releasing)
      held.subtract(1, ordering: .releasing)
    }
  }

  /// The last sequence that a snapshot may show the user; nil: it may show all. `opened`: the log's end
  /// before the snapshot was opened.
  func limit(of user: UserKey, opened: Int64) -> Int64? {
    if held.load(ordering: .acquiring) == 0, opened >= allKnownAt.load(ordering: .acquiring) { return nil }
    let limit = spans.withLock { spans -> Int64? in
      guard let span = spans[user], opened < span.knownAgainAt else { return nil }
      return span.until
    }
    guard let limit, lastNews.load(ordering: .acquiring) > limit else { return nil }
    return limit
  }
}

extension Change {
  /// Whether messages or the channel itself changed, for all members. Changes of the cache alone, such as an
  /// eviction, are no news.
  fileprivate var isNews: Bool {
    guard user == nil, channel != nil else { return false }
    return kind == .messages || kind == .messageDeleted || kind == .channel
  }
}

extension Cache {
  /// From now on reads show these users no message that is stored later, until `releaseRights` is called.
  package func holdRights(of users: [UserID]) throws {
    for user in users {
      if let key = try userKey(of: user) { log.rights.hold(key, until: log.head) }
    }
  }

  /// The same for all users, at a start. A user who is disconnected is shown what was stored before the
  /// disconnection: that was the last event of this user alone.
  package func holdRightsOfAll() throws {
    let users = try read { reader in
      try reader.db.all("SELECT id, phase = 'stopped', version FROM user") {
        (key: UserKey($0.int64(0)), isStopped: $0.bool(1), version: $0.int64(2))
      }
    }
    log.rights.begin(at: log.head)
    for user in users { log.rights.hold(user.key, until: user.isStopped ? user.version : log.head) }
  }

  /// The user may see what was stored up to `sequence`, and stays held for what came later.
  package func raiseRights(of user: UserID, to sequence: Int64) throws {
    if let key = try userKey(of: user) { log.rights.raise(key, to: sequence) }
  }

  /// The cursor at this moment for a client of that user. It stays before what the user may not be shown.
  package func cursor(of user: UserKey) -> EventCursor {
    cursor.notAfter(log.rights.limit(of: user, opened: log.head))
  }

  /// The changes of the user are stored: reads show everything again.
  package func releaseRights(of user: UserID) throws {
    if let key = try userKey(of: user) { log.rights.release(key, at: log.head) }
  }
}

extension CacheReader {
  /// The last sequence up to which the user may be shown messages of channels; nil: all of them.
  func rightsLimit(of user: UserKey) -> Int64? { log.rights.limit(of: user, opened: opened) }

  /// Throws `rightsUnknown` if the log does not tell any more what was stored since the user is held.
  package func requireLog(since limit: Int64?) throws {
    if let limit, try limit < oldestKept() - 1 { throw CacheError.rightsUnknown }
  }

  /// Throws `rightsUnknown` if something was stored in the channel that the user may not be shown.
  package func requireKnownRights(in view: ChannelView) throws {
    guard let limit = view.heldAt else { return }
    try requireLog(since: limit)
    if try hasNews(in: view.channel, after: limit) { throw CacheError.rightsUnknown }
  }

  /// The same for all channels of the user.
  package func requireKnownRights(of user: UserKey) throws {
    guard let limit = rightsLimit(of: user) else { return }
    try requireLog(since: limit)
    let channels = try db.all(
      """
      SELECT c.id
      FROM membership AS m
      JOIN channel AS c ON c.id = m.channel
      WHERE m.user = ?1 AND c.version > ?2
      """
    ) {
      $0.bind(1, user.rawValue)
      $0.bind(2, limit)
    } _: {
      ChannelKey($0.int64(0))
    }
    for channel in channels where try hasNews(in: channel, after: limit) { throw CacheError.rightsUnknown }
  }

  /// Whether the channel has news after that sequence (`Change.isNews`).
  private func hasNews(in channel: ChannelKey, after sequence: Int64) throws -> Bool {
    try db.first(
      """
      SELECT 1
      FROM event INDEXED BY event_by_channel
      WHERE channel = ?1 AND user IS NULL AND seq > ?2 AND kind IN (1, 2, 3)
      LIMIT 1
      """
    ) {
      $0.bind(1, channel.rawValue)
      $0.bind(2, sequence)
    } _: { _ in
      true
    } ?? false
  }

  /// The messages of the channel that its user may not be shown.
  func heldMessages(in view: ChannelView) throws -> [Int64] {
    guard let limit = view.heldAt else { return [] }
    try requireLog(since: limit)
    return try db.all(
      """
      SELECT m.message_id
      FROM event AS e INDEXED BY event_by_channel
      CROSS JOIN message AS m
        ON m.channel = e.channel
        AND (m.created_at, m.message_id) >= (e.from_at, e.from_id)
        AND (m.created_at, m.message_id) <= (e.to_at, e.to_id)
      WHERE e.channel = ?1 AND e.user IS NULL AND e.seq > ?2 AND e.kind = 1 AND m.version > ?2
      """
    ) {
      $0.bind(1, view.channel.rawValue)
      $0.bind(2, limit)
    } _: {
      $0.int64(0)
    }
  }

  /// Whether the user may not be shown that message.
  package func isHeld(_ message: Int64, in view: ChannelView) throws -> Bool {
    guard let limit = view.heldAt else { return false }
    return try db.first(
      """
      SELECT version > ?3
      FROM message INDEXED BY message_by_id
      WHERE channel = ?1 AND message_id = ?2
      """
    ) {
      $0.bind(1, view.channel.rawValue)
      $0.bind(2, message)
      $0.bind(3, limit)
    } _: {
      $0.bool(0)
    } ?? false
  }
}
